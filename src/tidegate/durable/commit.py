"""`Committer`: writes everything that a push changes, in one transaction."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from tidegate._hash_chain import START
from tidegate._version import __version__
from tidegate.durable.folder_lock import Anchor, StateError
from tidegate.durable.input_digests import InputDigests
from tidegate.durable.journal import encoded_journal_entry, merged_journal_entries
from tidegate.durable.state_file import WAY_ON, StateChanges, StateUserRows
from tidegate.durable.state_stores import StateStore
from tidegate.durable.user_counts_log import UserLog
from tidegate.lattice import IntArray
from tidegate.ledger import Ledger
from tidegate.record.segments.journal_entry import JournalEntry
from tidegate.run.phased_run import Phase
from tidegate.run.release import Release
from tidegate.sealing import seal
from tidegate.state_as_bytes import restore, state_of


class CommittedFacts(NamedTuple):
    """The public facts of the last commit. Replaced in one step.

    Attributes:
        rows: of the journal.
        head: of the chain of these rows.
        position: how many values were released.
        phases: every threshold so far.
    """

    rows: int
    head: bytes
    position: int
    phases: tuple[Phase, ...]


class CountedCommits:
    """What everything that commits to a folder knows: how often, and whether with a key."""

    _number: int
    _key: bytes | None

    @property
    def commits(self) -> int:
        """How many commits its folder has seen, over all epochs."""
        return self._number

    @property
    def sealed(self) -> bool:
        """Whether the state is sealed with a key."""
        return self._key is not None


class Committer(CountedCommits):
    """Writes a release into its folder: journal, sealed state, input digests, counts of users."""

    def __init__(
        self, store: StateStore, ledger: Ledger, release: Release, key: bytes | None
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._release = release
        self._key = key
        self._source = ""
        lattice = release.pipeline.lattice
        self.digests = InputDigests(release.derived_key("input"), lattice.top + lattice.bottom)
        self._fresh_digests = b""
        self._users: UserLog | None = None
        if release.user_cap is not None:
            self._users = UserLog(release.user_cap, release.derived_key("users"))
        self.committed = CommittedFacts(0, START, 0, ())
        self._number = 0  # of the last commit in this folder, over all epochs
        self.unsaved = 0  # values that were taken since the last commit
        self.offset = ""  # where the values came from, if a broker delivers them

    def begin(self, source: str) -> None:
        """Store the identity of the noise before the first value is read."""
        facts = {
            "settings": json.dumps(self._release.pipeline.settings()).encode(),
            "source": source.encode(),
            "version": __version__.encode(),
        }
        self._source = source
        self._number = newest[0] if (newest := self._store.lock.commit) else 0
        users = self._user_rows(whole=True)
        state = self._state(self.committed.head)
        self._store.begin(facts, state, users, self._anchor)
        self._committed_once(self.committed.head)

    def resume(self, body: dict[str, Any]) -> None:
        """Restore the content of a sealed state."""
        self._source, self._number = body["source"], body["commits"]
        self.offset = body.get("offset", "")
        restore(self.digests, body["digests"])
        if self._users is not None:
            self._users.head = body["users head"]
            self._users.read(self._store.users(), self._key)
        phases = tuple(self._store.phases())
        head, position = body["journal head"], self._release.position
        if position and not set(self._release.phases) <= set(phases):  # which the seal covers
            raise StateError(f"the state in {self._store.place} is damaged: {WAY_ON}")
        self.committed = CommittedFacts(self._store.journal_length(), head, position, phases)

    def take(self, units: IntArray, users: Any, times: IntArray | None) -> None:
        """Note inputs that were read."""
        self._fresh_digests += self.digests.push(units, users, times)
        self.unsaved += units.size

    def commit(self, released: list[JournalEntry]) -> None:
        """Commit what was taken and released since the last commit."""
        key, before = self._release.derived_key("journal"), self.committed
        head, journal = before.head, []
        for entry in merged_journal_entries(released):
            body, head = encoded_journal_entry(entry, head, key)
            journal.append(body)
        known = before.phases[-1].start if before.phases else -1
        fresh = [phase for phase in self._release.phases if phase.start > known]
        users = self._user_rows()
        after = CommittedFacts(
            before.rows + len(journal), head, self._release.position, (*before.phases, *fresh)
        )
        changes = StateChanges(journal, self._fresh_digests, fresh, users)
        self._store.commit(self._state(head), self._anchor, changes)
        self._committed_once(head)
        self.committed = after
        self._fresh_digests, self.unsaved = b"", 0

    def change_key(self, key: bytes | None) -> None:
        """Seal everything with another key, or with none, after a commit."""
        if self.unsaved:
            self.commit([])
        before, self._key = self._key, key
        try:
            users = self._user_rows(whole=True)
            self._store.replace_state(self._state(self.committed.head), {}, users)
            self._committed_once(self.committed.head)
        except BaseException:
            self._key = before  # the caller's ownership refuses everything else
            raise
        self._store.scrub()

    def erase(self) -> None:
        """Erase everything secret."""
        self._store.replace_state(b"erased", {"erased": b"yes"}, StateUserRows(replace=True))
        self._committed_once(self.committed.head)
        self._store.scrub()

    def _committed_once(self, head: bytes) -> None:
        """Note, outside the state, that this commit is on the disk: see `folder_lock`."""
        self._number += 1
        self._store.lock.keep_commit((self._number, head.hex()))

    @property
    def _anchor(self) -> Anchor:
        return self._ledger.count, self._ledger.head

    def _user_rows(self, *, whole: bool = False) -> StateUserRows:
        """New rows for the counts of users. Call it before `_state`, which stores their head."""
        return StateUserRows() if self._users is None else self._users.fresh(self._key, whole=whole)

    def _state(self, head: bytes) -> bytes:
        body = {
            "source": self._source,
            "snapshot": self._release.snapshot(brief=True, users=False),
            "users head": b"" if self._users is None else self._users.head,
            "digests": state_of(self.digests),
            "journal head": head,
            "commits": self._number + 1,
            "ledger count": self._ledger.count,
            "ledger head": self._ledger.head,
            "offset": self.offset,
        }
        header = {
            "content": "durable state",
            "epoch": self._release.epoch,
            "position": self._release.position,
        }
        return seal(header, body, self._key)
