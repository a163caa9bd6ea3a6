"""The place of a server's file, and the errors if it cannot be used."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tidegate import _atomic_files
from tidegate.errors import RefusedError, TidegateError


class ServerStateError(RefusedError):
    """The server's file cannot be used: damaged, of other settings, or changed by others."""


class ServerStorageError(TidegateError):
    """The disk did not store it: full, or failing. Earlier commits are intact."""


class ServerStorePlace:
    """The file's place: what SQLite has open must stay there, or accepted reports are lost.

    A second hard link is refused: SQLite would give each name a log of its own.
    """

    def __init__(self, path: Path, create: bool) -> None:
        if create:
            _atomic_files.close(_atomic_files.create(path))
        self.real = path.resolve()
        self._given = path.absolute()
        self._file = self.real.stat()
        if not stat.S_ISREG(self._file.st_mode):
            raise ServerStorageError(f"cannot use {path}: it is not a regular file")
        self.check()

    def check(self) -> None:
        """Refuse unless the given name, and no other, leads to the file."""
        try:
            now = self._given.stat()
        except OSError:
            now = None
        if now is None or not os.path.samestat(now, self._file):
            raise ServerStateError(
                f"{self._given} is no longer the file that was opened: put it back and open it"
            )
        if now.st_nlink != 1:
            raise ServerStateError(
                f"{self._given} has a second name (a hard link): remove one of the names"
            )
