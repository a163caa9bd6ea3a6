"""`StateStore`: the contract of a store; `FolderStore`: a durable release in its folder.

`FolderStore` keeps one release in a folder, `service.sql_stream_state` many of them in one
database. A commit of the first is a transaction of its own; commits of the second join the
transaction of a group, and what they release leaves after that.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Protocol

from tidegate.durable import state_file
from tidegate.durable.folder_lock import Anchor, StateError
from tidegate.durable.state_file import (
    DATABASE_ERRORS,
    TABLES,
    StateChanges,
    StateFile,
    StateUserRows,
)
from tidegate.ledger import Ledger
from tidegate.run.phased_run import Phase


class StoredAnchors(Protocol):
    """Stores, outside the state, the newest ledger entry and the newest commit.

    With it a state or a ledger that was put back to an earlier time is noticed.
    """

    @property
    def anchor(self) -> Anchor | None:
        """The stored newest entry of the ledger."""

    @property
    def commit(self) -> Anchor | None:
        """The stored newest commit."""

    def keep(self, anchor: Anchor) -> None:
        """Store the ledger's newest entry, durably."""

    def keep_commit(self, anchor: Anchor) -> None:
        """Store the newest commit, after it is durable and before its values leave."""


class ChargedStore(Protocol):
    """A place with a ledger to charge, and with anchors outside the state."""

    @property
    def place(self) -> str:
        """The place, for messages."""

    @property
    def lock(self) -> StoredAnchors:
        """The anchors outside the state."""

    @property
    def own_ledger(self) -> bool:
        """Whether the ledger belongs to this release alone; a shared one stays open."""

    @property
    def default_source(self) -> str:
        """The default name of the source."""

    def ledger(self, *, cap: Any, expected: Anchor | None, needed: bool) -> Ledger:
        """The ledger. A missing one is created, unless it is `needed` after earlier charges."""

    def close(self) -> None:
        """Close everything."""


class StateStore(ChargedStore, Protocol):
    """Stores the state, journal, phases, users and input digests of one release."""

    disowned: bool  # by a forked process

    def begin(
        self, facts: dict[str, bytes], state: bytes, users: StateUserRows, anchor: Anchor
    ) -> None:
        """Make the first commit of a release, replacing an earlier state."""

    def commit(self, state: bytes, anchor: Anchor, changes: StateChanges) -> None:
        """Commit a new state and all other new rows together."""

    def replace_state(self, state: bytes, facts: dict[str, bytes], users: StateUserRows) -> None:
        """Replace the state (another key, or erasure); `scrub` must follow."""

    def scrub(self) -> None:
        """Overwrite replaced data."""

    def fact(self, name: str) -> bytes | None:
        """A public fact."""

    def anchor(self) -> Anchor | None:
        """The ledger's newest entry at the last commit. None: no release has begun."""

    def state(self) -> bytes | None:
        """The last committed state. None: the release was created but has not begun."""

    def journal_length(self) -> int:
        """The number of rows in the journal. Rows are never removed."""

    def journal_rows(self, start: int, end: int) -> list[bytes]:
        """Rows [start, end) of the journal, counted from 0; at most a few megabytes of them."""

    def journal(self, start: int, end: int) -> Iterator[bytes]:
        """Rows [start, end) of the journal."""

    def users(self) -> list[bytes]:
        """The rows with counts of users, in order."""

    def phases(self) -> list[Phase]:
        """All phases so far."""

    def inputs(self) -> bytes:
        """All input digests, concatenated."""


_READ_AT_ONCE = 1 << 22  # bytes of the journal
NO_LEDGER = (
    "the ledger {} is missing, so it is not known what was spent: put it back. If it is gone for "
    "good, count what the outputs say (`tidegate show`) and use another folder"
)


class FolderStateFile(StateFile):
    """The SQLite file of a state in a folder, with the ledger beside it."""

    own_ledger = True

    @property
    def place(self) -> str:
        """The folder, for messages."""
        return str(self.folder)

    @property
    def default_source(self) -> str:
        """The name of the folder."""
        return self.folder.resolve().name

    def ledger(self, *, cap: Any, expected: Anchor | None, needed: bool) -> Ledger:
        """The ledger of the folder. A missing one is created, unless it is `needed`."""
        path = self.folder / "ledger.jsonl"
        if needed and not path.exists():
            raise StateError(NO_LEDGER.format(path))
        return Ledger.open(path, cap=cap, expected=expected)


