"""`StateFile`: the SQLite file of a state: tables, opening, locking, closing.

Every commit is one transaction with `synchronous=FULL`: after a kill or a power cut the file holds
the last complete commit. Files are 0600 in a folder 0700. Deleted content is overwritten
(`secure_delete`), as far as a file system lets us, and never goes to a temporary file.

When a whole state is replaced (another key, erasure, a new epoch) old pages remain in the file and
its log until `scrub` has rewritten them. The transaction that replaces the state records that this
is due, and the next opening does it if a crash came in between.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tidegate import _atomic_files
from tidegate._atomic_files import InheritedFile
from tidegate.durable.folder_lock import FolderLock, StateError, StorageError
from tidegate.errors import MissingError, TidegateError
from tidegate.run.phased_run import Phase

FORMAT = 5
SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1), body BLOB NOT NULL);
CREATE TABLE journal (number INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE users (number INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE inputs (number INTEGER PRIMARY KEY, digests BLOB NOT NULL);
CREATE TABLE phases (start INTEGER PRIMARY KEY, threshold REAL NOT NULL, epoch TEXT NOT NULL);
"""
WAY_ON = (
    "restore it, or begin again with "
    "new_epoch=True (--new-epoch), which is charged (see the runbook)"
)
COLUMNS = "columns.json"
_STATES = {
    "state.sqlite": "a release without keys",
    "keys.sqlite": "a release with keys",
    "service.sqlite": "a service",
    COLUMNS: "a release of several columns",
}
TABLES = ("facts", "state", "journal", "users", "inputs", "phases")
# The floor of a phase is a fact of its own, and only where it is not 0: older states can be
# continued.
SELECT_PHASES = """
SELECT start, threshold, epoch, coalesce(value, 0.0)
FROM phases LEFT JOIN facts ON name = 'floor ' || start ORDER BY start
"""
# In memory: VACUUM would put a copy of everything into a temporary file on another disk.
PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON", "temp_store=MEMORY")


@dataclass
class StateUserRows:
    """Rows about users that one commit adds, or with `replace` writes instead of all others."""

    bodies: list[bytes] = field(default_factory=list)
    replace: bool = False


class StateChanges(NamedTuple):
    """What one commit adds in addition to the state."""

    journal: list[bytes]
    inputs: bytes
    phases: list[Phase]
    users: StateUserRows


def write_phases(database: sqlite3.Connection, phases: Iterable[Phase]) -> None:
    """Add phases, in the open transaction."""
    for phase in phases:
        row = (phase.start, phase.threshold, phase.epoch)
        database.execute("INSERT INTO phases VALUES (?, ?, ?)", row)
        if phase.floor:
            fact = (f"floor {phase.start}", phase.floor)
            database.execute("INSERT INTO facts VALUES (?, ?)", fact)


def refuse_other_states(folder: Path, own: str) -> None:
    """Refuse a second state in a folder: the lock file stores the newest commit of one."""
    for name, kind in _STATES.items():
        if name != own and (folder / name).exists():
            raise StateError(f"{folder} has the state of {kind}: use another folder")


DATABASE_ERRORS = (sqlite3.Error, UnicodeDecodeError)  # messages of the latter quote content


class StateFile(InheritedFile):
    """An SQLite file in a locked folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()  # the working directory may change
        self.lock = FolderLock(self.folder)
        self._database: sqlite3.Connection | None = None
        self._name: _atomic_files.FileOfOneName | None = None
        self.disowned = False  # by a forked process
        self.guard()

    # -- opening and closing ---------------------------------------------------------------------

    def exists(self) -> bool:
        """Whether a release ever began here."""
        return self._file.exists()

    def discard(self) -> None:
        """Remove an unreadable state; the caller must hold the lock.

        The file first, and durably: without it the log means nothing to SQLite, but a file
        without its log would be an older state.
        """
        try:
            for suffix in ("", "-wal", "-shm"):
                _atomic_files.remove(self._file.with_name(self._file.name + suffix))
                _atomic_files.sync_folder(self.folder)
        except OSError as error:
            problem = f"cannot remove the old state in {self.folder}: {error.strerror}"
            raise StorageError(problem) from None

    def open(self, *, create: bool) -> None:
        """Open the file, and lock the folder unless it is locked; a new file gets its tables."""
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
            if isinstance(error, DATABASE_ERRORS):
                raise self._explained(error) from None
            if isinstance(error, OSError):
                problem = f"cannot write the state in {self.folder}: {error.strerror}"
                raise StorageError(problem) from None
            raise

    def _connect(self) -> None:
        refuse_other_states(self.folder, self._file.name)
        if not self.exists():
            _atomic_files.close(_atomic_files.create(self._file))
        self._name = _atomic_files.FileOfOneName(self._file)
        self._check_name()
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
        _atomic_files.sync_folder(self.folder)
        if self.fact("scrub") is not None:
            self.scrub()

    def let_go(self) -> None:
        """Close the file, but keep the lock."""
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
        """Leave the file and the lock to the parent; called in the forked process.

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

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Run one transaction; convert errors of the database to ours."""
        try:
            with self.database as database:
                database.execute("BEGIN IMMEDIATE")
                self._check_name()
                yield database
        except DATABASE_ERRORS as error:
            raise self._explained(error) from None

    def _check_name(self) -> None:
        """Refuse a file with other names, which the folder's lock would not guard."""
        trouble = None if self._name is None else self._name.trouble
        if trouble:
            raise StateError(f"{self._file} {trouble}. Two releases would share noise")

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

    def scrub(self) -> None:
        """Overwrite replaced data, in the file and in its log."""
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

    def _one(self, query: str, values: tuple[Any, ...] = ()) -> Any:
        return next(iter(self._all(query, values)), None)

    def _all(self, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
        try:
            return self.database.execute(query, values).fetchall()
        except DATABASE_ERRORS as error:
            raise self._explained(error) from None
