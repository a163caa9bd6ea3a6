"""`Rows`: consecutive released rows; `Levels`: the expected value at each row; moving averages.

Post-processing of released cells:

    value   sums are made of it: at the end of a cell it corrects the running sum, so single rows
            can be far outside the range of the data
    level   for eyes: the forecast that is valid once the row is out, within the bounds

The last row of a cell has the forecast of the next cell. The same function computes levels while
values are released and when they are emitted again from a journal.

The moving average of what was released, with its error band: what a picture shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.clock import Clock
from tidegate.lattice import FloatArray, IntArray
from tidegate.record.range_queries_and_answers import Answers
from tidegate.record.segments.journal_entry import JournalTrace
from tidegate.record.segments.segment import Segment
from tidegate.record.segments.segment_method import SegmentMethod
from tidegate.stages import NO_SUMS
from tidegate.tables.html import band
from tidegate.tables.tables_from_numpy import arrow_table, pandas_frame, polars_frame

if TYPE_CHECKING:
    from tidegate.record.record import Record


class Rows(NamedTuple):
    """Released rows, ordered by position.

    Attributes:
        first: the position of the first row, counted from 0.
        values: what was released; sums are made of it, and single ones look wild.
        levels: what a value is expected to be, as known once the row is out: smooth, within the
            bounds, for people to look at.
        times: as they were given with the values, in nanoseconds since 1970; None: none were.
    """

    first: int
    values: FloatArray
    levels: FloatArray
    times: IntArray | None = None

    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns: time (if there is one), position, value, level."""
        positions = np.arange(self.first, self.first + self.values.size)
        times = {} if self.times is None else {"time": self.times.astype("datetime64[ns]")}
        return {**times, "position": positions, "value": self.values, "level": self.levels}

    def to_arrow(self) -> Any:
        """A `pyarrow.Table`."""
        return arrow_table(self.columns())

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame`."""
        return pandas_frame(self.columns())

    def to_polars(self) -> Any:
        """A `polars.DataFrame`."""
        return polars_frame(self.columns())

    def since(self, position: int) -> Rows:
        """The rows from a position on."""
        skip = max(0, position - self.first)
        times = None if self.times is None else self.times[skip:]
        return Rows(self.first + skip, self.values[skip:], self.levels[skip:], times)


_FEW = 8  # cells that are filled one by one faster than at once


class Levels:
    """The levels of the values of one phase, in lattice units, from its cells in order.

    Args:
        method: how the values are measured and estimated.
        threshold: of the phase, in lattice units; None while it is not chosen (a warm-up).
        below: how much of it lies below 0.
        prediction: for a value of the open cell.
        filled: values that were published of the open cell.
        recent: the last leaf sums, if levels are means of them (`Estimator.level_leaves`).
    """

    def __init__(
        self,
        method: SegmentMethod,
        threshold: int | None,
        prediction: float,
        filled: int = 0,
        recent: IntArray = NO_SUMS,
        *,
        below: int = 0,
    ) -> None:
        self._block = method.perturber.block
        self._window = 0 if threshold is None else window_of_levels(method, threshold)
        # Twice the sum of a leaf, expected at first: in the middle between both ends.
        self._prior = ((threshold or 0) - 2 * below) * self._block
        self._recent = recent
        self._filled = filled
        self.level = prediction
        if self._window:
            self.level = self._means(NO_SUMS).item()

    def push(self, trace: JournalTrace, out: FloatArray) -> None:
        """Fill `out` with the levels of the values of this released piece."""
        following = self._means(trace.sums) if self._window else trace.predictions
        widths = trace.widths if trace.widths.size else np.full(following.size, self._block)
        if not out.size:
            if following.size:  # a warm-up ended after its rows were out
                self.level, self._filled = float(following[-1]), 0
            return
        if not following.size:
            out[:] = self.level
            self._filled += out.size
            return
        ends = np.cumsum(widths) - self._filled
        if following.size <= _FEW:
            at = 0
            for end, level in zip(ends.tolist(), following.tolist(), strict=True):
                out[at : end - 1] = self.level
                self.level, at = level, end - 1
            out[at:] = self.level
        else:
            levels = np.concatenate(([self.level], following))
            out[:] = np.repeat(levels, np.diff(ends - 1, prepend=0, append=out.size))
            self.level = float(following[-1])
        self._filled = out.size - int(ends[-1])

    def _means(self, sums: IntArray) -> FloatArray:
        """The mean of the last leaves after each of these leaves, or now.

        Leaves that are not there yet count as the middle between both ends. Sums of whole numbers,
        so that any split of the stream gives the same bits.
        """
        all_sums = np.concatenate((self._recent, sums))
        running = np.concatenate(([0], np.cumsum(all_sums)))
        ends = np.arange(self._recent.size + min(1, sums.size), running.size)
        starts = np.maximum(ends - self._window, 0)
        missing = self._window - (ends - starts)
        self._recent = all_sums[-self._window :]
        twice = 2 * (running[ends] - running[starts]) + missing * self._prior
        means: FloatArray = twice / (2 * self._window * self._block)
        return means


def window_of_levels(method: SegmentMethod, threshold: int) -> int:
    """How many of the last leaves a level averages; 0: it is the estimator's prediction."""
    wanted = method.estimator.level_leaves(method.perturber, threshold)
    kept = min(method.history, method.perturber.horizon) // method.perturber.block
    return min(wanted, max(1, kept))


def recent_sums_for_levels(method: SegmentMethod, segment: Segment) -> IntArray:
    """The last leaf sums of a segment, as many as its levels need."""
    count = window_of_levels(method, segment.threshold)
    return np.diff(segment.leaves.columns(count + 1)[0]) if count else NO_SUMS


_POINTS = 120  # of a small picture: each is one query
_SHARE = 50  # a window is this part of the stream


def window_of_rows(record: Record, block: int) -> int:
    """The number of rows to average: a fiftieth of all, but more than a block."""
    size = record.end - record.start
    return min(size, max(size // _SHARE, 4 * block, 1))


def moving_average_of_rows(
    record: Record, window: int, points: int = _POINTS, confidence: float = 0.95
) -> Answers:
    """Sums over moving windows that end at evenly spaced positions."""
    size = record.end - record.start
    ends = record.start + np.unique(np.linspace(window, size, points).astype(np.int64))
    return record.queries(ends - window, ends, confidence)


def _ends_of_levels(record: Record) -> tuple[str, str]:
    """The times of the first and the last row, or their positions."""
    if record.times is None or record.times.end <= record.start:
        return f"{record.start:,}", f"{record.end:,}"
    clock, times = record.times.clock, record.times.times(np.array([record.start, record.end - 1]))
    first, last = Clock(clock.zone).texts(times)
    return first, last


def small_picture_of_rows(record: Record, labels: tuple[str, str] | None = None) -> str:
    """The moving average as SVG, for a notebook; empty if nothing was released."""
    if not record.segments or record.end == record.start:
        return ""
    window = window_of_rows(record, record.segments[-1].method.perturber.block)
    sums = moving_average_of_rows(record, window)
    ends = labels or _ends_of_levels(record)
    return band(
        sums.estimate / window,
        sums.low / window,
        sums.high / window,
        ends,
        f"Moving average of {window:,} released values, with a 95% band",
    )