class FolderStore(FolderStateFile):
    """The files of one durable release."""

    def begin(
        self, facts: dict[str, bytes], state: bytes, users: StateUserRows, anchor: Anchor
    ) -> None:
        """Make the first commit of a release, replacing an earlier state.

        `scrub` must follow: it overwrites the old pages.
        """
        with self._transaction() as database:
            (old,) = database.execute("SELECT count(*) FROM facts").fetchone()
            for table in TABLES:
                database.execute(f"DELETE FROM {table}")  # noqa: S608  # names of ours
            _store_users(database, users)
            _store_facts(database, {**facts, **({"scrub": b"due"} if old else {})})
            _store_facts(database, {"anchor": json.dumps(anchor).encode()})
            database.execute("INSERT INTO state VALUES (1, ?)", (state,))

    def commit(self, state: bytes, anchor: Anchor, changes: StateChanges) -> None:
        """Commit a new state and all other new rows in one transaction."""
        with self._transaction() as database:
            _store_users(database, changes.users)
            _store_facts(database, {"anchor": json.dumps(anchor).encode()})
            database.execute("UPDATE state SET body = ? WHERE one = 1", (state,))
            database.executemany(
                "INSERT INTO journal (body) VALUES (?)", [(row,) for row in changes.journal]
            )
            if changes.inputs:
                database.execute("INSERT INTO inputs (digests) VALUES (?)", (changes.inputs,))
            state_file.write_phases(database, changes.phases)

    def replace_state(self, state: bytes, facts: dict[str, bytes], users: StateUserRows) -> None:
        """Replace the state (another key, or erasure); `scrub` must follow."""
        with self._transaction() as database:
            _store_users(database, users)
            database.execute("UPDATE state SET body = ? WHERE one = 1", (state,))
            _store_facts(database, {**facts, "scrub": b"due"})

    def anchor(self) -> Anchor | None:
        """The ledger's newest entry at the last commit. None: no release has begun."""
        fact = self.fact("anchor")
        if fact is None:
            return None
        try:
            count, head = json.loads(fact)
            return int(count), str(head)
        except (ValueError, TypeError, OverflowError, RecursionError):
            raise self._damaged() from None

    def state(self) -> bytes | None:
        """The last committed state. None: the release was created but has not begun."""
        row = self._one("SELECT body FROM state WHERE one = 1")
        return None if row is None else self._bytes(row[0])

    def journal_length(self) -> int:
        """The number of rows in the journal. Rows are never removed."""
        return int(self._one("SELECT ifnull(max(number), 0) FROM journal")[0])

    def journal_rows(self, start: int, end: int) -> list[bytes]:
        """Rows [start, end) of the journal, counted from 0; at most a few megabytes of them."""
        found: list[bytes] = []
        query = "SELECT body FROM journal WHERE number > ? AND number <= ? ORDER BY number"
        size = 0
        try:
            with closing(self.database.execute(query, (start, end))) as rows:
                for (body,) in rows:
                    found.append(self._bytes(body))
                    size += len(body)
                    if size >= _READ_AT_ONCE:
                        break
        except DATABASE_ERRORS as error:
            raise self._explained(error) from None
        return found

    def journal(self, start: int, end: int) -> Iterator[bytes]:
        """Rows [start, end) of the journal; no statement stays open between rows."""
        while start < end and (rows := self.journal_rows(start, end)):
            yield from rows
            start += len(rows)

    def users(self) -> list[bytes]:
        """The rows with counts of users, in order."""
        rows = self._all("SELECT body FROM users ORDER BY number")
        return [self._bytes(body) for (body,) in rows]

    def phases(self) -> list[Phase]:
        """All phases so far."""
        rows = self._all(state_file.SELECT_PHASES)
        if any([*map(type, row)] != [int, float, str, float] for row in rows):
            raise self._damaged()
        return [Phase(*row) for row in rows]

    def inputs(self) -> bytes:
        """All input digests, concatenated."""
        rows = self._all("SELECT digests FROM inputs ORDER BY number")
        return b"".join(self._bytes(digests) for (digests,) in rows)


def _store_facts(database: sqlite3.Connection, facts: dict[str, bytes]) -> None:
    database.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())


def _store_users(database: sqlite3.Connection, users: StateUserRows) -> None:
    if users.replace:
        database.execute("DELETE FROM users")
    database.executemany("INSERT INTO users (body) VALUES (?)", [(row,) for row in users.bodies])
