"""`Timeline`: the times of a release: one clock, in order, kept for queries."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidegate.clock import Clock
from tidegate.errors import InputError, SettingError
from tidegate.record.times.time_index import TimeIndex, TimeKnots, check_time_order
from tidegate.timestamps import Times, read_times


class Timeline:
    """The times of the released values. They are public, and so are refusals because of them.

    Attributes:
        clock: that showed them.
        last: the newest so far, of values that were held out too.
        index: the times of released rows.
    """

    def __init__(
        self,
        clock: Clock,
        last: int | None = None,
        knots: TimeKnots | None = None,
        late: TimeKnots | None = None,
    ) -> None:
        self.clock = clock
        self.last = last
        self.index = TimeIndex(clock, knots, late)

    def take(self, times: Times, first: int, held: int) -> None:
        """Note checked times; the first `held` of them are of values that are not released."""
        if times.ticks.size:
            newest = int(times.ticks.max())
            self.last = newest if self.last is None else max(self.last, newest)
        self.index.push(first, times.ticks[held:])

    def branch(self) -> Timeline:
        """A timeline for a fork: the same clock, and nothing released yet."""
        return Timeline(self.clock, self.last)

    def state(self, brief: bool) -> dict[str, Any]:
        """The state to resume from; `brief` omits what only queries about the past need."""
        knots = self.index.brief() if brief else self.index.knots
        state = {**self.clock.plain(), "last": self.last, **knots._asdict()}
        late = self.index.late
        if late.places.size and not brief:
            state |= {"late places": late.places, "late ticks": late.ticks}
        return state

    @classmethod
    def restored(cls, state: dict[str, Any]) -> Timeline:
        """The timeline from what `state` returned."""
        knots = TimeKnots(state["places"], state["ticks"])
        late = (
            TimeKnots(state["late places"], state["late ticks"]) if "late places" in state else None
        )
        return cls(Clock.from_plain(state), state["last"], knots, late)


def checked_times(
    timeline: Timeline | None, times: Any, count: int, seen: int, late: str
) -> Times | None:
    """The times of the next `count` values, checked after `seen` others. None: there are none.

    Raises:
        InputError: one is missing, is none, or goes back in time. It names the position.
    """
    if times is None:
        if timeline is not None and count:
            raise SettingError("times", "must be given for every value: the values before had them")
        return None
    if timeline is None and seen:
        raise SettingError("times", "must be given from the first value on")
    clock, last = (None, None) if timeline is None else (timeline.clock, timeline.last)
    found = read_times(times, position=seen, clock=clock)
    if found.ticks.size != count:
        raise InputError(f"{count} values but {found.ticks.size} times")
    check_time_order(found.ticks, last, seen, late)
    return found if found.ticks.size else Times(np.zeros(0, dtype=np.int64), found.clock)
