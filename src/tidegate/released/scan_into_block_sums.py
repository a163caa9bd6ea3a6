"""Scan released values into running block sums, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np

from tidegate.errors import QueryError
from tidegate.exact_numbers import LARGEST
from tidegate.io import SourceError, read_released
from tidegate.lattice import FloatArray, IntArray
from tidegate.run.phased_run import Phase
from tidegate.run.pipeline import Pipeline
from tidegate.state_as_bytes import restore, state_of

DAMAGED = "its metadata is damaged, or is not that of a release"
# A row for block t: the running sum before it, the prediction in it, the running squares before it.
_ROW = np.dtype([("sum", "<i8"), ("prediction", "<f8"), ("square", "<f8")])
_SINGLE = np.dtype([("sum", "<i8")])  # blocks of one value are not predicted


def block_sum_row_kind(block: int) -> np.dtype[np.void]:
    """The dtype of a row, by the block length."""
    return _SINGLE if block == 1 else _ROW


@dataclass
class ScannedSpan:
    """Positions of one phase that were measured, or withheld; `end` None: no end."""

    blocked: bool
    start: int
    end: int | None
    threshold: int
    epoch: str
    below: int = 0


def scanned_spans(pipeline: Pipeline, phases: list[Phase], name: str) -> list[ScannedSpan]:
    """The spans of all known phases, in order."""
    origin, block = phases[0].start, pipeline.perturber.block
    schedule = pipeline.schedule
    found: list[ScannedSpan] = []
    for number, phase in enumerate(phases):
        ends = phase.ends(pipeline.lattice.step)
        threshold, below = ends.width, ends.below
        switch = schedule.switch(number, block)
        end = None if switch is None else origin + switch
        if number + 1 < len(phases) and phases[number + 1].start != end:
            raise SourceError(None, DAMAGED, name)
        begin = phase.start
        if schedule.withholds and end is not None:
            opening = origin + (schedule.opening(number, block) or 0)
            found.append(ScannedSpan(False, begin, opening, threshold, phase.epoch, below))
            found.append(
                ScannedSpan(True, opening, end, threshold, f"{phase.epoch} blocked", below)
            )
        else:
            found.append(ScannedSpan(False, begin, end, threshold, phase.epoch, below))
    return found


def checked_scan(
    path: str | Path,
    format: str | None,  # noqa: A002  # as in open_source
    start: int,
    skipped: int = 0,
) -> Iterator[FloatArray]:
    """The released values, checked: they begin at `start` and are numbers.

    `skipped` bytes hold the rows before that.
    """
    following = start
    after = (skipped, start) if skipped else None
    for first, values in read_released(path, format, after=after):
        if first != following:
            problem = f"its rows begin at position {first}, not {start}: a part of it is missing"
            raise SourceError(None, problem, os.fspath(path))
        if not np.isfinite(values).all():
            at = first + int(np.argmin(np.isfinite(values)))
            raise SourceError(None, f"the value at position {at} is missing", os.fspath(path))
        yield values
        following = first + values.size


class _BlockSums:
    """Divides values into blocks and writes a row for each."""

    STATE: ClassVar[tuple[str, ...]] = (
        "sum", "square", "fraction", "prediction", "partial", "filled", "closed",
    )  # fmt: skip

    def __init__(self, out: IO[bytes], pipeline: Pipeline) -> None:
        self._out = out
        self._block = pipeline.perturber.block
        self._step = pipeline.lattice.step
        self._settled = pipeline.non_negative
        self.sum, self.square = 0, 0.0
        self.fraction = 0.0  # of a unit, not yet in a block sum; non-negative files only
        self.prediction, self.partial = 0.0, 0.0  # of the open block
        self.filled = 0
        self.closed = 0

    def push(self, values: FloatArray) -> None:
        """Take values of the same segment, in order."""
        if self.filled:
            taken = values[: self._block - self.filled]
            values = values[taken.size :]
            self.partial += float(taken.sum())
            self.filled += taken.size
            if self.filled < self._block:
                return
            self._close(np.array([self.partial]), np.array([self.prediction]))
        count = values.size // self._block
        if count:
            whole = values[: count * self._block].reshape(count, self._block)
            self._close(whole.sum(axis=1), whole[:, 0])
        rest = values[count * self._block :]
        self.filled = rest.size
        if rest.size:
            self.prediction, self.partial = float(rest[0]), float(rest.sum())

    def _close(self, sums: FloatArray, firsts: FloatArray) -> None:
        scaled = sums / self._step
        if not float(np.abs(scaled).max()) < LARGEST:  # running sums may wrap round: `LeafBuffer`
            raise QueryError("values of this file are beyond any that a release has: it is damaged")
        units = self._units(scaled)
        rows = np.empty(units.size, dtype=block_sum_row_kind(self._block))
        running = np.cumsum(np.concatenate(([self.sum], units)))
        rows["sum"], self.sum = running[:-1], int(running[-1])
        if self._block > 1:
            predictions = firsts / self._step
            misses = np.square(units - self._block * predictions)
            squares = np.cumsum(np.concatenate(([self.square], misses)))
            rows["square"], self.square = squares[:-1], float(squares[-1])
            rows["prediction"] = predictions
        self._out.write(rows.tobytes())
        self.closed += units.size

    def _units(self, sums: FloatArray) -> IntArray:
        """Block sums as integers; with debts, differences of rounded running sums."""
        if self._settled:
            running = self.fraction + np.cumsum(sums)
            whole = np.rint(running)
            self.fraction = float(running[-1] - whole[-1])
            return np.diff(whole, prepend=0.0).astype(np.int64)
        return np.rint(sums).astype(np.int64)

    def finish(self) -> int:
        """Write the row of the open or next block; return the number of rows."""
        prediction = self.prediction / self._step if self.filled else 0.0
        row = (self.sum,) if self._block == 1 else (self.sum, prediction, self.square)
        self._out.write(np.array([row], dtype=block_sum_row_kind(self._block)).tobytes())
        return self.closed + 1


def scan_block_sums(
    out: IO[bytes],
    pipeline: Pipeline,
    spans: list[ScannedSpan],
    blocks: Iterable[FloatArray],
    before: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write the rows of all segments, in bounded memory; return the facts about them.

    `before`: the result of an earlier scan whose rows are in `out` already; `blocks` follow them.
    """
    known = [] if before is None else before["segments"]
    found: list[dict[str, Any]] = known[:-1]
    waiting = iter(spans[len(found) :])
    now = next(waiting)
    position, sums, level = now.start, _BlockSums(out, pipeline), 0.0
    if before is not None:
        position, level = before["position"], before["level"]
        restore(sums, before["open"])

    def finish() -> None:
        facts = {**asdict(now), "end": position}
        if now.blocked:
            found.append({**facts, "prediction": level})
        else:
            found.append({**facts, "rows": sums.finish(), "filled": sums.filled})

    for block in blocks:
        values = block
        while values.size:
            if position == now.end:
                finish()
                following = next(waiting, None)
                if following is None:
                    raise QueryError(
                        f"a new threshold begins at position {position}, but is not in the "
                        "metadata yet. Ask again in a moment: the file is being written"
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
    return {"segments": found, "position": position, "level": level, "open": state_of(sums)}
