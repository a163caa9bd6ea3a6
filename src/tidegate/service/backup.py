"""Backup and restore of a service on SQLite. PostgreSQL has tools of its own."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from tidegate import _atomic_files
from tidegate.durable import StateError, StorageError
from tidegate.durable.folder_lock import FolderLock
from tidegate.errors import MissingError, RefusedError
from tidegate.service import ledger_mirror
from tidegate.service.database import FILE, RESTORED


def make_backup(folder: Path, target: Path) -> None:
    """Copy the database and the ledger into a new folder; the service may be running.

    The copy is one transaction's state. It is as secret as the database.
    """
    source = folder / FILE
    if not source.exists():
        raise MissingError(f"there is no database in {folder}")
    if target.exists():
        raise RefusedError(f"{target} exists: give a new folder")
    _atomic_files.make_folder(target, 0o700)
    _atomic_files.close(_atomic_files.create(target / FILE))
    try:
        with (
            closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as reading,
            closing(sqlite3.connect(target / FILE)) as writing,
        ):
            reading.backup(writing)
        ledger = folder / ledger_mirror.NAME
        if ledger.exists():
            _atomic_files.replace_file(target / ledger_mirror.NAME, ledger.read_bytes())
    except (sqlite3.Error, OSError) as error:
        shutil.rmtree(target, ignore_errors=True)
        raise StorageError(f"the backup was not made: {type(error).__name__}") from None


def restore_from_backup(backup: Path, folder: Path) -> None:
    """Replace a lost database by a backup. The service must not run.

    The database is marked: its streams begin new epochs, charged, when the service opens it. The
    ledger in the folder stays if there is one: it has later charges.
    """
    if not (backup / FILE).exists():
        raise MissingError(f"there is no backup in {backup}")
    lock = FolderLock(folder)
    lock.acquire()
    try:
        if (folder / FILE).exists():
            raise StateError(
                f"{folder / FILE} exists: move it away first, with its -wal file. While it is "
                "there it is the newest state, and the right one to use"
            )
        try:
            for suffix in ("-wal", "-shm"):
                _atomic_files.remove(folder / f"{FILE}{suffix}")
            # Marked before it gets its name: a power cut leaves no database, or a marked one.
            unnamed = folder / f"{FILE}.restored"
            _atomic_files.remove(unnamed)
            _atomic_files.close(_atomic_files.create(unnamed))
            shutil.copyfile(backup / FILE, unnamed)  # piece by piece: it may exceed the memory
            with closing(sqlite3.connect(unnamed)) as database, database:
                mark = "INSERT OR REPLACE INTO tidegate_meta (name, value) VALUES (?, 'yes')"
                database.execute(mark, (RESTORED,))
            descriptor = _atomic_files.open_file(unnamed, os.O_RDWR)
            try:
                _atomic_files.sync(descriptor)
            finally:
                _atomic_files.close(descriptor)
            _atomic_files.rename(unnamed, folder / FILE)
            _atomic_files.sync_folder(folder)
            ledger = backup / ledger_mirror.NAME
            if ledger.exists() and not (folder / ledger_mirror.NAME).exists():
                _atomic_files.replace_file(folder / ledger_mirror.NAME, ledger.read_bytes())
        except (sqlite3.Error, OSError) as error:
            raise StorageError(f"the backup was not put back: {type(error).__name__}") from None
    finally:
        lock.release()
