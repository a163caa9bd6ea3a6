"""A released file, understood and queried without the state that made it.

One scan turns its values into running block sums, kept in an index file beside it (`.<name>` +
`.tidegate-index`): answers then take as long for 10⁸ values as for ten. The index holds nothing
that the file does not say; delete it at will.

    row of block 0 · row of block 1 · … · footer (JSON) · length of the footer · mark
"""

from __future__ import annotations

import json
import mmap
import os
import stat
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import QueryError, SettingError, TidegateError
from tidegate.io import SourceError, read_metadata, read_released
from tidegate.io.errors import sink_error, source_error
from tidegate.io.kinds import kind_of
from tidegate.lattice import FloatArray, IntArray
from tidegate.phases import Phase
from tidegate.pipeline import Pipeline
from tidegate.queries import Record
from tidegate.segments import Gap, Segment

_MARK = b"TIDEGATE INDEX 1"
_END = struct.Struct(f"<Q{len(_MARK)}s")
# Of block t: the running sum before it, the prediction inside it, the running squares before it.
_ROW = np.dtype([("sum", "<i8"), ("prediction", "<f8"), ("square", "<f8")])
_SINGLE = np.dtype([("sum", "<i8")])  # blocks of one value are not predicted
_DAMAGED = "its metadata is damaged, or is not that of a release"


@dataclass(frozen=True)
class ReleasedFile:
    """A file that `tidegate release` wrote. Made by `ReleasedFile.open`.

    Attributes:
        path: the file.
        metadata: the public facts it carries, as `tidegate.durable` describes a release.
        pipeline: the settings it was released with.
        record: its block sums, ready for queries.
    """

    path: Path
    metadata: dict[str, Any]
    pipeline: Pipeline
    record: Record

    @classmethod
    def open(
        cls,
        path: str | Path,
        format: str | None = None,  # noqa: A002  # as in open_source
    ) -> ReleasedFile:
        """Read the index, or scan the file if there is none that fits.

        Raises:
            SourceError: if it cannot be read, has no metadata, or its rows do not count up.
        """
        place = Path(os.path.realpath(path))
        name = os.fspath(path)
        try:
            found = place.stat()
        except OSError as error:
            raise source_error(error, name) from None
        if not stat.S_ISREG(found.st_mode):
            raise SourceError(None, "is not a file: only files can be queried", name)
        version = {"size": found.st_size, "mtime_ns": found.st_mtime_ns}
        index_path = place.with_name(f".{place.name}.tidegate-index")
        index = _Index.read(index_path)
        if index is not None and index.version != version:
            index = None
        # A Parquet file's facts are inside it, so that they cannot be newer than its index.
        if index is not None and kind_of(path, format).format == "parquet":
            metadata = index.metadata
        else:
            metadata = _metadata(path, format)
        pipeline, phases = _understood(metadata, name)
        if index is None or index.metadata != metadata:
            stretches = _stretches(pipeline, phases, name)

            def scan(out: IO[bytes]) -> list[dict[str, Any]]:
                values = _checked(path, format, phases[0].start)
                return _scan(out, pipeline, stretches, values)

            facts = {"version": version, "metadata": metadata}
            index = _built(index_path, found.st_mode, facts, scan)
        return cls(Path(path), metadata, pipeline, index.record(pipeline, metadata["guarantee"]))

    @property
    def guarantee(self) -> str:
        """What was promised to those whose values these are."""
        return self.record.guarantee

    @property
    def thresholds(self) -> list[Phase]:
        """Every threshold, and the position from which on it holds."""
        return [Phase(**phase) for phase in self.metadata["phases"]]

    @property
    def note(self) -> str:
        """What to know about answers from this file, or nothing."""
        if not self.pipeline.non_negative:
            return ""
        return (
            "The file was made non-negative: block sums include debts carried over from negative "
            "values, so that a range may also be off by the debt at either end. The state's own "
            "record has none of this."
        )


# -- metadata ------------------------------------------------------------------------------------


def _metadata(path: str | Path, format: str | None) -> dict[str, Any]:  # noqa: A002  # as above
    metadata = read_metadata(path, format)
    if metadata is None:
        where = f"{Path(path).name}.meta.json beside it is missing"
        inside = kind_of(path, format).format == "parquet"
        raise SourceError(
            None,
            "carries no metadata of Tidegate, so its noise is not known"
            + (": was it rewritten by another tool?" if inside else f" ({where})"),
            os.fspath(path),
        )
    return metadata


def _understood(metadata: Mapping[str, Any], name: str) -> tuple[Pipeline, list[Phase]]:
    try:
        pipeline = Pipeline.from_settings(metadata["settings"])
        phases = [Phase(**phase) for phase in metadata["phases"]]
        block = metadata["block"]
        well_formed = isinstance(metadata["guarantee"], str) and all(
            type(phase.start) is int and phase.threshold > 0 for phase in phases
        )
    except SettingError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError):
        raise SourceError(None, _DAMAGED, name) from None
    if not well_formed:
        raise SourceError(None, _DAMAGED, name)
    if not phases:
        raise QueryError(f"{name}: nothing was released yet")
    if block != pipeline.perturber.block:
        problem = f"has blocks of {block}, where this Tidegate makes {pipeline.perturber.block}"
        raise SourceError(None, f"{problem}: use the version {metadata.get('tidegate')}", name)
    return pipeline, phases


