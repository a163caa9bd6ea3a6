"""One folder on disk: a SQLite file for everything that must change together, and a lock.

Every commit is one transaction with `synchronous=FULL`: after a kill or a power cut the file holds
the last commit, whole. Files are 0600 in a folder 0700. Deleted content is overwritten
(`secure_delete`), as far as a file system lets us.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate import _files
from tidegate.errors import RefusedError, SettingError, TidegateError
from tidegate.phases import Phase

FORMAT = 2
_SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1), body BLOB NOT NULL);
CREATE TABLE journal (number INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE users (number INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE inputs (number INTEGER PRIMARY KEY, digests BLOB NOT NULL);
CREATE TABLE phases (start INTEGER PRIMARY KEY, threshold REAL NOT NULL, epoch TEXT NOT NULL);
"""


@dataclass
class UserRows:
    """What one commit writes about users: rows to add, or to put in place of all others."""

    bodies: list[bytes] = field(default_factory=list)
    anew: bool = False


class StateError(RefusedError):
    """Durable state cannot be used: locked, damaged, lost, or of other settings."""


class StorageError(TidegateError):
    """The disk did not take the state: full, or failing. What was committed before is intact."""


class Store:
    """The files of one durable release. Use as a context manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock: int | None = None
        self._database: sqlite3.Connection | None = None

    # -- opening and closing ---------------------------------------------------------------------

    def exists(self) -> bool:
        """Whether a release was ever begun here."""
        return self._file.exists()

    def lock(self) -> None:
        """Keep other processes out, until `close`."""
        try:
            _files.make_folder(self.folder, 0o700)
            self._lock = _files.open_lock(self.folder / "lock")
        except OSError as error:
            raise SettingError("state", f"cannot use {self.folder}: {error.strerror}") from None
        if self._lock is None:
            raise StateError(
                f"another process is at work in {self.folder}: two would share noise. Stop it first"
            )

    def discard(self) -> None:
        """Remove the state; the lock must be held."""
        try:
            for suffix in ("", "-wal", "-shm"):
                _files.remove(self._file.with_name(self._file.name + suffix))
        except OSError as error:
            problem = f"cannot remove the old state in {self.folder}: {error.strerror}"
            raise StorageError(problem) from None

    def open(self, *, create: bool) -> None:
        """Open the file (the folder is locked if it was not); a new one gets its tables."""
        if not create and not self.exists():
            raise StateError(f"there is no state in {self.folder}")
        if self._lock is None:
            self.lock()
        try:
            if not self.exists():
                _files.close(_files.create(self._file))
            database = sqlite3.connect(self._file, isolation_level=None, check_same_thread=False)
            self._database = database
            for setting in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON"):
                with closing(database.execute(f"PRAGMA {setting}")):
                    pass
            if database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
                database.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version={FORMAT}; COMMIT;")
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version != FORMAT:
                raise StateError(
                    f"the state in {self.folder} has format {version}; this Tidegate reads {FORMAT}"
                )
            _files.sync_folder(self.folder)
        except sqlite3.Error as error:
            self.close()
            raise self._explained(error) from None
        except OSError as error:
            self.close()
            raise StorageError(
                f"cannot write the state in {self.folder}: {error.strerror}"
            ) from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the lock; everything committed is on the disk."""
        if self._database is not None:
            self._database.close()
            self._database = None
        if self._lock is not None:
            lock, self._lock = self._lock, None
            _files.unlock(lock)

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
        """All or nothing; errors of the database become ours."""
        try:
            with self.database as database:
                database.execute("BEGIN IMMEDIATE")
                yield database
        except sqlite3.Error as error:
            raise self._explained(error) from None

    def _explained(self, error: sqlite3.Error) -> TidegateError:
        if isinstance(error, sqlite3.OperationalError):  # the disk, not the content
            return StorageError(f"cannot write the state in {self.folder}: {error}")
        return StateError(f"the state in {self.folder} is damaged: {_WAY_ON}")

    def begin(self, facts: dict[str, bytes], state: bytes, users: UserRows) -> None:
        """The first commit of a new release."""
        with self._transaction() as database:
            _write_users(database, users)
            database.executemany("INSERT INTO facts VALUES (?, ?)", facts.items())
            database.execute("INSERT INTO state VALUES (1, ?)", (state,))

    def commit(
        self,
        state: bytes,
        journal: list[bytes],
        inputs: bytes,
        phases: list[Phase],
        users: UserRows,
    ) -> None:
        """New state, and new rows of everything else: all or nothing."""
        with self._transaction() as database:
            _write_users(database, users)
            database.execute("UPDATE state SET body = ? WHERE one = 1", (state,))
            database.executemany(
                "INSERT INTO journal (body) VALUES (?)", [(row,) for row in journal]
            )
            if inputs:
                database.execute("INSERT INTO inputs (digests) VALUES (?)", (inputs,))
            rows = [(phase.start, phase.threshold, phase.epoch) for phase in phases]
            database.executemany("INSERT INTO phases VALUES (?, ?, ?)", rows)

    def replace_state(self, state: bytes, facts: dict[str, bytes], users: UserRows) -> None:
        """Write the state anew (another key, or nothing secret left), and leave no old copy."""
        with self._transaction() as database:
            _write_users(database, users)
            database.execute("UPDATE state SET body = ? WHERE one = 1", (state,))
            database.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())
        try:
            self.database.execute("VACUUM")
            self.database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:
            raise StorageError(
                f"the new state is in {self.folder}, but the old one could not be overwritten and "
                f"may still be read from the files there: {error}. Make room, and give the command "
                "again (after `rekey` with the new key; after `erase`, delete state.sqlite instead)"
            ) from None

    def fact(self, name: str) -> bytes | None:
        """A public fact, as written at the beginning."""
        row = self._read("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else bytes(row[0])

    def state(self) -> bytes | None:
        """The last committed state; None: the release was created but not begun."""
        row = self._read("SELECT body FROM state WHERE one = 1").fetchone()
        return None if row is None else bytes(row[0])

    def journal(self, start: int = 0) -> Iterator[bytes]:
        """The journal's rows in order, from row `start` on, counted from 0."""
        query = "SELECT body FROM journal WHERE number > ? ORDER BY number"  # SQLite counts from 1
        try:
            for (body,) in self._read(query, (start,)):
                yield bytes(body)
        except sqlite3.Error as error:
            raise self._explained(error) from None

    def users(self) -> list[bytes]:
        """The rows that count users, in order."""
        return [bytes(body) for (body,) in self._read("SELECT body FROM users ORDER BY number")]

    def phases(self) -> list[Phase]:
        """Every phase so far."""
        return [Phase(*row) for row in self._read("SELECT * FROM phases ORDER BY start")]

    def inputs(self) -> bytes:
        """All input digests, one after the other."""
        rows = self._read("SELECT digests FROM inputs ORDER BY number")
        return b"".join(bytes(digests) for (digests,) in rows)

    def _read(self, query: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        try:
            return self.database.execute(query, values)
        except sqlite3.Error as error:
            raise self._explained(error) from None


_WAY_ON = "restore it, or begin again with --new-epoch, which is charged (see the runbook)"


def _write_users(database: sqlite3.Connection, users: UserRows) -> None:
    if users.anew:
        database.execute("DELETE FROM users")
    rows = [(body,) for body in users.bodies]
    database.executemany("INSERT INTO users (body) VALUES (?)", rows)
