"""The record of a stream in a service, queried over HTTP by the code for local records.

`RangeQueries` and pictures need no more of a `Record` than this; so ranges, times, tables and means
are written, checked and refused in a client as they are in the library.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from tidegate.exact_numbers import LARGEST
from tidegate.record.answer import Answer
from tidegate.record.moving_sums import MovingSums, MovingWindows
from tidegate.record.range_queries_and_answers import Answers, paired
from tidegate.record.times.time_index import TimeIndex, TimeKnots
from tidegate.record.times.time_ranges_and_tables import Moment, TimeTable
from tidegate.service.answers_json import (
    decoded_answer,
    decoded_answers,
    decoded_moving_answers,
    decoded_table_answers,
)

if TYPE_CHECKING:
    from tidegate.service.client.remote_keyed import KeyedStream
    from tidegate.service.client.remote_stream_base import RemoteStreamBase


class RemoteRecord:
    """Answers of a service about a stream or one of its keys, as of each query."""

    def __init__(self, stream: RemoteStreamBase, key: str | None = None) -> None:
        self._stream, self._key = stream, key

    @cached_property
    def _ends(self) -> tuple[int, int]:
        whole = self.table(LARGEST, 0.95)
        return int(whole.start[0]), int(whole.end[-1])

    @cached_property
    def times(self) -> TimeIndex | None:
        """The time index of a key, for plots. None: its rows have no times."""
        if self._key is None:
            raise AssertionError("pictures of streams without keys know the times of the rows")
        rows = cast("KeyedStream", self._stream).rows(key=self._key)
        if rows.times is None or rows.clock is None:
            return None
        ticks = np.maximum.accumulate(rows.times)
        return TimeIndex(rows.clock, TimeKnots.through(ticks, int(rows.positions[0])))

    @property
    def start(self) -> int:
        """The first known position."""
        return self._ends[0]

    @property
    def end(self) -> int:
        """The position after the last known one."""
        return self._ends[1]

    def answers(
        self, starts: ArrayLike, ends: ArrayLike, confidence: float, as_of: int | None = None
    ) -> Answers:
        """The sums over many ranges."""
        begin, end = paired(starts, ends)
        asked = {"starts": begin.tolist(), "ends": end.tolist(), "confidence": confidence}
        named = None if self._key is None else [self._key]
        return decoded_answers(
            self._stream.asked({**asked, "as_of": as_of, "keys": named})["answers"]
        )

    queries = answers

    def answers_between(
        self, from_: Moment | None, to: Moment | None, confidence: float, as_of: int | None
    ) -> list[Answer]:
        """The sum over a range of time, as a list of one."""
        asked = {
            "from": remote_time_text(from_),
            "to": remote_time_text(to),
            "confidence": confidence,
            "as_of": as_of,
        }
        return [decoded_answer(self._stream.asked(asked)["answer"])]

    def answers_by_time(
        self, starts: Any, ends: Any, confidence: float, as_of: int | None
    ) -> Answers:
        """The sums over many ranges of time."""
        begin, end = ([str(when) for when in one] for one in (starts, ends))
        asked = {"starts": begin, "ends": end, "confidence": confidence, "as_of": as_of}
        return decoded_answers(self._stream.asked(asked)["answers"])

    def moved_over(self, windows: MovingWindows) -> MovingSums:
        """The sums over windows of one length."""
        asked = windows._asdict()
        del asked["most"]
        asked |= {"from": remote_time_text(asked.pop("from_")), "to": remote_time_text(asked["to"])}
        named = None if self._key is None else [self._key]
        return decoded_moving_answers(self._stream.asked({**asked, "keys": named}))

    def table(self, every: int, confidence: float) -> Answers:
        """The sums over `every` values at a time."""
        asked: dict[str, Any] = {"every": every, "confidence": confidence}
        if self._key is None:
            return decoded_answers(self._stream.asked(asked)["answers"])
        found = self._stream.asked({**asked, "keys": [self._key], "each": True})
        return decoded_answers(found["tables"][self._key]["answers"])

    def table_of(
        self, every: str, from_: Moment | None, to: Moment | None, confidence: float
    ) -> TimeTable:
        """The sums over the parts of a range of time."""
        asked = {
            "every": every,
            "from": remote_time_text(from_),
            "to": remote_time_text(to),
            "confidence": confidence,
        }
        return decoded_table_answers(self._stream.asked(asked))


def remote_time_text(when: Moment | None) -> Any:
    """A time in the form of a request."""
    return None if when is None else str(when)
