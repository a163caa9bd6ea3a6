"""`UserLog`: counts of users on disk: sometimes a full table, otherwise changes by commit.

The rows are chained by a keyed hash (`_hash_chain`) whose head is in the state, so that a changed
or missing row is noticed. Names of users are secret: rows are sealed like the state.
"""

from __future__ import annotations

from typing import Any

from tidegate._hash_chain import START, chain_head, chain_link
from tidegate.durable.folder_lock import StateError
from tidegate.durable.state_file import StateUserRows
from tidegate.errors import SnapshotError
from tidegate.run.user_cap import UserCap
from tidegate.sealing import seal, unseal
from tidegate.state_as_bytes import understood

# Rows that are read again when the state is opened, at most; then a full table is written.
_ROWS = 4096
_NAMES = 1 << 16


class UserLog:
    """Stores the counts of a `UserCap` in rows."""

    def __init__(self, cap: UserCap, digest_key: bytes, head: bytes = START) -> None:
        self._cap = cap
        self._digest_key = digest_key
        self._rows = self._names = 0
        self._period = -2  # the period of the full table on disk; none yet
        self.head = head

    def fresh(self, key: bytes | None, *, whole: bool = False) -> StateUserRows:
        """The changes since the last call, sealed with `key`."""
        cap = self._cap
        names, cap.fresh = cap.fresh or [], []
        if whole or cap.period != self._period or self._rows > _ROWS or self._names > _NAMES:
            self._period, self._rows, self._names = cap.period, 0, 0
            body = seal({"content": "users"}, {"whole": cap.state()}, key)
            self.head = chain_link(START, body, self._digest_key)
            return StateUserRows([body], replace=True)
        if not names:
            return StateUserRows()
        self._rows, self._names = self._rows + 1, self._names + len(names)
        body = seal({"content": "users"}, {"names": names}, key)
        self.head = chain_link(self.head, body, self._digest_key)
        return StateUserRows([body])

    def read(self, bodies: list[bytes], key: bytes | None) -> None:
        """Restore the counts from rows; `head` must equal that in the state."""
        if chain_head(bodies, self._digest_key) != self.head:
            raise StateError(_TAMPERED)
        for body in bodies:
            try:
                _, content = unseal(body, key)
                with understood():
                    self._take(content)
            except SnapshotError:
                raise StateError(_TAMPERED) from None
        self._period = self._cap.period
        self._cap.fresh = []

    def _take(self, content: dict[str, Any]) -> None:
        if "whole" in content:
            self._cap.restore(content["whole"])
            return
        self._cap.count_again(content["names"])
        self._rows, self._names = self._rows + 1, self._names + len(content["names"])


_TAMPERED = (
    "the counts of users are damaged: restore the state, or begin again with "
    "new_epoch=True (--new-epoch)"
)