@dataclass
class _Stretch:
    """Positions of one phase that were measured, or blocked; `end` None: without end."""

    blocked: bool
    start: int
    end: int | None
    threshold: int
    epoch: str


def _stretches(pipeline: Pipeline, phases: list[Phase], name: str) -> list[_Stretch]:
    """What each position is, as far as the known phases go."""
    origin, block, again = phases[0].start, pipeline.perturber.block, pipeline.reselect
    found: list[_Stretch] = []
    for number, phase in enumerate(phases):
        threshold = round(phase.threshold / pipeline.lattice.step)
        switch = None if again is None else again.switch(number, block)
        end = None if switch is None else origin + switch
        if number + 1 < len(phases) and phases[number + 1].start != end:
            raise SourceError(None, _DAMAGED, name)
        begin = phase.start
        if again is not None and again.blocking and end is not None:
            opening = origin + (again.opening(number, block) or 0)
            found.append(_Stretch(False, begin, opening, threshold, phase.epoch))
            found.append(_Stretch(True, opening, end, threshold, f"{phase.epoch} blocked"))
        else:
            found.append(_Stretch(False, begin, end, threshold, phase.epoch))
    return found


# -- the scan ------------------------------------------------------------------------------------


def _checked(
    path: str | Path,
    format: str | None,  # noqa: A002  # as above
    start: int,
) -> Iterator[FloatArray]:
    """The released values, which must begin where the release began and be numbers."""
    following = start
    for first, values in read_released(path, format):
        if first != following:
            problem = f"its rows begin at position {first}, not {start}: a part of it is missing"
            raise SourceError(None, problem, os.fspath(path))
        if not np.isfinite(values).all():
            at = first + int(np.argmin(np.isfinite(values)))
            raise SourceError(None, f"the value at position {at} is missing", os.fspath(path))
        yield values
        following = first + values.size


class _BlockSums:
    """Cuts values into blocks and writes a row for each."""

    def __init__(self, out: IO[bytes], pipeline: Pipeline) -> None:
        self._out = out
        self._block = pipeline.perturber.block
        self._step = pipeline.lattice.step
        self._settled = pipeline.non_negative
        self._sum, self._square = 0, 0.0
        self._fraction = 0.0  # of a unit, not yet in a block sum; non-negative files only
        self._prediction, self._partial = 0.0, 0.0  # of the open block
        self.filled = 0
        self.closed = 0

    def push(self, values: FloatArray) -> None:
        """Values of the same segment, in order."""
        if self.filled:
            taken = values[: self._block - self.filled]
            values = values[taken.size :]
            self._partial += float(taken.sum())
            self.filled += taken.size
            if self.filled < self._block:
                return
            self._close(np.array([self._partial]), np.array([self._prediction]))
        count = values.size // self._block
        if count:
            whole = values[: count * self._block].reshape(count, self._block)
            self._close(whole.sum(axis=1), whole[:, 0])
        rest = values[count * self._block :]
        self.filled = rest.size
        if rest.size:
            self._prediction, self._partial = float(rest[0]), float(rest.sum())

    def _close(self, sums: FloatArray, firsts: FloatArray) -> None:
        units = self._units(sums / self._step)
        rows = np.empty(units.size, dtype=_SINGLE if self._block == 1 else _ROW)
        running = np.cumsum(np.concatenate(([self._sum], units)))
        rows["sum"], self._sum = running[:-1], int(running[-1])
        if self._block > 1:
            predictions = firsts / self._step
            misses = np.square(units - self._block * predictions)
            squares = np.cumsum(np.concatenate(([self._square], misses)))
            rows["square"], self._square = squares[:-1], float(squares[-1])
            rows["prediction"] = predictions
        self._out.write(rows.tobytes())
        self.closed += units.size

    def _units(self, sums: FloatArray) -> IntArray:
        """Block sums are whole units. Debts are not: there, running sums are rounded instead."""
        if self._settled:
            running = self._fraction + np.cumsum(sums)
            whole = np.rint(running)
            self._fraction = float(running[-1] - whole[-1])
            return np.diff(whole, prepend=0.0).astype(np.int64)
        return np.rint(sums).astype(np.int64)

    def finish(self) -> int:
        """Write the row of the block that is open, or next; gives the number of rows."""
        prediction = self._prediction / self._step if self.filled else 0.0
        row = (self._sum,) if self._block == 1 else (self._sum, prediction, self._square)
        self._out.write(np.array([row], dtype=_SINGLE if self._block == 1 else _ROW).tobytes())
        return self.closed + 1


