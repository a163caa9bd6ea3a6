"""Bytes out: to standard output, into a file in place, or into one that appears when complete."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import sys
from pathlib import Path
from typing import Any

from tidegate.io.errors import SinkError, sink_error
from tidegate.io.kinds import is_standard

Bytes = bytes | memoryview


class Outgoing:
    """A file being written; every write reaches the operating system at once.

    `whole`: written under a name of its own beside the target and renamed when complete, so that
    under the target's name there is the old file or the new one and never a part. `append`: go on
    at the end of what is there.
    """

    def __init__(
        self, path: str | Path | None, *, whole: bool = False, append: bool = False
    ) -> None:
        self.name = "standard output" if is_standard(path) else os.fspath(path or "")
        self._target: Path | None = None
        self._partial: Path | None = None
        self.closed = False
        self._raw: Any = None  # a raw file, or the stand-in for standard output
        try:
            if is_standard(path):
                self._raw = _standard_output(self.name)
                return
            self._target = Path(self.name)
            special = self._target.exists() and not self._target.is_file()
            if special and self._target.is_dir():
                raise SinkError(None, "is a directory", self.name)
            if not special:
                self._target = Path(os.path.realpath(self.name))  # a link stays a link
            if whole and not special:  # a device or a named pipe cannot be replaced
                self._partial = self._target.with_name(f".{self._target.name}.partial")
                self._partial.unlink(missing_ok=True)  # of a run that was killed
                self._raw = self._partial.open("xb", buffering=0)
            else:
                self._raw = self._target.open("ab" if append else "wb", buffering=0)
        except OSError as error:
            raise self._error(error) from None

    def write(self, data: Bytes) -> None:
        """All of it."""
        try:
            view = memoryview(data)
            while len(view):  # a pipe may take less than it is offered
                view = view[self._raw.write(view) :]
            if self._target is None:  # the stand-in for standard output may hold it back
                self._raw.flush()
        except OSError as error:
            raise self._error(error) from None

    def tell(self) -> int:
        """How long a regular file is by now."""
        return int(self._raw.tell())

    def sync(self) -> None:
        """Have a regular file on the disk, not only on its way there."""
        try:
            if self._target is not None and stat.S_ISREG(os.fstat(self._raw.fileno()).st_mode):
                os.fsync(self._raw.fileno())
        except OSError as error:
            raise self._error(error) from None

    def close(self) -> None:
        """Complete the file; a whole one gets its name now, durably."""
        if self.closed:
            return
        try:
            if self._partial is not None and self._target is not None:
                self.sync()
                if not os.path.samestat(os.fstat(self._raw.fileno()), self._partial.stat()):
                    raise SinkError(None, "another process is writing this file", self.name)
                self._partial.replace(self._target)
                self._partial = None
                sync_folder(self._target.parent)
        except FileNotFoundError:
            raise SinkError(None, "another process is writing this file", self.name) from None
        except OSError as error:
            raise self._error(error) from None
        finally:
            self.abort()

    def abort(self) -> None:
        """Give up: of a file that was to appear whole, nothing stays."""
        if self.closed:
            return
        self.closed = True
        with contextlib.suppress(OSError):  # of two errors the first one counts
            if self._partial is not None and os.path.samestat(
                os.fstat(self._raw.fileno()), self._partial.stat()
            ):
                self._partial.unlink()
        if self._target is not None:
            with contextlib.suppress(OSError):
                self._raw.close()

    def _error(self, error: OSError) -> SinkError:
        return error if isinstance(error, SinkError) else sink_error(error, self.name)


def write_whole(path: Path, data: bytes) -> None:
    """A small file, replaced in one step."""
    outgoing = Outgoing(path, whole=True)
    try:
        outgoing.write(data)
        outgoing.close()
    finally:
        outgoing.abort()


def sync_folder(folder: Path) -> None:
    """Make a new name in it durable."""
    if os.name == "nt":  # which has no such thing
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _standard_output(name: str) -> Any:
    if sys.stdout is None:
        raise SinkError(None, "is closed", name)
    sys.stdout.flush()
    try:
        # Unbuffered: nothing is left to be written, and to fail, when the interpreter ends.
        return io.FileIO(sys.stdout.fileno(), "wb", closefd=False)
    except io.UnsupportedOperation:  # a stand-in without a descriptor
        return sys.stdout.buffer
