"""The index file beside a released one (`.<name>.tidegate-index`): running block sums.

With it, a query takes the same time for 10⁸ values as for ten. Everything in it comes from the
released file, so it may be deleted.

    row of block 0 · row of block 1 · … · footer (JSON) · length of the footer · mark

A file that has grown since it was indexed: only the new rows are read.

The digest of the bytes that were indexed shows whether the file has only grown, or was replaced. It
takes an eighth of the time of reading the rows.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tidegate import _atomic_files
from tidegate.errors import TidegateError
from tidegate.io.errors import sink_error
from tidegate.io.file_kind_and_row_count import FileKind
from tidegate.lattice import IntArray
from tidegate.record.record import Record
from tidegate.record.segments.leaf_buffers import LeafBuffer
from tidegate.record.segments.segment import Segment
from tidegate.released.scan_into_block_sums import ScannedSpan, block_sum_row_kind
from tidegate.run.pipeline import Pipeline

_MARK = b"TIDEGATE INDEX 1"
_PIECE = 1 << 24
_END = struct.Struct(f"<Q{len(_MARK)}s")


class SumsIndex:
    """Rows and footer of an index file."""

    def __init__(self, data: mmap.mmap, footer: dict[str, Any]) -> None:
        self._data = data
        self._segments: list[dict[str, Any]] = footer["segments"]
        self.footer = footer
        self.version: dict[str, int] = footer["version"]
        self.metadata: dict[str, Any] = footer["metadata"]

    @classmethod
    def read(cls, path: Path) -> SumsIndex | None:
        """The index. None: it is missing or unusable."""
        try:
            with path.open("rb") as file:
                return cls.mapped(file)
        except OSError:
            return None

    @classmethod
    def mapped(cls, file: IO[bytes]) -> SumsIndex | None:
        """The index in an open file. None: the file is not an index."""
        try:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            length, mark = _END.unpack(data[-_END.size :])
            if mark != _MARK:
                return None
            return cls(data, json.loads(data[-_END.size - length : -_END.size]))
        except (
            ValueError,
            struct.error,
            KeyError,
            TypeError,
            RecursionError,
        ):  # empty, cut short, not ours
            return None

    def copy(self, out: IO[bytes], block: int) -> None:
        """Copy the rows of complete blocks: all but the last. (A blocked span has no rows.)"""
        rows = sum(facts.get("rows", 0) for facts in self._segments)
        if not self._segments[-1]["blocked"]:
            rows -= 1
        end = rows * block_sum_row_kind(block).itemsize
        for start in range(0, end, _PIECE):
            out.write(self._data[start : min(start + _PIECE, end)])

    def whole_numbers(self, at: int, count: int) -> IntArray:
        """64-bit integers, written from byte `at` on."""
        return np.frombuffer(self._data, np.int64, count, at)

    def record(
        self,
        pipeline: Pipeline,
        guarantee: str,
        parts: Sequence[Mapping[str, Any]] | None = None,
        at: int = 0,
    ) -> Record:
        """The block sums of all segments; or of these, whose rows begin at byte `at`."""
        block = pipeline.perturber.block
        kind = block_sum_row_kind(block)
        segments: list[Segment] = []
        for facts in self._segments if parts is None else parts:
            segment = Segment(
                pipeline.method,
                threshold=facts["threshold"],
                below=facts.get("below", 0),
                origin=facts["start"],
                epoch=facts["epoch"],
                prediction=facts["prediction"] if facts["blocked"] else None,
            )
            segments.append(segment)
            if segment.measured:
                segment.begin(segment.layout(pipeline.perturber.lengths(0)[0], 0), 0, 0)
                rows: NDArray[Any] = np.frombuffer(self._data, kind, facts["rows"], at)
                at += rows.nbytes
                # The rows stay in the index file, and are read on demand.
                columns = [rows[name] for name in kind.names or ()]
                segment.leaves = LeafBuffer.stored(block=block, columns=columns)
            segment.end = facts["end"]
        return Record(segments, guarantee)


_Scan = Callable[[IO[bytes]], dict[str, Any]]


def built_sums_index(path: Path, mode: int, facts: Mapping[str, Any], scan: _Scan) -> SumsIndex:
    """Scan the file, and store the index beside it; if that is impossible, use it once."""
    try:
        return _written_sums_index(path, mode, facts, scan, path.parent)
    except TidegateError:
        raise
    except OSError:  # the folder is read-only, or full
        try:
            return _written_sums_index(path, mode, facts, scan, None)
        except TidegateError:
            raise
        except OSError as error:
            raise sink_error(error, tempfile.gettempdir()) from None


def _written_sums_index(
    path: Path, mode: int, facts: Mapping[str, Any], scan: _Scan, folder: Path | None
) -> SumsIndex:
    descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=f"{path.name}-")
    try:
        with os.fdopen(descriptor, "w+b") as file:
            footer = json.dumps({**facts, **scan(file)}).encode()
            file.write(footer + _END.pack(len(footer), _MARK))
            file.flush()
            index = SumsIndex.mapped(file)
            if index is None:
                raise AssertionError("an index that was just written can be read")
            if folder is not None:
                os.fchmod(descriptor, mode & 0o666)  # who may read the one may read the other
                _atomic_files.sync(descriptor)
                _atomic_files.rename(Path(temporary), path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return index


_DIGEST_PIECE = 1 << 20


def sums_index_grown_from(
    before: SumsIndex | None,
    path: Path,
    kind: FileKind,
    size: int,
    metadata: Mapping[str, Any],
    parts: list[ScannedSpan],
) -> tuple[SumsIndex | None, str | None]:
    """The earlier index, if the file has only grown; and the digest of the present file."""
    if (
        before is None
        or before.footer.get("prefix") is None
        or before.version["size"] >= size
        or before.metadata["settings"] != metadata["settings"]
        or not _sums_index_continues(before, parts)
    ):
        return None, _sums_index_digests(path, kind, [size])[0]
    then, now = _sums_index_digests(path, kind, [before.version["size"], size])
    return before if then == before.footer["prefix"] else None, now


def _sums_index_digests(path: Path, kind: FileKind, sizes: Sequence[int]) -> list[str | None]:
    """The digest of the first `size` bytes, for increasing sizes. None: no row can follow there.

    Rows can follow plain lines of which the last is complete and not blank.
    """
    found: list[str | None] = []
    digest, taken, last = hashlib.sha256(), 0, b""
    try:
        with path.open("rb") as file:
            for size in sizes if kind.recoverable else ():
                while taken < size and (data := file.read(min(_DIGEST_PIECE, size - taken))):
                    digest.update(data)
                    taken += len(data)
                    last = (last + data)[-2:]
                whole = taken == size and last.endswith(b"\n") and last[:1].strip() != b""
                found.append(digest.hexdigest() if whole else None)
    except OSError:  # reading the rows will report it
        found.clear()
    return found + [None] * (len(sizes) - len(found))


def _sums_index_continues(index: SumsIndex, spans: list[ScannedSpan]) -> bool:
    """Whether the phases of the index are the first of the present ones."""
    known = index.footer["segments"]
    if len(known) > len(spans):
        return False
    same = all(
        (
            facts["blocked"],
            facts["start"],
            facts["threshold"],
            facts["epoch"],
            facts.get("below", 0),
        )
        == (span.blocked, span.start, span.threshold, span.epoch, span.below)
        for facts, span in zip(known, spans, strict=False)
    )
    return same and all(
        facts["end"] == span.end for facts, span in zip(known[:-1], spans, strict=False)
    )
