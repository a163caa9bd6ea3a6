"""Write bytes to standard output, to a file in place, or to a file that appears when complete.

Compressed bytes do not depend on how writes were split.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import zlib
from pathlib import Path
from typing import Any, BinaryIO

from tidegate import _atomic_files
from tidegate.io.errors import SinkError, sink_error
from tidegate.io.file_kind_and_row_count import is_standard
from tidegate.tables.optional_libraries import require_library_for_files

_BLOCK = 1 << 20  # the compressor gets blocks of exactly this length
_GZIP = 16 + zlib.MAX_WBITS  # with gzip's header; zlib leaves its time at 0
# Chosen for speed: text of released values shrinks to a tenth or less at any level.
_GZIP_LEVEL, _ZSTD_LEVEL = 1, 1


class PackedOutput:
    """An `OutputBytes` behind a compressor."""

    def __init__(self, outgoing: OutputBytes, codec: str) -> None:
        self._outgoing = outgoing
        self._waiting = bytearray()
        self._torn = False  # a write failed: what the compressor took is not known
        if codec == "gzip":
            self._compressor: Any = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP)
        else:
            zstandard = require_library_for_files("zstandard")
            settings = {"level": _ZSTD_LEVEL, "write_checksum": True}
            self._compressor = zstandard.ZstdCompressor(**settings).compressobj()

    def write(self, data: Bytes) -> None:
        """Compress and write."""
        torn, self._torn = self._torn, True
        self._outgoing.broken |= torn
        self._waiting += data
        while len(self._waiting) >= _BLOCK:
            self._outgoing.write(self._compressor.compress(bytes(self._waiting[:_BLOCK])))
            del self._waiting[:_BLOCK]
        self._torn = False

    def sync(self) -> None:
        """Do nothing: a compressed file appears when it is complete."""

    def close(self) -> None:
        """Write the rest and the end of the compressed data."""
        self._outgoing.broken |= self._torn
        if not self._outgoing.closed and not self._outgoing.broken:
            self._outgoing.write(self._compressor.compress(bytes(self._waiting)))
            self._outgoing.write(self._compressor.flush())
            self._waiting.clear()
        self._outgoing.close()

    def abort(self) -> None:
        """Discard the output."""
        self._outgoing.abort()


Bytes = bytes | memoryview
_CUT_SHORT = "a write was cut short: the file is not completed"
_PUBLIC = 0o666  # released data: readable by others, as far as the umask allows


class OutputBytes:
    """A file being written; every write reaches the operating system at once.

    `whole`: written as a draft beside the target and renamed when complete
    (`_atomic_files.DraftFile`).
    `append`: continue at the end of the file.

    A write that fails or is interrupted leaves a file with an unknown end. Such a file is never
    completed: a draft does not appear, and of a file in place the unfinished part is cut off.
    """

    def __init__(
        self, path: str | Path | None, *, whole: bool = False, append: bool = False
    ) -> None:
        self.name = "standard output" if is_standard(path) else os.fspath(path or "")
        self._target: Path | None = None
        self._draft: _atomic_files.DraftFile | None = None
        self.closed = False
        self.broken = False  # a write has failed
        self._descriptor = -1
        self._stand_in: BinaryIO | None = None  # for standard output without a descriptor
        try:
            if is_standard(path):
                self._descriptor, self._stand_in = _standard_output(self.name)
                return
            self._target = Path(self.name)
            special = self._target.exists() and not self._target.is_file()
            if special and self._target.is_dir():
                raise SinkError(None, "is a directory", self.name)
            if not special:
                self._target = Path(os.path.realpath(self.name))  # a link stays a link
            if whole and not special:  # a device or a named pipe cannot be replaced
                self._draft = _atomic_files.DraftFile(self._target, _PUBLIC)
                self._descriptor = self._draft.descriptor
            else:
                flags = os.O_CREAT | os.O_WRONLY | (os.O_APPEND if append else os.O_TRUNC)
                self._descriptor = _atomic_files.open_file(self._target, flags, _PUBLIC)
        except OSError as error:
            raise self._error(error) from None

    def write(self, data: Bytes) -> None:
        """Write all bytes; after a failure the file is broken."""
        if self.broken or self.closed:
            raise SinkError(None, _CUT_SHORT, self.name)
        self.broken = True  # until all of it has been taken
        try:
            if self._stand_in is None:
                _atomic_files.write_all(self._descriptor, data)
            else:
                self._stand_in.write(data)
                self._stand_in.flush()  # it may be buffered
        except OSError as error:
            raise self._error(error) from None
        self.broken = False

    def tell(self) -> int:
        """The present length of a regular file."""
        return os.fstat(self._descriptor).st_size

    def sync(self) -> None:
        """Sync a regular file to the disk."""
        try:
            if self._regular():
                _atomic_files.sync(self._descriptor)
        except OSError as error:
            self.broken = True
            raise self._error(error) from None

    def cut(self, length: int) -> None:
        """Truncate a regular file after `length` bytes."""
        try:
            if self._regular() and self.tell() > length:
                _atomic_files.truncate(self._descriptor, length)
        except OSError as error:
            raise self._error(error) from None

    def _regular(self) -> bool:
        return self._target is not None and stat.S_ISREG(os.fstat(self._descriptor).st_mode)

    def close(self) -> None:
        """Complete the file; a draft takes the place of its target, durably."""
        if self.closed:
            return
        try:
            if self._draft is not None:
                if self.broken:
                    raise SinkError(None, _CUT_SHORT, self.name)
                self._draft.publish()
        except FileExistsError:
            raise SinkError(None, "another process is writing this file", self.name) from None
        except OSError as error:
            raise self._error(error) from None
        finally:
            self.abort()

    def abort(self) -> None:
        """Close without completing; a draft is removed."""
        if self.closed:
            return
        self.closed = True
        if self._draft is not None:
            self._draft.discard()
        if self._target is not None and self._descriptor >= 0:
            with contextlib.suppress(OSError):
                _atomic_files.close(self._descriptor)

    def _error(self, error: OSError) -> SinkError:
        return error if isinstance(error, SinkError) else sink_error(error, self.name)


def write_output_file(path: Path, data: bytes) -> None:
    """Replace a small file in one step."""
    try:
        _atomic_files.replace_file(
            Path(os.path.realpath(path)), data, _PUBLIC
        )  # a link stays a link
    except FileExistsError:
        raise SinkError(None, "another process is writing this file", os.fspath(path)) from None
    except OSError as error:
        raise sink_error(error, os.fspath(path)) from None


def _standard_output(name: str) -> tuple[int, Any]:
    """The unbuffered descriptor: nothing can fail later, when the interpreter exits."""
    if sys.stdout is None:
        raise SinkError(None, "is closed", name)
    sys.stdout.flush()
    try:
        return sys.stdout.fileno(), None
    except OSError:  # `UnsupportedOperation`: a substitute without a descriptor
        return -1, sys.stdout.buffer
