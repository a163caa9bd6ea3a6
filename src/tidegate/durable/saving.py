"""Everything that a push changes, put on the disk in one transaction."""

from __future__ import annotations

import json
from typing import Any

from tidegate._version import __version__
from tidegate.durable.inputs import InputDigests
from tidegate.durable.journal import HEAD_BYTES, encoded, merged
from tidegate.durable.store import Store, UserRows
from tidegate.durable.users import UserLog
from tidegate.lattice import IntArray
from tidegate.ledger import Ledger
from tidegate.phases import Phase
from tidegate.pieces import Piece
from tidegate.release import Release
from tidegate.sealing import restore, seal, state_of


class Saving:
    """What the folder knows of a release: journal, sealed state, digests of the input, users."""

    def __init__(self, store: Store, ledger: Ledger, release: Release, key: bytes | None) -> None:
        self._store = store
        self._ledger = ledger
        self._release = release
        self._key = key
        self.digests = InputDigests(release.derived_key("input"), release.pipeline.lattice.top)
        self._fresh_digests = b""
        self._users: UserLog | None = None
        if release.user_cap is not None:
            self._users = UserLog(release.user_cap, release.derived_key("users"))
        self.head = bytes(HEAD_BYTES)  # of the journal
        self.phases: list[Phase] = []
        self.unsaved = 0  # values that were taken since the last commit

    def begin(self, source: str) -> None:
        """Have the identity of the noise on the disk before the first value is read."""
        facts = {
            "settings": json.dumps(self._release.pipeline.settings()).encode(),
            "source": source.encode(),
            "version": __version__.encode(),
        }
        users = self._user_rows()
        self._store.begin(facts, self._state(self.head), users)

    def resume(self, body: dict[str, Any]) -> None:
        """Go on from the content of a sealed state."""
        restore(self.digests, body["digests"])
        self.head = body["journal head"]
        if self._users is not None:
            self._users.head = body["users head"]
            self._users.read(self._store.users(), self._key)
        self.phases = self._store.phases()

    def take(self, units: IntArray, users: Any) -> None:
        """These inputs were read."""
        self._fresh_digests += self.digests.push(units, users)
        self.unsaved += units.size

    def commit(self, released: list[Piece]) -> None:
        """What was taken and released since the last commit."""
        key, head, journal = self._release.derived_key("journal"), self.head, []
        for piece in merged(released):
            body, head = encoded(piece, head, key)
            journal.append(body)
        known = self.phases[-1].start if self.phases else -1
        fresh = [phase for phase in self._release.phases if phase.start > known]
        users = self._user_rows()
        self._store.commit(self._state(head), journal, self._fresh_digests, fresh, users)
        self.head, self._fresh_digests, self.unsaved = head, b"", 0
        self.phases += fresh

    def change_key(self, key: bytes | None) -> None:
        """Seal all of it with another key."""
        self._key = key
        users = self._user_rows(whole=True)
        self._store.replace_state(self._state(self.head), {}, users)

    def erase(self) -> None:
        """Remove everything secret."""
        self._store.replace_state(b"erased", {"erased": b"yes"}, UserRows(anew=True))

    def _user_rows(self, *, whole: bool = False) -> UserRows:
        """What the counts of users add; before `_state`, which remembers the head of the chain."""
        return UserRows() if self._users is None else self._users.fresh(self._key, whole=whole)

    def _state(self, head: bytes) -> bytes:
        body = {
            "snapshot": self._release.snapshot(brief=True, users=False),
            "users head": b"" if self._users is None else self._users.head,
            "digests": state_of(self.digests),
            "journal head": head,
            "ledger count": self._ledger.count,
            "ledger head": self._ledger.head,
        }
        header = {
            "content": "durable state",
            "epoch": self._release.epoch,
            "position": self._release.position,
        }
        return seal(header, body, self._key)
