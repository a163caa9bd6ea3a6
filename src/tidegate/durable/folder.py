"""The lock of a state folder, and the newest ledger entry that was seen there.

The lock file outlives every state in the folder. So the anchor of the ledger (how many entries it
has, and the hash of the last) is kept there too: if the state is lost, damaged or sealed with a key
that is gone, a ledger whose last lines were cut off is still noticed, and a spent cap stays spent.

Two slots in the file are written in turn, each with a checksum, so that a power cut never destroys
the only copy.
"""

from __future__ import annotations

import os
import re
import zlib
from contextlib import suppress
from pathlib import Path

from tidegate import _files
from tidegate.errors import RefusedError, SettingError, TidegateError

Anchor = tuple[int, str]

_PLACES = (0, 4096)  # in different sectors, whatever their size
_BYTES = 128
_LINE = re.compile(rb"ledger (\d{1,18}) ([0-9a-f]{64}) ([0-9a-f]{8}) *\n")


class StateError(RefusedError):
    """Durable state cannot be used: locked, damaged, lost, or of other settings."""


class StorageError(TidegateError):
    """The disk did not take the state: full, or failing. What was committed before is intact."""


class FolderLock:
    """An exclusive lock on a folder, until `release`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: int | None = None
        self._newest: Anchor | None = None

    @property
    def held(self) -> bool:
        """Whether this process has it."""
        return self._file is not None

    def acquire(self) -> None:
        """Lock the folder, which is created if it is missing."""
        path = self.folder / "lock"
        try:
            _files.make_folder(self.folder, 0o700)
            self._file = _files.open_lock(path)
        except OSError as error:
            raise SettingError("state", f"cannot use {self.folder}: {error.strerror}") from None
        if self._file is None or not _same(self._file, path):
            self.release()
            raise StateError(
                f"another process is at work in {self.folder}: two would share noise. Stop it first"
            )

    def release(self) -> None:
        """Unlock the folder. In a forked process the parent keeps the lock."""
        if self._file is not None:
            descriptor, self._file = self._file, None
            _files.unlock(descriptor)

    @property
    def anchor(self) -> Anchor | None:
        """The ledger's newest entry that was kept; None: there is none, or it is damaged."""
        return kept_anchor(self.folder)

    def keep(self, anchor: Anchor) -> None:
        """Store the ledger's newest entry, durably."""
        if self._file is not None and anchor != self._newest:
            _write(self._file, self.folder, anchor)
            self._newest = anchor


def kept_anchor(folder: Path) -> Anchor | None:
    """The newest anchor in a folder, without its lock. Read it before the ledger."""
    found = [anchor for place in _PLACES if (anchor := _at(folder, place)) is not None]
    return max(found, default=None)


def keep_anchor(folder: Path, anchor: Anchor) -> None:
    """Store the ledger's newest entry; the caller holds the lock of the *ledger*."""
    with suppress(FileNotFoundError):  # no state was ever in this folder
        descriptor = _files.open_file(folder / "lock", os.O_RDWR)
        try:
            _write(descriptor, folder, anchor)
        finally:
            _files.unlock(descriptor)


def _write(descriptor: int, folder: Path, anchor: Anchor) -> None:
    """Write an anchor into the slot that does not hold the newest one."""
    text = b"ledger %d %s" % (anchor[0], anchor[1].encode("ascii"))
    line = b"%s %08x" % (text, zlib.crc32(text))
    newest = kept_anchor(folder)
    try:
        if newest != anchor:
            place = _PLACES[newest is not None and newest == _at(folder, _PLACES[0])]
            _files.write_at(descriptor, line.ljust(_BYTES - 1) + b"\n", place)
        _files.sync(descriptor)
    except OSError as error:
        raise StorageError(f"cannot write {folder / 'lock'}: {error.strerror}") from None


def _at(folder: Path, place: int) -> Anchor | None:
    try:
        with (folder / "lock").open("rb") as file:
            file.seek(place)
            found = _LINE.fullmatch(file.read(_BYTES))
    except OSError:
        return None
    if found is None:
        return None
    count, head, checksum = found.groups()
    if int(checksum, 16) != zlib.crc32(b"ledger %s %s" % (count, head)):
        return None
    return int(count), head.decode("ascii")


def _same(descriptor: int, path: Path) -> bool:
    """Whether the locked file still has its name; else another process could lock a new one."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False
