"""The lock of a state folder; its file stores two anchors: last ledger entry, last commit.

The lock file outlives every state in the folder, so two anchors are kept in it:

- of the ledger: how many entries it has, and the hash of the last. If the state is lost, damaged or
  sealed with a key that is gone, a ledger whose last lines were cut off is still noticed, and a
  spent cap stays spent.
- of the state: how many commits there were, and the head of the journal. A state that was put back
  to an earlier time (`state.sqlite` from a backup, or without its `-wal` file) is noticed: to
  continue it would put noise that has left on other values.

Each anchor has two slots, written in turn, each with a checksum, so that a power cut never destroys
the only copy.
"""

from __future__ import annotations

import os
import re
import zlib
from contextlib import suppress
from pathlib import Path

from tidegate import _atomic_files
from tidegate.errors import RefusedError, SettingError, TidegateError

Anchor = tuple[int, str]

_LEDGER, _COMMIT = b"ledger", b"commit"
_PLACES = {_LEDGER: (0, 4096), _COMMIT: (8192, 12288)}  # in different sectors, whatever their size
_BYTES = 128
_LINE = re.compile(rb"([a-z]+) (\d{1,18}) ([0-9a-f]{64}) ([0-9a-f]{8}) *\n")


class StateError(RefusedError):
    """Durable state cannot be used: locked, damaged, lost, or begun with other settings."""


class StorageError(TidegateError):
    """The disk did not store the state: full, or failing. Earlier commits are intact."""


class FolderLock:
    """An exclusive lock on a folder, until `release`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: int | None = None
        self._newest: Anchor | None = None

    @property
    def held(self) -> bool:
        """Whether this process holds the lock."""
        return self._file is not None

    def acquire(self) -> None:
        """Lock the folder; create it if it is missing."""
        path = self.folder / "lock"
        try:
            _atomic_files.make_folder(self.folder, 0o700)
            self._file = _atomic_files.open_lock(path)
            ours = self._file is not None and _same_locked_file(self._file, path)
        except OSError as error:
            self.release()
            raise SettingError("state", f"cannot use {self.folder}: {error.strerror}") from None
        if not ours:
            self.release()
            raise StateError(
                f"another process is using {self.folder}: two would share noise. Stop it first"
            )

    def release(self) -> None:
        """Unlock the folder. In a forked process the parent keeps the lock."""
        if self._file is not None:
            descriptor, self._file = self._file, None
            _atomic_files.unlock(descriptor)

    @property
    def anchor(self) -> Anchor | None:
        """The ledger's newest entry as stored here. None: there is none, or it is damaged."""
        return anchor_kept_in_folder(self.folder)

    def keep(self, anchor: Anchor) -> None:
        """Store the ledger's newest entry, durably."""
        if self._file is not None and anchor != self._newest:
            _write_in_folder(self._file, self.folder, anchor)
            self._newest = anchor

    @property
    def commit(self) -> Anchor | None:
        """The newest commit as stored here: its number, and the head of the journal."""
        return _newest_lock_line(self.folder, _COMMIT)

    def keep_commit(self, anchor: Anchor) -> None:
        """Store the newest commit, after it is on the disk and before its values leave.

        Not synced, which would double the time of a commit: a killed process leaves its writes, and
        after a power cut an older number is found here, which refuses nothing.
        """
        if self._file is None:
            raise AssertionError("a commit needs the lock")
        try:
            _atomic_files.write_at(
                self._file, _lock_line(_COMMIT, anchor), _PLACES[_COMMIT][anchor[0] % 2]
            )
        except OSError as error:
            raise _unwritten_lock_line(self.folder, error) from None


def anchor_kept_in_folder(folder: Path) -> Anchor | None:
    """The newest stored anchor of the ledger, read without the lock. Read it before the ledger."""
    return _newest_lock_line(folder, _LEDGER)


def keep_anchor_in_folder(folder: Path, anchor: Anchor) -> None:
    """Store the ledger's newest entry; the caller must hold the lock of the *ledger*."""
    with suppress(FileNotFoundError):  # no state was ever in this folder
        descriptor = _atomic_files.open_file(folder / "lock", os.O_RDWR)
        try:
            _write_in_folder(descriptor, folder, anchor)
        finally:
            _atomic_files.unlock(descriptor)


def _write_in_folder(descriptor: int, folder: Path, anchor: Anchor) -> None:
    """Write an anchor into the slot that does not hold the newest one."""
    newest, places = anchor_kept_in_folder(folder), _PLACES[_LEDGER]
    try:
        if newest != anchor:
            first = _anchor_in_folder(folder, _LEDGER, places[0])
            place = places[newest is not None and newest == first]
            _atomic_files.write_at(descriptor, _lock_line(_LEDGER, anchor), place)
        _atomic_files.sync(descriptor)
    except OSError as error:
        raise _unwritten_lock_line(folder, error) from None


def _unwritten_lock_line(folder: Path, error: OSError) -> StorageError:
    return StorageError(f"cannot write {folder / 'lock'}: {error.strerror}")


def _lock_line(name: bytes, anchor: Anchor) -> bytes:
    text = b"%s %d %s" % (name, anchor[0], anchor[1].encode("ascii"))
    return (b"%s %08x" % (text, zlib.crc32(text))).ljust(_BYTES - 1) + b"\n"


def _newest_lock_line(folder: Path, name: bytes) -> Anchor | None:
    found = [_anchor_in_folder(folder, name, place) for place in _PLACES[name]]
    return max((anchor for anchor in found if anchor is not None), default=None)


def _anchor_in_folder(folder: Path, name: bytes, place: int) -> Anchor | None:
    try:
        with (folder / "lock").open("rb") as file:
            file.seek(place)
            found = _LINE.fullmatch(file.read(_BYTES))
    except OSError:
        return None
    if found is None or found[1] != name:
        return None
    _, count, head, checksum = found.groups()
    if int(checksum, 16) != zlib.crc32(b"%s %s %s" % (name, count, head)):
        return None
    return int(count), head.decode("ascii")


def _same_locked_file(descriptor: int, path: Path) -> bool:
    """Whether the path still leads to the locked file; else another process may lock a new one."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False
