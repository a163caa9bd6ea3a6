"""The contract of a store: a folder, or a shared database.

`durable.folder_store` keeps one release in a folder, `service.sql_stream_state` many of them in one
database. A commit of the first is a transaction of its own; commits of the second join the
transaction of a group, and what they release leaves after that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from tidegate.durable.folder_lock import Anchor
from tidegate.durable.state_file import Changes, UserRows
from tidegate.ledger import Ledger
from tidegate.run.run_base import Phase


class Anchors(Protocol):
    """Keeps, outside the state, what was last seen: of the ledger, and of the commits.

    With it a state or a ledger that was put back to an earlier time is noticed.
    """

    @property
    def anchor(self) -> Anchor | None:
        """The ledger's newest entry that was kept."""

    @property
    def commit(self) -> Anchor | None:
        """The newest commit that was kept."""

    def keep(self, anchor: Anchor) -> None:
        """Keep the ledger's newest entry, durably."""

    def keep_commit(self, anchor: Anchor) -> None:
        """Keep the newest commit, once it is durable and before its values leave."""


class ChargedStore(Protocol):
    """A place with a ledger, that a release is charged to, and anchors outside the state."""

    @property
    def place(self) -> str:
        """Where it is, for messages."""

    @property
    def lock(self) -> Anchors:
        """What is kept outside the state."""

    @property
    def own_ledger(self) -> bool:
        """Whether the ledger counts this release alone; else it is shared, and stays open."""

    def ledger(self, *, cap: Any, expected: Anchor | None, needed: bool) -> Ledger:
        """The ledger. A missing one is created unless it is `needed`: something was charged."""

    def close(self) -> None:
        """Let go of everything."""


class StateStore(ChargedStore, Protocol):
    """Keeps state, journal, phases, users and input digests of one release."""

    disowned: bool  # by a forked process

    @property
    def default_source(self) -> str:
        """The name of the source, if none was given."""

    def begin(self, facts: dict[str, bytes], state: bytes, users: UserRows, anchor: Anchor) -> None:
        """Make the first commit of a release, in place of an earlier state."""

    def commit(self, state: bytes, anchor: Anchor, changes: Changes) -> None:
        """Commit a new state and new rows of everything else, together."""

    def replace_state(self, state: bytes, facts: dict[str, bytes], users: UserRows) -> None:
        """Replace the state (another key, or erasure); `scrub` must follow."""

    def scrub(self) -> None:
        """Overwrite what was replaced."""

    def fact(self, name: str) -> bytes | None:
        """A public fact."""

    def anchor(self) -> Anchor | None:
        """The ledger's newest entry at the last commit; None: the release was not begun."""

    def state(self) -> bytes | None:
        """The last committed state; None: the release was created but not begun."""

    def journal_length(self) -> int:
        """How many rows the journal has. Rows are never removed."""

    def journal_rows(self, start: int, end: int) -> list[bytes]:
        """Rows [start, end) of the journal, counted from 0; at most a few megabytes of them."""

    def journal(self, start: int, end: int) -> Iterator[bytes]:
        """Rows [start, end) of the journal."""

    def users(self) -> list[bytes]:
        """The rows that count users, in order."""

    def phases(self) -> list[Phase]:
        """Every phase so far."""

    def inputs(self) -> bytes:
        """All input digests, one after the other."""
