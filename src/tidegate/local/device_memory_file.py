"""The file of a device's memory: its lines, its lock, and replacing it as a whole.

    new file, locked → written → fsync → renamed over the old one → fsync of the folder

The lock is on the file itself, never on a name: a symlink, another working directory or a second
mount leads to the same file, and so to the same lock. A new version is locked before it takes the
name, so whoever opens that name meets a lock. Two things would still give a device two memories,
and are refused: a second hard link, which would keep the old version, and a copy, which is noticed
by the inode that is written into the file: its number, and its generation where the file system
tells it (ext4, XFS, Btrfs). Numbers are used again: every second version has the same one, so that
without a generation a backup that is copied back over the file may be taken for it. Before every
write the file must still be where it was opened.
"""

from __future__ import annotations

import json
import os
import stat
import struct
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tidegate._atomic_files import InheritedFile, sync, try_lock, write_at
from tidegate.errors import RefusedError

_ATTEMPTS = 10
_OPEN = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)  # not on Windows, where nothing is locked
_CLOSED = -1  # as a descriptor: every call to the system refuses it


_GENERATION = 0x80087601 if struct.calcsize("l") == 8 else 0x80047601  # Linux: FS_IOC_GETVERSION


def _identity_of_memory_file(descriptor: int) -> dict[str, int]:
    """The inode number and, where the file system has one, its generation."""
    found = {"inode": os.fstat(descriptor).st_ino}
    if sys.platform == "linux":
        import fcntl

        with suppress(OSError):  # there is none: tmpfs, NFS
            data = fcntl.ioctl(descriptor, _GENERATION, bytes(8))
            found["generation"] = int.from_bytes(data[:4], sys.byteorder)
    return found


class DeviceMemoryError(RefusedError):
    """A device's memory cannot be used, so nothing is reported."""


