"""One database for everything that must change together: SQLite in a folder, or PostgreSQL.

One process writes. A second one is fenced off: by the lock of the folder, and on PostgreSQL also by
an advisory lock that the writing connection holds, and loses with it. Every transaction counts
itself, in the database and in the folder's lock file: a database that was restored to an earlier
time is noticed, because noise that has left must not meet other values.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Connection,
    Engine,
    bindparam,
    create_engine,
    delete,
    event,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool, QueuePool

from tidegate import _atomic_files
from tidegate._atomic_files import InheritedFile
from tidegate.durable import StateError, StorageError
from tidegate.durable.folder_lock import Anchor, FolderLock
from tidegate.durable.state_file import refuse_other_states
from tidegate.randomness import random_bytes
from tidegate.service import database_schema
from tidegate.service.ledger_mirror import LedgerMirror

_ADVISORY = 0x7469_6465_6761_7465  # "tidegate", as a number of 64 bits
_PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON", "temp_store=MEMORY")
_READERS = 8
_COUNT = (
    update(database_schema.meta)
    .where(database_schema.meta.c.name == "commits")
    .values(value=bindparam("new"))
)
FILE = "service.sqlite"
RESTORED = "restored"  # a mark in the database itself: it came from a backup
_WAIT = 5  # seconds for a connection, or for SQLite's lock
_PATIENCE = 3  # seconds: PostgreSQL frees the lock of a connection a moment after it has ended


class Database(InheritedFile):
    """The writing connection, and connections for reading.

    Args:
        folder: holds the lock, the anchor of commits, and the SQLite file.
        url: `postgresql://…`; None: SQLite.
        new_epoch: take a database that was restored to an earlier time; its streams begin anew.

    Attributes:
        restored: it was: what is in memory of its streams must not be continued.
        mirror: a copy of the ledger outside the database.
    """

    def __init__(self, folder: Path, url: str | None = None, *, new_epoch: bool = False) -> None:
        self.folder = folder.absolute()
        self._url = url
        self.restored = self._new_epoch = new_epoch
        self.mirror = LedgerMirror(self.folder)
        self.lock = FolderLock(self.folder)
        self._writer: Engine | None = None
        self._readers: Engine | None = None
        self._connection: Connection | None = None
        self._commits: Anchor = (0, "")
        self._name: _atomic_files.FileOfOneName | None = None  # of the SQLite file
        self.guard()

    @property
    def kind(self) -> str:
        """`sqlite` or `postgresql`."""
        return "sqlite" if self._url is None else "postgresql"

    # -- opening and closing ---------------------------------------------------------------------

    def open(self) -> None:
        """Lock the folder, connect, migrate the tables."""
        self.lock.acquire()
        try:
            self._engines()
            with self.transaction() as connection:
                database_schema.migrate_schema(connection)
                self._commits = _stored_database(connection)
                meta = database_schema.meta
                marked = connection.execute(delete(meta).where(meta.c.name == RESTORED))
                self.restored = self._new_epoch or marked.rowcount > 0
                self._check_not_restored()
        except BaseException:
            self.close()
            raise

    def _engines(self) -> None:
        if self._url is None:
            path = self.folder / FILE
            refuse_other_states(self.folder, FILE)
            if not path.exists():
                _atomic_files.close(_atomic_files.create(path))
            self._name = _atomic_files.FileOfOneName(path)
            self._check_name()
            url = f"sqlite:///{path}"
        else:
            url = self._url.replace("postgresql://", "postgresql+psycopg://", 1)
        # Parameters are raw state: never in a message or a log.
        common: dict[str, Any] = {"hide_parameters": True, "logging_name": "database"}
        try:
            self._writer = create_engine(url, poolclass=NullPool, **common)
            pool = {"pool_size": _READERS, "pool_timeout": _WAIT}
            # A server that was restarted has dropped its connections: they are tried before use.
            lively = self._url is not None
            self._readers = create_engine(
                url, poolclass=QueuePool, pool_pre_ping=lively, **pool, **common
            )
        except (SQLAlchemyError, ImportError) as error:
            raise StateError(f"--database cannot be used: {type(error).__name__}") from None
        if self._url is None:
            _prepare_sqlite_database(self._writer, "BEGIN IMMEDIATE")
            _prepare_sqlite_database(self._readers, "BEGIN")

    def _check_name(self) -> None:
        """Refuse an SQLite file with other names: the lock would not guard it."""
        trouble = None if self._name is None else self._name.trouble
        if trouble:
            raise StateError(f"{self.folder / FILE} {trouble}. Two services would share noise")

    def _check_not_restored(self) -> None:
        kept = self.lock.commit
        if kept is None or self._commits[0] > kept[0] or self._commits == kept:
            return
        if self.restored:
            self._commits = kept  # transactions count on from there
            return
        raise StateError(
            f"the database is older than its last commit (it has {self._commits[0]}, and "
            f"{self.folder / 'lock'} has seen {kept[0]}): it was restored. Put the newest back. "
            "If it is gone, begin a new epoch of every stream with --new-epoch, which is charged"
        )

    def close(self) -> None:
        """Close all connections, and unlock the folder."""
        self._disconnect()
        for engine in (self._writer, self._readers):
            if engine is not None:
                engine.dispose()
        self.lock.release()

    def disown(self) -> None:
        """Neither use nor close the connections; called in the forked process (`StateFile`)."""
        for thing in (self._connection, self._writer, self._readers):
            self.keep_for_ever(thing)
        self._connection = self._writer = self._readers = None
        self.lock.release()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except SQLAlchemyError:
                connection.invalidate()

    # -- transactions ----------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """One transaction of the writer; durable when this returns.

        Raises:
            StorageError: the database did not take it, or its answer was lost: then nobody knows
                whether it is there, and what is in memory must be read from it again.
        """
        try:
            connection = self._connected()
            with connection.begin():
                yield connection
                self._check_name()
                after = self._counted(connection)
        except SQLAlchemyError as error:
            self.mirror.drop()
            self._disconnect()
            raise StorageError(
                f"the database did not take a change ({type(error).__name__}); nothing was released"
            ) from None
        except BaseException:
            self.mirror.drop()
            raise
        if after is not None:
            self._commits = after
            self.lock.keep_commit(after)
        self.mirror.keep()

    def _counted(self, connection: Connection) -> Anchor | None:
        """Count this transaction. None: there are no tables yet, or this is the first."""
        number, name = self._commits[0] + 1, random_bytes(32).hex()
        found = connection.execute(_COUNT, {"new": f"{number} {name}"})
        if not found.rowcount:
            return None
        return number, name

    def _connected(self) -> Connection:
        if self._connection is None:
            if self._writer is None:
                raise StateError("the database is closed")
            connection = self._writer.connect()
            if self._url is not None:
                if not _locked_for_writing(connection):
                    connection.close()
                    raise StateError(
                        "another service writes to this database: two would share noise. "
                        "Stop it first"
                    )
                connection.commit()
            self._connection = connection
        return self._connection

    @property
    def connection(self) -> Connection:
        """The open transaction of the writer."""
        if self._connection is None or not self._connection.in_transaction():
            raise AssertionError("only inside a transaction")
        return self._connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection for reading committed data, beside the writer."""
        if self._readers is None:
            raise StateError("the database is closed")
        try:
            with self._readers.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise StorageError(f"the database cannot be read ({type(error).__name__})") from None


def _locked_for_writing(connection: Connection) -> bool:
    """Whether this connection has the lock of the only writer, at once or after a short wait."""
    end = time.monotonic() + _PATIENCE
    while True:
        got = connection.execute(text("SELECT pg_try_advisory_lock(:k)"), {"k": _ADVISORY})
        if got.scalar():
            return True
        if time.monotonic() > end:
            return False
        time.sleep(0.05)


def _stored_database(connection: Connection) -> Anchor:
    """The count and the name of the last transaction; created for a new database."""
    meta = database_schema.meta
    found = connection.execute(select(meta.c.value).where(meta.c.name == "commits")).scalar()
    if found is None:
        connection.execute(insert(meta).values(name="commits", value="0 " + "0" * 64))
        return 0, "0" * 64
    number, name = found.split(" ")
    return int(number), name


def _prepare_sqlite_database(engine: Engine, begin: str) -> None:
    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: object) -> None:
        connection.isolation_level = None  # transactions are begun below
        for pragma in (*_PRAGMAS, f"busy_timeout={1000 * _WAIT}"):
            connection.execute(f"PRAGMA {pragma}").close()

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        connection.exec_driver_sql(begin)
