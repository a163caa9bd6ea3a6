"""One SQLite file for everything that must change together.

Every commit is one transaction with `synchronous=FULL`: after a kill or a power cut the file holds
the last complete commit. Files are 0600 in a folder 0700. Deleted content is overwritten
(`secure_delete`), as far as a file system lets us, and never goes to a temporary file.

When a whole state is replaced (another key, erasure, a new epoch) old pages remain in the file and
its log until `scrub` has rewritten them. The transaction that replaces the state records that this
is due, and the next opening does it if a crash came in between.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tidegate import _files
from tidegate._forks import Inherited
from tidegate.durable import tables
from tidegate.durable.folder import Anchor, FolderLock, StateError, StorageError
from tidegate.durable.tables import FORMAT, PRAGMAS, SCHEMA, TABLES, Changes, UserRows
from tidegate.errors import MissingError, TidegateError
from tidegate.run.phased_run import Phase

_READ_AT_ONCE = 1 << 22  # bytes of the journal


class Store(Inherited):
    """The files of one durable release."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = FolderLock(folder)
        self._database: sqlite3.Connection | None = None
        self.disowned = False  # by a forked process
        self.guard()

    # -- opening and closing ---------------------------------------------------------------------

    def exists(self) -> bool:
        """Whether a release was ever begun here."""
        return self._file.exists()

    def discard(self) -> None:
        """Remove a state that cannot be read; the lock must be held.

        The file first, and durably: without it the log means nothing to SQLite, but a file
        without its log would be an older state.
        """
        try:
            for suffix in ("", "-wal", "-shm"):
                _files.remove(self._file.with_name(self._file.name + suffix))
                _files.sync_folder(self.folder)
        except OSError as error:
            problem = f"cannot remove the old state in {self.folder}: {error.strerror}"
            raise StorageError(problem) from None

    def open(self, *, create: bool) -> None:
        """Open the file, and lock the folder if it is not locked; a new file gets its tables."""
        if not create and not self.exists():
            raise MissingError(f"there is no state in {self.folder}")
        held = self.lock.held
        if not held:
            self.lock.acquire()
        try:
            self._connect()
        except BaseException as error:
            self.let_go()
            if not held:
                self.lock.release()
            if isinstance(error, _DATABASE):
                raise self._explained(error) from None
            if isinstance(error, OSError):
                problem = f"cannot write the state in {self.folder}: {error.strerror}"
                raise StorageError(problem) from None
            raise

    def _connect(self) -> None:
        if not self.exists():
            _files.close(_files.create(self._file))
        database = sqlite3.connect(self._file, isolation_level=None, check_same_thread=False)
        self._database = database
        for setting in PRAGMAS:
            with closing(database.execute(f"PRAGMA {setting}")):
                pass
        if database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
            database.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version={FORMAT}; COMMIT;")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version != FORMAT:
            raise StateError(
                f"the state in {self.folder} has format {version}; this Tidegate reads {FORMAT}"
            )
        _files.sync_folder(self.folder)
        if self.fact("scrub") is not None:
            self.scrub()

    def let_go(self) -> None:
        """Close the file; keep the lock."""
        database, self._database = self._database, None
        if database is not None:
            database.close()

    def close(self) -> None:
        """Close the file and unlock the folder."""
        try:
            self.let_go()
        finally:
            self.lock.release()

    def disown(self) -> None:
        """In a forked process: the file and the lock belong to the parent.

        The connection is neither used nor closed here: closing may remove a log that is not empty,
        and with it what the parent, or a process after it, has committed.
        """
        self.disowned = True
        database, self._database = self._database, None
        self.keep_for_ever(database)
        self.lock.release()

    @property
    def _file(self) -> Path:
        return self.folder / "state.sqlite"

    @property
    def database(self) -> sqlite3.Connection:
        """The open connection."""
        if self._database is None:
            raise StateError(f"the state in {self.folder} is closed")
        return self._database

    # -- content ---------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """One transaction; errors of the database become ours."""
        try:
            with self.database as database:
                database.execute("BEGIN IMMEDIATE")
                yield database
        except _DATABASE as error:
            raise self._explained(error) from None

    def _explained(self, error: BaseException) -> TidegateError:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        # The disk, not the content: a missing table or column has the general code.
        if isinstance(error, sqlite3.OperationalError) and code != sqlite3.SQLITE_ERROR:
            return StorageError(f"cannot write the state in {self.folder}: {error}")
        return self._damaged()

    def _damaged(self) -> StateError:
        return StateError(f"the state in {self.folder} is damaged: {WAY_ON}")

    def _bytes(self, value: object) -> bytes:
        if isinstance(value, bytes):
            return value
        raise self._damaged()  # damaged content can be a number, or nothing

    def begin(self, facts: dict[str, bytes], state: bytes, users: UserRows, anchor: Anchor) -> None:
        """Make the first commit of a release, in place of an earlier state.

        `scrub` must follow: it overwrites the old pages.
        """
        with self._transaction() as database:
            (old,) = database.execute("SELECT count(*) FROM facts").fetchone()
            for table in TABLES:
                database.execute(f"DELETE FROM {table}")  # noqa: S608  # names of ours
            _write_users(database, users)
            _write_facts(database, {**facts, **({"scrub": b"due"} if old else {})})
            _write_facts(database, {"anchor": json.dumps(anchor).encode()})
            database.execute("INSERT INTO state VALUES (1, ?)", (state,))

    def commit(self, state: bytes, anchor: Anchor, changes: Changes) -> None:
        """Commit a new state and new rows of everything else, in one transaction."""
        with self._transaction() as database:
            _write_users(database, changes.users)
            _write_facts(database, {"anchor": json.dumps(anchor).encode()})
            database.execute("UPDATE state SET body = ? WHERE one = 1", (state,))
            database.executemany(
                "INSERT INTO journal (body) VALUES (?)", [(row,) for row in changes.journal]
            )
            if changes.inputs:
                database.execute("INSERT INTO inputs (digests) VALUES (?)", (changes.inputs,))
            tables.write_phases(database, changes.phases)

    def replace_state(self, state: bytes, facts: dict[str, bytes], users: UserRows) -> None:
        """Replace the state (another key, or erasure); `scrub` must follow."""
        with self._transaction() as database:
            _write_users(database, users)
            database.execute("UPDATE state SET body = ? WHERE one = 1", (state,))
            _write_facts(database, {**facts, "scrub": b"due"})

    def scrub(self) -> None:
        """Overwrite what was replaced, in the file and in its log."""
        if self.fact("scrub") is None:
            return
        try:
            self.database.execute("VACUUM")
            busy, *_ = self.database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:
                raise sqlite3.OperationalError("something else reads it")
        except sqlite3.Error as error:
            raise StorageError(
                f"the new state is in {self.folder}, but the old one could not be overwritten and "
                f"may still be read from the files there: {error}. Make room, and open it again "
                "(`tidegate state show`): that overwrites it"
            ) from None
        with self._transaction() as database:
            database.execute("DELETE FROM facts WHERE name = 'scrub'")

    def fact(self, name: str) -> bytes | None:
        """A public fact."""
        row = self._one("SELECT value FROM facts WHERE name = ?", (name,))
        return None if row is None else self._bytes(row[0])

    def anchor(self) -> Anchor | None:
        """The ledger's newest entry at the last commit; None: the release was not begun."""
        fact = self.fact("anchor")
        if fact is None:
            return None
        try:
            count, head = json.loads(fact)
            return int(count), str(head)
        except (ValueError, TypeError, OverflowError, RecursionError):
            raise self._damaged() from None

    def state(self) -> bytes | None:
        """The last committed state; None: the release was created but not begun."""
        row = self._one("SELECT body FROM state WHERE one = 1")
        return None if row is None else self._bytes(row[0])

    def journal_length(self) -> int:
        """How many rows the journal has. Rows are never removed."""
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
        except _DATABASE as error:
            raise self._explained(error) from None
        return found

    def journal(self, start: int, end: int) -> Iterator[bytes]:
        """Rows [start, end) of the journal; no statement stays open between them."""
        while start < end and (rows := self.journal_rows(start, end)):
            yield from rows
            start += len(rows)

    def users(self) -> list[bytes]:
        """The rows that count users, in order."""
        rows = self._all("SELECT body FROM users ORDER BY number")
        return [self._bytes(body) for (body,) in rows]

    def phases(self) -> list[Phase]:
        """Every phase so far."""
        rows = self._all(tables.SELECT_PHASES)
        if any([*map(type, row)] != [int, float, str, float] for row in rows):
            raise self._damaged()
        return [Phase(*row) for row in rows]

    def inputs(self) -> bytes:
        """All input digests, one after the other."""
        rows = self._all("SELECT digests FROM inputs ORDER BY number")
        return b"".join(self._bytes(digests) for (digests,) in rows)

    def _one(self, query: str, values: tuple[Any, ...] = ()) -> Any:
        return next(iter(self._all(query, values)), None)

    def _all(self, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
        try:
            return self.database.execute(query, values).fetchall()
        except _DATABASE as error:
            raise self._explained(error) from None


_DATABASE = (sqlite3.Error, UnicodeDecodeError)  # the latter: its message quotes damaged content
WAY_ON = "restore it, or begin again with --new-epoch, which is charged (see the runbook)"


def _write_facts(database: sqlite3.Connection, facts: dict[str, bytes]) -> None:
    database.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())


def _write_users(database: sqlite3.Connection, users: UserRows) -> None:
    if users.replace:
        database.execute("DELETE FROM users")
    database.executemany("INSERT INTO users (body) VALUES (?)", [(row,) for row in users.bodies])
