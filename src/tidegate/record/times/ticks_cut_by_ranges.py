"""Ranges of time whose ends lie inside a tick of an event stream.

ticks   |-----|-----|-----|-----|     a row is the sum of all events of its tick
asked      |           |              no row tells which events came before or after an edge

A row of readings is a value at a time, so a part without a row has the sum 0. A row of an event
stream stands for its whole tick and counts where the tick begins. Parts shorter than a tick would
have the sum 0 with an interval of no width, and events in truth: they are refused. Where an edge
lies inside a tick, the answer says so. Days whose clocks change have 23 or 25 hours, and a tick of
1d has 24: after the change every day of the calendar begins inside a tick.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tidegate.clock import SECOND
from tidegate.errors import QueryError
from tidegate.lattice import IntArray

if TYPE_CHECKING:
    from tidegate.record.record import Record

_UNITS = (("d", 86_400 * SECOND), ("h", 3600 * SECOND), ("min", 60 * SECOND), ("s", SECOND))


def tick_of(record: Record) -> tuple[int, int] | None:
    """The beginning of an event stream's first tick, and the length of ticks, in nanoseconds.

    None: rows are readings, or there are fewer than two ticks.
    """
    index = record.time_index
    events = getattr(record.segments[-1].method.estimator, "of_ticks", False)
    if not events or index.end - index.start < 2:
        return None
    first, second = index.times(np.array([index.start, index.start + 1])).tolist()
    return first, second - first


def check_part_length(records: Sequence[Record], shortest: int) -> None:
    """Refuse parts shorter than a tick: most would have no row, and a sum of 0.

    Args:
        records: of one pipeline, so that their ticks have one length.
        shortest: nanoseconds that every part has, at least.
    """
    _, length = next(filter(None, map(tick_of, records)), (0, 0))
    if shortest < length:
        raise QueryError(
            f"every is shorter than the ticks of this release, which are {_in_words(length)} long: "
            "sums are known for whole ticks only"
        )


def cut_ticks(records: Sequence[Record], cuts: IntArray) -> str:
    """A note if an edge lies inside a tick; else empty.

    The time after the last row, where an open end lies (`asked`), cuts nothing.
    """
    for record in records:
        found = tick_of(record)
        if found is None:
            continue
        (first, length), last = found, record.time_index.last_time
        inside = (cuts > first) & (cuts < last + length) & (cuts != last + 1)
        number = int(((cuts - first) % length != 0)[inside].sum())
        if not number:
            return ""
        edges = "An edge lies" if number == 1 else f"{number:,} edges lie"
        return f"{edges} inside a tick of {_in_words(length)}: it counts whole, where it begins."
    return ""


def _in_words(length: int) -> str:
    """A duration in the form of `every`: 15min."""
    for name, unit in _UNITS:
        if not length % unit:
            return f"{length // unit}{name}"
    return f"{length / SECOND:g}s"
