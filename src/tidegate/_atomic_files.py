"""Write, sync, rename, lock and remove files so that a crash loses nothing; handle forks.

    write → fsync → rename → fsync of the folder ║ only now does the file count

The ledger, durable state and outputs all write through these functions, so that one rule holds for
all (a short write is continued, a new name is synced with its folder), and so that tests can make
any of the calls fail (`tests/faults.py`). Errors are plain `OSError`s: the caller knows what the
file is for, and says so.

A forked process inherits open databases and locked files and must not touch them: see the end.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

from tidegate.ownership import NotCopied

PRIVATE = 0o600
"""The mode of files that only their owner may read."""


def open_file(path: str | Path, flags: int, mode: int = PRIVATE) -> int:
    """Open a file; return its descriptor, which child processes do not inherit."""
    return os.open(path, flags | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0), mode)


def create(path: str | Path, mode: int = PRIVATE) -> int:
    """Create a file and open it for writing; `FileExistsError` if it exists."""
    return open_file(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)


def close(descriptor: int) -> None:
    """Close a descriptor."""
    os.close(descriptor)


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write all bytes: a pipe, a signal or a nearly full disk may cause a short write."""
    rest = memoryview(data).cast("B")
    while rest:
        count = os.write(descriptor, rest)
        if not count:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        rest = rest[count:]


def write_at(descriptor: int, data: bytes, place: int) -> None:
    """Write all bytes at an offset of the file."""
    rest = memoryview(data)
    while rest:
        count = os.pwrite(descriptor, rest, place)
        if not count:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        rest, place = rest[count:], place + count


def sync(descriptor: int) -> None:
    """Sync a file's content to the disk."""
    os.fsync(descriptor)


def truncate(descriptor: int, length: int) -> None:
    """Truncate a file, durably."""
    os.ftruncate(descriptor, length)
    os.fsync(descriptor)


def rename(path: Path, target: Path) -> None:
    """Rename a file over another. Durable after `sync_folder`."""
    os.replace(path, target)  # noqa: PTH105  # through `os`, as every other call here


def remove(path: Path) -> None:
    """Remove a file if it exists."""
    with suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108  # through `os`, as every other call here


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that new names in it survive a power cut."""
    if os.name == "nt":  # folders cannot be synced there
        return
    descriptor = open_file(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path, mode: int) -> None:
    """Create a folder and its parents, each synced in its parent.

    The parent of an existing folder is synced too, where that is allowed: the process that created
    the folder may have been killed before it did so.
    """
    if folder.is_dir():
        with suppress(PermissionError):
            sync_folder(folder.parent)
        return
    if not folder.parent.is_dir():
        make_folder(folder.parent, 0o777)
    os.mkdir(folder, mode)  # noqa: PTH102  # through `os`, as every other call here
    sync_folder(folder.parent)


def try_lock(descriptor: int) -> bool:
    """Lock a file until its descriptor is closed; False: another process holds the lock."""
    import fcntl  # not at the top: Windows has none

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def open_lock(path: Path) -> int | None:
    """Open and lock a file that serves as a lock; None: another process holds it."""
    descriptor = open_file(path, os.O_CREAT | os.O_RDWR)
    try:
        if try_lock(descriptor):
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def unlock(descriptor: int) -> None:
    """Close a descriptor and release its lock. Errors mean nothing: whatever counts was synced."""
    with suppress(OSError):
        os.close(descriptor)


class FileOfOneName:
    """A file that must have a single name, and keep it while it is open.

    A database has a log beside it, and the folder a lock. Under a second name (a link to the file,
    or another folder put in the place of its own) both are others: two processes would go on from
    one state.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()  # the working directory may change
        self._file = os.lstat(self.path)

    @property
    def trouble(self) -> str | None:
        """Why the file must not be used or written. None: it may be."""
        if not stat.S_ISREG(self._file.st_mode):
            return "is a link, or no regular file: link its folder instead, never the file"
        try:
            now = os.lstat(self.path)
        except OSError:
            now = None
        if now is None or not os.path.samestat(now, self._file):
            return "is no longer the file that was opened: put it back, and open it again"
        if now.st_nlink != 1:
            return "has a second name (a hard link): remove one of the names"
        return None


class DraftFile:
    """A new version of a file, written beside it under a temporary name.

    `publish` gives it the file's name: the old content or the new, never a part.
    """

    def __init__(self, path: Path, mode: int = PRIVATE) -> None:
        self._path = path
        self._partial = path.with_name(f".{path.name}.partial")
        remove(self._partial)  # of a process that was killed
        self.descriptor = create(self._partial, mode)

    def publish(self) -> None:
        """Take the file's place, durably.

        Raises:
            FileExistsError: another process writes the same file, and has removed this draft.
        """
        sync(self.descriptor)
        if not self._is_ours():
            raise FileExistsError(errno.EEXIST, "another process is writing this file")
        rename(self._partial, self._path)
        sync_folder(self._path.parent)

    def discard(self) -> None:
        """Remove it, unless it was published. Errors are ignored: the next draft reports them."""
        with suppress(OSError):
            if self._is_ours():
                remove(self._partial)

    def _is_ours(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self.descriptor), self._partial.stat())
        except FileNotFoundError:
            return False


def replace_file(path: Path, data: bytes, mode: int = PRIVATE) -> None:
    """Write a small file in one step, durably."""
    draft = DraftFile(path, mode)
    try:
        write_all(draft.descriptor, data)
        draft.publish()
    except BaseException:
        draft.discard()
        raise
    finally:
        unlock(draft.descriptor)


class InheritedFile(NotCopied, ABC):
    """An open resource of one process; a forked process disowns it at once."""

    def guard(self) -> None:
        """Register the resource: forked processes will disown it."""
        _open.add(self)

    @abstractmethod
    def disown(self) -> None:
        """Runs in the forked process before anything else does."""

    @staticmethod
    def keep_for_ever(thing: Any) -> None:
        """Never finalise the resource, not even at exit: finalising would write to files."""
        if thing is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


_open: WeakSet[InheritedFile] = WeakSet()


def _disown_inherited_files() -> None:
    for thing in list(_open):
        thing.disown()


if hasattr(os, "register_at_fork"):  # where processes fork at all
    os.register_at_fork(after_in_child=_disown_inherited_files)
