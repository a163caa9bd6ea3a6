"""`ServerStore`: the server's SQLite file: everything that must change together.

A batch of reports is one transaction (`synchronous=FULL`): what was accepted, from whom, and how
many were rejected. It is on the disk before the call that took it returns: SQLite writes it to the
log beside the file (`-wal`, a quarter of the waiting of a rollback journal) and waits for the
disk. After a kill or a power cut file and log hold whole batches; they belong together until the
server is closed, or opened and closed once more, which leaves the file alone.

The state of the collection is written when a round closes and now and then, and between those the
accepted reports are kept as they came: so a single report costs a small write, and loading replays
at most `_MOST_REPORTS` of them, within a second.

Each client of the open round is stored as a digest of 24 bytes.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tidegate.errors import TidegateError
from tidegate.lattice import IntArray
from tidegate.local.narrow_integers import narrowed_integers, widened_integers
from tidegate.local.report_checks import REASONS
from tidegate.local.server_store_place import ServerStateError, ServerStorageError, ServerStorePlace
from tidegate.ownership import Ownership, refused_as

__all__ = ["ServerStateError", "ServerStorageError", "ServerStore"]

Kept = TypeVar("Kept", bool, int, str)

FORMAT = 2
_APPLICATION = 0x54474C31  # "TGL1", in the header of the file; both again at the schema's end
_MOST_REPORTS = 1 << 22  # in the journal, ...
_MOST_ROWS = 1 << 16  # ... and batches of them
_MOST_IN_ROW = 1 << 20
_LONGEST = 1 << 26  # bytes of anything that is stored; the state has 5 million or so
_SCHEMA = """
PRAGMA journal_mode=WAL;
BEGIN;
CREATE TABLE facts (name TEXT PRIMARY KEY, value NOT NULL);
CREATE TABLE journal (
    number INTEGER PRIMARY KEY, count INTEGER NOT NULL, slots BLOB NOT NULL, reports BLOB NOT NULL
);
CREATE TABLE seen (client BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE rejected (reason TEXT PRIMARY KEY, count INTEGER NOT NULL);
INSERT INTO facts VALUES ('generation', 0);
PRAGMA application_id=0x54474C31;
PRAGMA user_version=2;
COMMIT;
"""


class ServerStore:
    """The file of one collection; without a path, in memory."""

    def __init__(self, path: Path | None, *, create: bool) -> None:
        self.path = path
        self._name = "the collection" if path is None else str(path)
        self._waiting = self._rows = 0  # reports in the journal, and batches
        # What its server does when another process has changed the file.
        self.reload: Callable[[], None] = lambda: None
        self._ownership = Ownership("server", "close it and open it again")
        self._closed = False
        try:
            self._place = None if path is None else ServerStorePlace(path, create)
            self._database = self._opened(self._place)
            self._check_format(new=create)
            self._generation = self._checked_generation()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._explained(error) from None
        except OSError as error:
            raise ServerStorageError(f"cannot use {path}: {error.strerror}") from None

    def __repr__(self) -> str:  # reports are as secret as what devices sent
        return f"<Store {self._name}>"

    @staticmethod
    def _opened(place: ServerStorePlace | None) -> sqlite3.Connection:
        where = ":memory:" if place is None else f"{place.real.as_uri()}?mode=rw"
        # The server lets one thread in at a time.
        database = sqlite3.connect(
            where, isolation_level=None, uri=place is not None, check_same_thread=False
        )
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
        return database

    def _check_format(self, *, new: bool) -> None:
        self._database.execute("PRAGMA synchronous=FULL")
        (tables,) = self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (kind,) = self._database.execute("PRAGMA application_id").fetchone()
        if new or not (tables or kind):  # empty: a power cut while it was made; it was not yet used
            self._database.executescript(_SCHEMA)
        (kind,) = self._database.execute("PRAGMA application_id").fetchone()
        (version,) = self._database.execute("PRAGMA user_version").fetchone()
        if (kind, version) != (_APPLICATION, FORMAT):
            raise ServerStateError(f"{self._name} is no state of a server, or of another version")

    def _checked_generation(self) -> int:
        """The number of changes of the file, which reveals those of another process."""
        generation = self.fact("generation")
        if type(generation) is not int:
            raise self._damaged()
        return generation

    def close(self) -> None:
        """Close the file; everything committed is on the disk."""
        self._closed = True
        self._database.close()

    @property
    def turn(self) -> AbstractContextManager[Any]:
        """The lock of the store, for `with`; refuses in a forked process, where it could hang."""
        with refused_as(ServerStateError):
            return self._ownership.lock

    @property
    @contextmanager
    def committed(self) -> Iterator[None]:
        """A context that refuses if memory may be ahead of the file, which must not be shown."""
        with self.turn:
            with refused_as(ServerStateError):
                self._ownership.check()
            yield

    @property
    @contextmanager
    def latest(self) -> Iterator[None]:
        """Like `committed`, after reading what another process has written."""
        with self.turn:
            if self.path is not None and self.fact("generation") != self._generation:
                with self.transaction():
                    pass
            with self.committed:
                yield

    def whole(self, change: Callable[[], None]) -> None:
        """Change memory as a whole; after a failure, refuse until the file is opened again."""
        self._ownership.whole(change)

    # -- reading ---------------------------------------------------------------------------------

    def fact(self, name: str) -> Any:
        """The bytes stored under a name; None: nothing."""
        rows = self._rows_of("SELECT value FROM facts WHERE name = ?", (name,))
        return rows[0][0] if rows else None

    def plain(self, name: str) -> Any:
        """The parsed JSON stored under a name."""
        text = self.fact(name)
        try:
            return None if text is None else json.loads(text)
        except (ValueError, TypeError, RecursionError):
            raise self._damaged() from None

    def kept(self, name: str, kind: type[Kept]) -> Kept:
        """The parsed JSON stored under a name; refuses if it is missing or of another type."""
        value = self.plain(name)
        if type(value) is not kind:
            raise self._damaged()
        return value

    def journal(self) -> tuple[IntArray, IntArray]:
        """Slots and reports since the state was written, in order of acceptance."""
        slots, reports = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        for count, *columns in self._rows_of(
            "SELECT count, slots, reports FROM journal ORDER BY number LIMIT ?", (_MOST_ROWS,)
        ):
            try:
                if not 0 < count <= _MOST_REPORTS - self._waiting:
                    raise ValueError("more than is ever kept")
                pair = [widened_integers(column, count) for column in columns]
            except (ValueError, TypeError):
                raise self._damaged() from None
            slots.append(pair[0])
            reports.append(pair[1])
            self._waiting += count
        self._rows = len(slots) - 1
        return np.concatenate(slots), np.concatenate(reports)

    def rejected(self) -> Counter[str]:
        """How many reports were rejected, by reason."""
        counts = dict(self._rows_of("SELECT reason, count FROM rejected LIMIT 100"))
        if not all(reason in REASONS and type(count) is int for reason, count in counts.items()):
            raise self._damaged()
        return Counter(counts)

    def _rows_of(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """All rows at once: a damaged row raises only when it is fetched."""
        try:
            return self._database.execute(query, values).fetchall()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._explained(error) from None

    # -- writing ---------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction. After a failure this object refuses everything: memory may be ahead."""
        if self._closed:
            raise ServerStateError(f"{self._name} is closed: open it")
        if self._place is not None:
            self._place.check()
        with refused_as(ServerStateError):
            self._ownership.begin()
        try:
            self._database.execute("BEGIN IMMEDIATE")
            moved = self._database.execute(
                "UPDATE facts SET value = value + 1 WHERE name = 'generation' AND value = ?",
                (self._generation,),
            )
            if moved.rowcount != 1:
                self._catch_up()
            yield
            self._database.execute("COMMIT")
        except BaseException as error:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise self._explained(error) from None
            raise
        self._generation += 1
        with refused_as(ServerStateError):
            self._ownership.done()

    def _catch_up(self) -> None:
        """Load what another process has written, unless the file is older than before."""
        self._generation, before = self._checked_generation(), self._generation
        if self._generation < before:
            raise ServerStateError(f"{self._name} was replaced by an older copy: open it again")
        self._waiting = self._rows = 0
        self.reload()
        self._database.execute("UPDATE facts SET value = value + 1 WHERE name = 'generation'")

    def set_facts(self, facts: Mapping[str, Any]) -> None:
        """Store plain data under names."""
        rows = [(name, json.dumps(value)) for name, value in facts.items()]
        self._database.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", rows)

    def is_new(self, client: str) -> bool:
        """Add a client of the open round; False if it is known."""
        name = hashlib.blake2b(client.encode(), digest_size=16).digest()
        added = self._database.execute("INSERT OR IGNORE INTO seen VALUES (?)", (name,))
        return added.rowcount == 1

    def forget_clients(self) -> None:
        """Forget the clients: the round is closed."""
        self._database.execute("DELETE FROM seen")

    def append(self, slots: IntArray, reports: IntArray) -> None:
        """Append accepted reports to the journal; without a file, do nothing."""
        if self.path is None:
            return
        for start in range(0, len(slots), _MOST_IN_ROW):
            pair = [column[start : start + _MOST_IN_ROW] for column in (slots, reports)]
            self._database.execute(
                "INSERT INTO journal (count, slots, reports) VALUES (?, ?, ?)",
                (len(pair[0]), *map(narrowed_integers, pair)),
            )
            self._rows += 1
        self._waiting += len(slots)

    def count_rejected(self, counts: Mapping[str, int]) -> None:
        """Add to the counts of rejected reports, by reason."""
        self._database.executemany(
            "INSERT INTO rejected VALUES (?, ?) "
            "ON CONFLICT (reason) DO UPDATE SET count = count + excluded.count",
            list(counts.items()),
        )

    @property
    def state_is_old(self) -> bool:
        """Whether loading would replay many reports."""
        return self._waiting >= _MOST_REPORTS or self._rows >= _MOST_ROWS

    def write_state(self, state: Mapping[str, Any]) -> None:
        """Write the state with the whole journal applied, and drop the journal."""
        self.set_facts({"state": state})
        self._database.execute("DELETE FROM journal")
        self._waiting = self._rows = 0

    def _explained(self, error: sqlite3.Error | UnicodeDecodeError) -> TidegateError:
        # The disk, or a file that is not there. (Other messages might quote what was stored.)
        if isinstance(error, sqlite3.OperationalError) and "decode" not in str(error):
            return ServerStorageError(f"cannot read or write {self._name}: {error}")
        return self._damaged()

    def _damaged(self) -> ServerStateError:
        return ServerStateError(f"{self._name} is damaged, or no state of a server")