class MemoryFile(InheritedFile):
    """An open and locked file with one JSON object.

    Args:
        path: as the user wrote it; the messages show it.
        longest: how many bytes it may have.
    """

    def __init__(self, path: str | Path, longest: int) -> None:
        self.path = Path(path)
        self._longest = longest
        self._folder = self._file = _CLOSED
        if "\0" in str(path):
            raise DeviceMemoryError("cannot use a path with a NUL character")
        with self._explained(f"cannot use {path}"):
            # A path that is not normalised: `..` after a symlink is not what it looks like.
            self._given = os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118
            real = os.path.realpath(self._given)
            self._name = os.path.basename(real)  # noqa: PTH119
            self._draft = f".{self._name}.partial"
            self._folder = os.open(os.path.dirname(real), os.O_RDONLY)  # noqa: PTH120
        self.guard()

    def exists(self) -> bool:
        """Lock the file if it exists.

        Raises:
            DeviceMemoryError: if it is in use, has a second name, or cannot be written.
        """
        for _ in range(_ATTEMPTS):
            with self._explained(f"cannot use {self.path}"):
                try:
                    self._file = os.open(self._name, _OPEN, dir_fd=self._folder)
                except FileNotFoundError:
                    return False
                if not stat.S_ISREG(os.fstat(self._file).st_mode):
                    raise DeviceMemoryError(f"cannot use {self.path}: it is not a regular file")
            self._lock(self._file)
            if self._is_in_place():
                self._refuse_links()
                # Its writer may have been killed before the new name was on the disk.
                with self._explained(f"cannot use {self.path}"):
                    sync(self._folder)
                return True
            os.close(self._file)  # it was replaced between opening and locking
            self._file = _CLOSED
        raise self._in_use()

    def read(self) -> Any:
        """The JSON object; a ValueError if the file does not hold one."""
        with self._explained(f"cannot read {self.path}"):
            size = os.fstat(self._file).st_size
            if size > self._longest:
                raise ValueError("longer than any memory")
            text = os.pread(self._file, self._longest + 1, 0)
        if len(text) != size:
            raise ValueError("not all of it could be read")
        return json.loads(text)

    @property
    def identity(self) -> dict[str, int]:
        """What distinguishes this file from its copies."""
        return _identity_of_memory_file(self._file)

    def create(self, plain: Mapping[str, Any]) -> None:
        """Create the file, unless another process is doing so: the draft's lock decides."""
        with self._explained(f"cannot use {self.path}"):
            new = os.open(self._draft, _OPEN | os.O_CREAT, 0o600, dir_fd=self._folder)
            with self._closing(new):
                self._lock(new)
                if not self._leads_to(self._draft, new) or self._leads_to(self._name):
                    raise self._in_use()
                self._write(new, plain)

    def rewrite(self, plain: Mapping[str, Any]) -> None:
        """Write a new version. When this returns it is on the disk; if it raises, it may be."""
        with self._explained(f"nothing was reported: {self.path} could not be written"):
            if not self._is_in_place():
                raise DeviceMemoryError(
                    f"nothing was reported: {self.path} is no longer the file that was opened. Put "
                    "it back and open it again"
                )
            self._refuse_links()
            with suppress(FileNotFoundError):
                os.unlink(self._draft, dir_fd=self._folder)  # of a process that was killed
            new = os.open(self._draft, _OPEN | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=self._folder)
            with self._closing(new):
                self._lock(new)
                self._write(new, plain)

    def close(self) -> None:
        """Close the file, so that others can open it."""
        file, self._file = self._file, _CLOSED
        folder, self._folder = self._folder, _CLOSED
        for descriptor in (file, folder):
            if descriptor != _CLOSED:
                os.close(descriptor)

    def disown(self) -> None:
        """Refuse writes, and do not keep the file locked; called in the forked process."""
        self.close()

    def _write(self, new: int, plain: Mapping[str, Any]) -> None:
        """Fill the open and locked draft, and rename it to the file's name."""
        whole = {**plain, **_identity_of_memory_file(new)}
        text = json.dumps(whole, separators=(",", ":"), allow_nan=False).encode("ascii")
        os.ftruncate(new, 0)
        write_at(new, text, 0)  # a forked process that got here too writes the same once more
        sync(new)
        os.rename(self._draft, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        old, self._file = self._file, new
        if old != _CLOSED:
            os.close(old)
        sync(self._folder)

    @contextmanager
    def _closing(self, new: int) -> Iterator[None]:
        """Close a draft that did not become the file: nobody should wait for its lock."""
        try:
            yield
        except BaseException:
            if self._file != new:
                os.close(new)
            raise

    def _lock(self, descriptor: int) -> None:
        try:
            held = try_lock(descriptor)
        except ImportError:
            raise DeviceMemoryError(f"cannot use {self.path}: files are not locked here") from None
        except OSError:
            held = False
        if not held:
            raise self._in_use()

    def _is_in_place(self) -> bool:
        """Whether the given name, and the name in the folder, both lead to this file."""
        try:
            given = os.stat(self._given)  # noqa: PTH116
        except FileNotFoundError:
            return False
        here = os.path.samestat(os.fstat(self._file), given)
        return here and self._leads_to(self._name, self._file)

    def _leads_to(self, name: str, file: int | None = None) -> bool:
        """Whether a name in the folder leads to this open file; None: to any file."""
        try:
            found = os.stat(name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return file is None or os.path.samestat(os.fstat(file), found)

    def _refuse_links(self) -> None:
        if os.fstat(self._file).st_nlink != 1:
            raise DeviceMemoryError(
                f"{self.path} has a second name (a hard link), which would become a second memory: "
                "remove one of the names"
            )

    def _in_use(self) -> DeviceMemoryError:
        return DeviceMemoryError(
            f"{self.path} is in use: two clients could report twice on a value"
        )

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DeviceMemoryError(f"{what}: {error.strerror}") from None
        except UnicodeError:
            raise DeviceMemoryError(f"{what}: no name of a file") from None
