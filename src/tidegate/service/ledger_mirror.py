"""A copy of the ledger beside the database, in the folder: `ledger.jsonl`.

It is written after each commit and before any answer leaves. So it has every charge of what ever
left, also when the database is put back to an earlier time: the charges in between are adopted.
`tidegate ledger FOLDER` reads it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tidegate import _atomic_files
from tidegate.durable import StorageError
from tidegate.ledger.errors import LedgerError

NAME = "ledger.jsonl"
_OTHER = (
    "it is not the ledger of this database: another history. Put the database back that belongs to "
    "it, or use another folder"
)
_BEHIND = (
    "it has charges that the database lacks: the database was restored. Put the newest back; if it "
    "is gone, begin new epochs with --new-epoch, which is charged"
)


class LedgerMirror:
    """The file, and the lines that the open transaction adds."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._fresh: list[bytes] = []

    def add(self, line: bytes) -> None:
        """Add a line of the open transaction."""
        self._fresh.append(line)

    def drop(self) -> None:
        """Drop the lines of a failed transaction."""
        self._fresh.clear()

    def keep(self) -> None:
        """Append the lines of a durable transaction."""
        fresh, self._fresh = self._fresh, []
        if fresh:
            self._append(fresh)

    def reconcile(
        self, stored: list[bytes], adopt: Callable[[int, bytes], None], *, restored: bool
    ) -> None:
        """Make file and database equal, in the first transaction.

        Args:
            stored: the lines in the database.
            adopt: puts a line into the database that only the file has.
            restored: the database may lack charges.
        """
        self._fresh.clear()  # of a transaction that is durable, if its copy could not be written
        found = self._lines()
        both = min(len(found), len(stored))
        if found[:both] != stored[:both]:
            raise LedgerError(self.path, _OTHER)
        if len(found) > len(stored):
            if not restored:
                raise LedgerError(self.path, _BEHIND)
            for number, line in enumerate(found[both:], start=both + 1):
                adopt(number, line)
        elif len(stored) > len(found):
            self._append(stored[both:])

    def _lines(self) -> list[bytes]:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StorageError(f"cannot read {self.path}: {error.strerror}") from None
        lines = content.split(b"\n")
        if lines.pop():  # the last append was cut short: the database has it, or nobody
            self._cut(len(content) - len(content.rpartition(b"\n")[2]))
        return lines

    def _cut(self, size: int) -> None:
        try:
            descriptor = _atomic_files.open_file(self.path, os.O_WRONLY)
            try:
                _atomic_files.truncate(descriptor, size)
            finally:
                _atomic_files.close(descriptor)
        except OSError as error:
            raise StorageError(f"cannot write {self.path}: {error.strerror}") from None

    def _append(self, lines: list[bytes]) -> None:
        try:
            if not self.path.exists():
                _atomic_files.close(_atomic_files.create(self.path))
            descriptor = _atomic_files.open_file(self.path, os.O_WRONLY | os.O_APPEND)
            try:
                _atomic_files.write_all(descriptor, b"".join(line + b"\n" for line in lines))
                _atomic_files.sync(descriptor)
            finally:
                _atomic_files.close(descriptor)
        except OSError as error:
            raise StorageError(f"cannot write {self.path}: {error.strerror}") from None