def _scan(
    out: IO[bytes], pipeline: Pipeline, stretches: list[_Stretch], pieces: Iterable[FloatArray]
) -> list[dict[str, Any]]:
    """Write the rows of all segments, in bounded memory; give what else is known of them."""
    waiting = iter(stretches)
    now = next(waiting)
    position, sums, level = now.start, _BlockSums(out, pipeline), 0.0
    found: list[dict[str, Any]] = []

    def finish() -> None:
        facts = {**asdict(now), "end": position}
        if now.blocked:
            found.append({**facts, "prediction": level})
        else:
            found.append({**facts, "rows": sums.finish(), "filled": sums.filled})

    for piece in pieces:
        values = piece
        while values.size:
            if position == now.end:
                finish()
                following = next(waiting, None)
                if following is None:
                    raise QueryError(
                        f"the rows go on after position {position}, where a new threshold begins "
                        "that the metadata does not know yet: ask again when it was written"
                    )
                now, sums = following, _BlockSums(out, pipeline)
            part = values if now.end is None else values[: now.end - position]
            if now.blocked:
                level = float(part[0]) / pipeline.lattice.step
            else:
                sums.push(part)
            position += part.size
            values = values[part.size :]
    finish()
    return found


# -- the index -----------------------------------------------------------------------------------


class _StoredSegment(Segment):
    """A segment whose rows stay in the index file, and are read where they are asked for."""

    def __init__(self, rows: NDArray[Any], filled: int, **facts: Any) -> None:
        super().__init__(history=1, first=0.0, **facts)
        self._closed, self.filled = rows.size - 1, filled
        self._sums = rows["sum"]
        if self._block > 1:
            self._predictions, self._squares = rows["prediction"], rows["square"]


class _Index:
    """Rows and footer of an index file."""

    def __init__(self, data: mmap.mmap, footer: dict[str, Any]) -> None:
        self._data = data
        self._segments: list[dict[str, Any]] = footer["segments"]
        self.version: dict[str, int] = footer["version"]
        self.metadata: dict[str, Any] = footer["metadata"]

    @classmethod
    def read(cls, path: Path) -> _Index | None:
        """The index, or None if there is none that can be used."""
        try:
            with path.open("rb") as file:
                return cls.mapped(file)
        except OSError:
            return None

    @classmethod
    def mapped(cls, file: IO[bytes]) -> _Index | None:
        """The index in an open file, or None if it is none."""
        try:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            length, mark = _END.unpack(data[-_END.size :])
            if mark != _MARK:
                return None
            return cls(data, json.loads(data[-_END.size - length : -_END.size]))
        except (ValueError, struct.error, KeyError, TypeError):  # empty, cut short, not ours
            return None

    def record(self, pipeline: Pipeline, guarantee: str) -> Record:
        """The block sums of all segments."""
        kind = _SINGLE if pipeline.perturber.block == 1 else _ROW
        laws: dict[int, Any] = {}
        segments: list[Segment | Gap] = []
        at = 0
        for facts in self._segments:
            threshold, step = facts["threshold"], pipeline.lattice.step
            shared = {"origin": facts["start"], "threshold": threshold, "epoch": facts["epoch"]}
            if facts["blocked"]:
                end, prediction = facts["end"], facts["prediction"]
                segments.append(Gap(**shared, end=end, prediction=prediction, step=step))
                continue
            if threshold not in laws:
                laws[threshold] = pipeline.fixed_stages[0].noise_law(threshold)
            rows: NDArray[Any] = np.frombuffer(self._data, kind, facts["rows"], at)
            at += rows.nbytes
            block, law = pipeline.perturber.block, laws[threshold]
            segments.append(
                _StoredSegment(rows, facts["filled"], **shared, law=law, block=block, step=step)
            )
        return Record(segments, guarantee)


_Scan = Callable[[IO[bytes]], list[dict[str, Any]]]


def _built(path: Path, mode: int, facts: Mapping[str, Any], scan: _Scan) -> _Index:
    """Scan, and keep the index beside the file; where that is impossible, for this once."""
    try:
        return _written(path, mode, facts, scan, path.parent)
    except TidegateError:
        raise
    except OSError:  # the folder is read-only, or full
        try:
            return _written(path, mode, facts, scan, None)
        except TidegateError:
            raise
        except OSError as error:
            raise sink_error(error, tempfile.gettempdir()) from None


def _written(
    path: Path, mode: int, facts: Mapping[str, Any], scan: _Scan, folder: Path | None
) -> _Index:
    descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=f"{path.name}-")
    try:
        with os.fdopen(descriptor, "w+b") as file:
            footer = json.dumps({**facts, "segments": scan(file)}).encode()
            file.write(footer + _END.pack(len(footer), _MARK))
            file.flush()
            index = _Index.mapped(file)
            if index is None:
                raise AssertionError("an index that was just written can be read")
            if folder is not None:
                os.fchmod(descriptor, mode & 0o666)  # who may read the one may read the other
                os.fsync(descriptor)
                Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return index
