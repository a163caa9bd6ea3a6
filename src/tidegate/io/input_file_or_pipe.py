"""Read bytes from a file, a pipe or standard input as soon as they arrive."""

from __future__ import annotations

import os
import stat
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tidegate.errors import SettingError
from tidegate.io.errors import SourceError, source_error
from tidegate.io.file_kind_and_row_count import is_standard
from tidegate.tables.optional_libraries import require_library_for_files

Seen = TypeVar("Seen")

_FIRST_WAIT, _LONGEST_WAIT = 0.02, 0.2  # seconds between looks at a file that is followed
_LOOK = 0.25  # seconds between two calls of `idle`
_UNPACKED = 1 << 16  # small steps: little is lost before the place where a file is damaged
_PIPE_ROOM = 1 << 20  # so that a fast writer is read in large blocks


def _input_place_and_size(descriptor: int) -> tuple[int, int]:
    return os.lseek(descriptor, 0, os.SEEK_CUR), os.fstat(descriptor).st_size


class InputBytes:
    """`read` returns what is available, waits only if nothing is, and returns b"" at the end."""

    def __init__(
        self,
        path: str | Path | None,
        compression: str | None = None,
        *,
        follow: bool = False,
        skipped: int = 0,
    ) -> None:
        self.name = "standard input" if is_standard(path) else os.fspath(path or "")
        self._path = None if is_standard(path) else path
        self._descriptor, self._stream = self._open()
        self.followed = follow
        self.idle: Callable[[], None] | None = None  # called while a file is followed
        self._moment = 0.0  # when it is called next
        self._goal: int | None = None  # how far is to be read before
        # A followed file is closed from another thread, which waits for the lock, or from a signal
        # handler, which can interrupt this thread while it holds the lock. Then `_busy` is set: the
        # present read finishes, and the next `close` closes the file. (An Event would not do: set
        # by a signal handler inside its own `wait`, it would wait for ever.)
        self._lock = threading.RLock()
        self._busy = self._closing = False
        self._failure: SourceError | None = None
        self.taken = 0
        self.size = self._examined_size()  # of a regular file, as it was when opened
        if follow and (compression or self.size is None or self._path is None):
            self.close()
            raise SettingError("follow", "needs a plain CSV or JSONL file")
        self._head = self._skip(skipped) if skipped else b""
        self._codec = compression
        self._unpacked = self._decompressed(compression) if compression else None

    def _examined_size(self) -> int | None:
        """The size of a regular file. Refuses a folder; enlarges the buffer of a pipe."""
        if self._descriptor is None:
            return None
        status = os.fstat(self._descriptor)
        if stat.S_ISDIR(status.st_mode):
            self.close()
            raise SourceError(None, "is a directory", self.name)
        if stat.S_ISREG(status.st_mode):
            return status.st_size
        if stat.S_ISFIFO(status.st_mode):
            _widen_pipe(self._descriptor)
        return None

    def _skip(self, count: int) -> bytes:
        """Skip to byte `count`, or past the first line, which is returned: it may be a header."""
        if self._descriptor is None:
            return b""
        with open(self._descriptor, "rb", closefd=False) as file:
            head = file.readline()
        os.lseek(self._descriptor, max(count, len(head)), os.SEEK_SET)
        return head

    def _decompressed(self, compression: str) -> Any:
        """A decompressing stream of pyarrow, which has no types."""
        pyarrow = require_library_for_files("pyarrow")
        packed = pyarrow.PythonFile(_PackedInput(self), mode="r")
        return pyarrow.CompressedInputStream(packed, compression)

    def _open(self) -> tuple[int | None, Any]:
        try:
            if self._path is not None:
                return os.open(self._path, os.O_RDONLY | getattr(os, "O_BINARY", 0)), None
            if sys.stdin is None:
                raise SourceError(None, "is closed", self.name)
            try:
                return sys.stdin.fileno(), None
            except (OSError, AttributeError):  # a substitute without a descriptor
                return None, sys.stdin.buffer
        except OSError as error:
            if isinstance(error, SourceError):
                raise
            raise source_error(error, self.name) from None

    @property
    def descriptor(self) -> int | None:
        """The descriptor. None: standard input is a substitute without one."""
        return self._descriptor

    def fraction(self) -> float | None:
        """The share of a regular file that has been read."""
        if self.size is None or self.followed:
            return None
        return min(1.0, self.taken / self.size) if self.size else 1.0

    def read(self, count: int) -> bytes:
        """Read up to `count` bytes."""
        if self._unpacked is None:
            return self.read_packed(count)
        pieces: list[bytes] = []
        length = 0
        while length < count and self._failure is None:
            try:
                piece = self._unpacked.read(_UNPACKED)
            except SourceError:
                raise
            except OSError:  # the library's words are not passed on
                self._failure = SourceError(
                    None, f"is not whole {self._codec} data: truncated or damaged", self.name
                )
                break
            if not piece:
                break
            pieces.append(piece)
            length += len(piece)
        if not pieces and self._failure:
            raise self._failure
        return b"".join(pieces)

    def read_packed(self, count: int) -> bytes:
        """Read up to `count` bytes of the file without decompression."""
        wait = _FIRST_WAIT
        while True:
            self._call_idle()
            try:
                data = self._read_once(count)
            except OSError as error:
                raise source_error(error, self.name) from None
            self.taken += len(data)
            if data or not self.followed or self._closing:
                return data
            self._check_same_file()
            rest = wait if self.idle is None else max(0.0, self._moment - time.monotonic())
            time.sleep(min(wait, rest))
            wait = min(2 * wait, _LONGEST_WAIT)

    def _call_idle(self) -> None:
        """Call `idle` if it is due, and all available data has been taken.

        Privacy: it releases ticks of events, and when rows come out must not tell when events did.
        So the clock decides, four times a second, and not whether there is news.
        """
        if not self.followed or self.idle is None or time.monotonic() < self._moment:
            return
        place, size = self._looked_at(_input_place_and_size) or (0, 0)
        self._goal = size if self._goal is None else self._goal
        if place >= self._goal:
            self._goal, self._moment = None, time.monotonic() // _LOOK * _LOOK + _LOOK
            self.idle()

    def _read_once(self, count: int) -> bytes:
        if self._head:
            head, self._head = self._head, b""
            return head
        if self._descriptor is None:
            data: bytes = self._stream.read1(count)
            return data
        if not self.followed:
            return os.read(self._descriptor, count)
        return self._looked_at(lambda descriptor: os.read(descriptor, count)) or b""

    def _looked_at(self, look: Callable[[int], Seen]) -> Seen | None:
        """Apply `look` to a followed file. None: it was closed meanwhile."""
        with self._lock:
            self._busy = True
            try:
                if self._closing or self._descriptor is None:
                    return None
                return look(self._descriptor)
            finally:
                self._busy = False

    def _check_same_file(self) -> None:
        """Refuse a file that shrank or was replaced: rows are lost, positions would shift."""
        ours, path = self._looked_at(os.fstat), self._path
        if ours is None or path is None:
            return
        if ours.st_size < self.taken:
            raise SourceError(None, "shrank while it was followed", self.name)
        try:
            named = Path(path).stat()
        except OSError:
            raise SourceError(None, "vanished while it was followed", self.name) from None
        if not os.path.samestat(ours, named):
            raise SourceError(None, "was replaced while it was followed", self.name)

    def close(self) -> None:
        """Close it; standard input stays open."""
        self._closing = True
        with self._lock:
            if not self._busy and self._path is not None and self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor, self._path = None, None
                self._stream = _EndedInput()


class _PackedInput:
    """The methods of a Python file that pyarrow needs."""

    closed = False

    def __init__(self, incoming: InputBytes) -> None:
        self._incoming = incoming

    def read(self, count: int) -> bytes:
        return self._incoming.read_packed(count)

    def close(self) -> None:
        self.closed = True


class _EndedInput:
    """A substitute for a file that was closed."""

    def read1(self, count: int) -> bytes:
        return b""


def _widen_pipe(descriptor: int) -> None:
    if sys.platform == "linux":
        import fcntl  # missing on Windows

        try:
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_ROOM)
        except OSError:
            return  # a limit of this system: the pipe works, in smaller blocks
