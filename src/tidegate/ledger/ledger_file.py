"""The file of a ledger: one line per entry, synced as it is written."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path

from tidegate import _atomic_files
from tidegate._atomic_files import InheritedFile
from tidegate.ledger.errors import LedgerError
from tidegate.ledger.hashed_lines import DAMAGED, DECODER, FOREIGN, HashedLine, HashedLines


class LedgerFile(HashedLines, InheritedFile):
    """An open ledger file, locked if it is opened for writing."""

    def __init__(self, path: Path, *, create: bool, read_only: bool, key: bytes | None) -> None:
        super().__init__(path, key)
        self._process = os.getpid()
        self._place = path.absolute()  # the working directory may change
        self.torn = 0
        self._size = 0
        self._ended = True  # the last entry has its newline
        self._file = _opened_ledger_file(path, create, read_only)
        self.guard()
        try:
            if not read_only:
                self._lock()
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise LedgerError(path, f"it cannot be used: {error.strerror}") from error
            raise

    def _lock(self) -> None:
        if not _atomic_files.try_lock(self._file.fileno()):
            raise LedgerError(
                self.path,
                "it is in use by another release or command: wait for it or stop it (`fuser` "
                "names it); to look at it meanwhile, open it with read_only=True",
            )
        self._check_in_place()
        # What a killed writer left may not be on the disk yet, and a new entry would build on it.
        _atomic_files.sync(self._file.fileno())
        _atomic_files.sync_folder(self._place.resolve().parent)

    def read(self) -> Iterator[HashedLine]:
        """Verify and return all entries; call it once and exhaust it, before anything else."""
        data = self._file.read()
        *lines, tail = data.split(b"\n")
        if lines:
            self._check_header(lines[0])
        for line in lines:
            yield self._verified(line)
        if tail and self._is_whole(tail):
            # Only the newline is missing (some editors strip it). The charge counts: dropping an
            # entry that can be read would undercount.
            if not lines:
                self._check_header(tail)
            yield self._verified(tail)
            self._ended = False
        else:
            self.torn = len(tail)
        self._size = len(data) - self.torn

    def _is_whole(self, tail: bytes) -> bool:
        """Whether a last line without newline is an entry. False: the beginning of one.

        Some file systems leave zeros where a power cut came before the data.
        """
        number = self.count + 1
        beginning, text = b'{"sequence":%d,' % number, tail.rstrip(b"\0")
        if not text.startswith(beginning) and not beginning.startswith(text):
            raise LedgerError(self.path, FOREIGN if number == 1 else DAMAGED, number)
        try:
            DECODER.raw_decode(text.decode("latin-1"))
        except (ValueError, RecursionError):
            return False
        return True  # or more than an entry, as when its newline became another byte: no hash fits

    @property
    def unfinished(self) -> bool:
        """Whether the last append was interrupted."""
        return bool(self.torn) or not self._ended

    # -- writing ---------------------------------------------------------------------------------

    def repair(self) -> str:
        """Cut off an unfinished entry, or complete one that lacks its newline; returns a note."""
        if not self._ended:
            self._write(b"\n")
            self._ended = True
            return "recovered torn line: it was whole but for its newline, and counts"
        removed, self.torn = self.torn, 0
        try:
            _atomic_files.truncate(self._file.fileno(), self._size)
        except OSError as error:
            problem = f"its unfinished entry cannot be removed: {error.strerror}"
            raise LedgerError(self.path, problem) from error
        return f"recovered torn line: {removed} bytes removed; nothing was released under it"

    def _write(self, data: bytes) -> None:
        if os.getpid() != self._process:  # a forked child shares the lock, not what is known
            raise LedgerError(self.path, "it was opened by the parent process: only that may write")
        if self._file.closed or not self._file.writable():
            state = "closed" if self._file.closed else "open for reading only"
            raise LedgerError(self.path, f"it is {state}: nothing can be charged")
        self._check_in_place()
        descriptor, before = self._file.fileno(), self._size
        if os.fstat(descriptor).st_size != before:
            raise LedgerError(self.path, "something else wrote to it: close it and open it again")
        try:
            _atomic_files.write_all(descriptor, data)
            _atomic_files.sync(descriptor)
        except BaseException as error:
            # After a failed fsync the state of the disk is unknown, and a second fsync may wrongly
            # succeed: take the line back as far as possible, and stop.
            with suppress(OSError):
                _atomic_files.truncate(descriptor, before)
            self.close()
            if isinstance(error, OSError):
                raise LedgerError(
                    self.path, f"nothing was charged, it could not be written: {error.strerror}"
                ) from error
            raise
        self._size += len(data)

    def _check_in_place(self) -> None:
        """Refuse if the file was deleted or replaced: a charge written to it would be lost."""
        try:
            same = os.path.samestat(os.fstat(self._file.fileno()), self._place.stat())
        except FileNotFoundError:
            same = False
        if not same:
            raise LedgerError(self.path, "it was removed or replaced while it was open")

    def close(self) -> None:
        """Close the file and release its lock."""
        with suppress(OSError):  # what counts was synced, and the lock is gone in any case
            self._file.close()

    def disown(self) -> None:
        """Leave the lock to the parent; called in the forked process."""
        self._file.close()


def _opened_ledger_file(path: Path, create: bool, read_only: bool) -> FileIO:
    writing = os.O_RDWR | os.O_APPEND | (os.O_CREAT if create else 0)
    flags = os.O_RDONLY if read_only else writing
    try:
        descriptor = _atomic_files.open_file(path, flags)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # such as /dev/null
            _atomic_files.close(descriptor)
            raise LedgerError(path, "it is not a regular file")
    except FileNotFoundError:
        missing = "there is no ledger" if path.parent.is_dir() else "there is no such folder"
        raise LedgerError(path, missing) from None
    except OSError as error:
        raise LedgerError(path, f"it cannot be opened: {error.strerror}") from None
    return FileIO(descriptor, "r" if read_only else "r+")
