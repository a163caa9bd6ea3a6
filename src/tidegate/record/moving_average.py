"""The moving average of what was released, with its error band: what a picture shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidegate.clock import Clock
from tidegate.record.answers import Answers
from tidegate.tables.html import band

if TYPE_CHECKING:
    from tidegate.record.record import Record

_POINTS = 120  # of a small picture: each is one query
_SHARE = 50  # a window is this part of the stream


def window_of(record: Record, block: int) -> int:
    """How many values to average: a fiftieth of them, but more than a block has."""
    size = record.end - record.start
    return min(size, max(size // _SHARE, 4 * block, 1))


def moving_average(
    record: Record, window: int, points: int = _POINTS, confidence: float = 0.95
) -> Answers:
    """Sums over moving windows that end at evenly spaced positions."""
    size = record.end - record.start
    ends = record.start + np.unique(np.linspace(window, size, points).astype(np.int64))
    return record.queries(ends - window, ends, confidence)


def _ends(record: Record) -> tuple[str, str]:
    """The times of the first and the last row, or their positions."""
    if record.times is None or record.times.end <= record.start:
        return f"{record.start:,}", f"{record.end:,}"
    clock, times = record.times.clock, record.times.times(np.array([record.start, record.end - 1]))
    first, last = Clock(clock.zone).texts(times)
    return first, last


def small_picture(record: Record, labels: tuple[str, str] | None = None) -> str:
    """The moving average as SVG, for a notebook; empty if nothing was released."""
    if not record.segments or record.end == record.start:
        return ""
    window = window_of(record, record.segments[-1].method.perturber.block)
    sums = moving_average(record, window)
    ends = labels or _ends(record)
    return band(
        sums.estimate / window,
        sums.low / window,
        sums.high / window,
        ends,
        f"Moving average of {window:,} released values, with a 95% band",
    )
