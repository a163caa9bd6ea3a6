"""`EventRelease`: events in, private sums per tick out, when the clock says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tidegate.clock import Clock
from tidegate.errors import SettingError, TidegateError
from tidegate.ownership import handing_over
from tidegate.randomness import Randomness
from tidegate.record.rows_and_levels import Rows
from tidegate.record.times.time_ranges_and_tables import Moment
from tidegate.run.event_run import EventRun
from tidegate.run.event_ticks import Ticks, check_event_values
from tidegate.run.release import Release
from tidegate.run.timeline import Timeline
from tidegate.run.user_cap import checked_users
from tidegate.tables.table_input import refuse_numbers_in_table, refuse_times_in_table
from tidegate.timestamps import Times

# Ticks that are released at once: an array for all of them, however long the clock stood still.
_PIECE = 1 << 16
_FORM = "push(times, values)"


class EventRelease(Release):
    """A log of events at work: `push` takes events, `advance` releases the ticks that are over.

    What an event may change. Rows come out when `advance` is called, and as many as its argument
    says: the clock decides, never an event. The tick of an event follows from its own time alone.
    Events in any order are welcome until their tick is released; one that comes later, or lies
    before the start, is dropped. Which ticks are released is public, so whether an event is dropped
    depends on that event only: an event more or less changes one tick, or nothing. It is never
    refused for its time: a refusal would be seen.

    Raw data: the events of all ticks that are not released yet are held; as sums if θ is fixed.

    Attributes:
        dropped: how many events came too late. For the operator alone: it must not be published.
    """

    dropped: int = 0

    @property
    def ticks(self) -> Ticks:
        """The clock of the stream."""
        if self.pipeline.ticks is None:
            raise AssertionError("the pipeline was checked")
        return self.pipeline.ticks

    @property
    def clock(self) -> Clock:
        """The clock that writes times: that of `start`, in whatever form events arrive."""
        return self.ticks.clock if self._timeline is None else self._timeline.clock

    @property
    def waiting(self) -> bool:
        """Whether ticks that are not released yet have events. For the operator only."""
        with self._ownership.lock:
            return self._events.events.waiting

    @handing_over
    def push(  # type: ignore[override]  # nothing comes out of it
        self, times: Any, values: Any = None, users: Any = None
    ) -> None:
        """Take events: a time for each, and a value unless events are counted.

        A missing value counts as 0. Nothing comes out: `advance` does that. Times as numbers since
        1970 are given as `tidegate.read_times(numbers, by_order=False)`: plain numbers are taken
        for values, and without `by_order=False` the first event decides the unit of all.
        """
        refuse_numbers_in_table(times, _FORM, 0)  # positions count within a push: see `Ticks.read`
        refuse_times_in_table(values, _FORM, 0)
        check_event_values(self.pipeline, values)
        self._pushed(times, values, users)

    @handing_over
    def push_rows(
        self, values: Any, users: Any = None, times: Any = None, late: str = "keep"
    ) -> Rows:
        """Take events, for `tidegate.durable.transfer`; return no rows."""
        if times is None:
            raise SettingError("times", "must be given: an event has a time")
        self._pushed(times, values, users)
        return Rows(self.position, np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int64))

    @handing_over
    def advance(self, until: Moment) -> Rows:
        """Release every tick that is over at `until`: one row each, also for empty ticks.

        Call it when the clock says so, with the time that it shows, or with the end of a log that
        is known beforehand. Never with a time that was read off the events.
        """
        return self._released(self.ticks.complete(until))

    @handing_over
    def close_ticks(self, count: int) -> Rows:
        """Release the next `count` ticks."""
        return self._released(self.position + count)

    @handing_over
    def finish(self, until: Moment | None = None) -> Rows:  # type: ignore[override]  # gives rows
        """`advance`, then end an open warm-up: for a log that is over.

        Events after `until` are not part of it, and stay unreleased; more may be pushed, and later
        ticks released. Those of a tick that is over are late, and dropped.
        """
        end = self.position if until is None else self.ticks.complete(until)
        rows = self._released(end)
        super().finish()
        return rows

    def fork(self, randomness: Randomness | None = None) -> NoReturn:
        """Refuse: the log holds sums that were truncated for this release."""
        raise TidegateError(
            "an event release has no forks: start another one, push the events to both, and add up "
            "their epsilons"
        )

    # -- inside ----------------------------------------------------------------------------------

    @property
    def _events(self) -> EventRun:
        if not isinstance(self._run, EventRun):
            raise AssertionError("events have a run of their own")
        return self._run

    def _checked(
        self, values: Any, users: Any, times: Any, late: str
    ) -> tuple[NDArray[Any], Sequence[str | None] | None, Times | None]:
        when = self.checked_times(times, -1)
        if values is None:
            values = np.ones(when.ticks.size, dtype=np.int64)
        numbers = self._lattice.numbers(values, 0)
        names = checked_users(users, numbers.size, needed=False)
        if numbers.size != when.ticks.size:
            raise SettingError("times", f"must be the same number as the values: {numbers.size}")
        return numbers, names, when

    def checked_times(self, times: Any, count: int, late: str = "keep") -> Times:
        """The times of the next events, in any order."""
        return self.ticks.read(times)

    def _pushed(self, times: Any, values: Any, users: Any) -> None:
        ownership, began = self._ownership, False
        try:
            with ownership.lock:
                numbers, _, when = self._checked(values, users, times, "keep")
                ownership.begin()
                began = True
                if when is not None:
                    self._add(numbers, when)
                ownership.done()
        except BaseException:
            if began:
                ownership.refuse()
            raise

    def _add(self, numbers: NDArray[Any], when: Times) -> None:
        self._seen += numbers.size
        places = self.ticks.places(when.ticks)
        open_still = places >= self.position
        self.dropped += int(places.size - open_still.sum())
        units = self._lattice.units(numbers)
        self._events.events.add(places[open_still], units[open_still])

    def _released(self, end: int) -> Rows:
        ownership, began = self._ownership, False
        try:
            with ownership.lock:
                ownership.begin()
                began = True
                first = self.position
                values = np.zeros(max(0, end - first))
                levels = np.zeros(values.size)
                for start in range(0, values.size, _PIECE):
                    part = slice(start, start + _PIECE)
                    self._events.advance(values[part], levels[part])
                self._lattice.bounded(levels)
                times = self.ticks.times(first, first + values.size)
                if self._timeline is None:
                    self._timeline = Timeline(self.ticks.clock)
                self._timeline.take(Times(times, self._timeline.clock), first, 0)
                ownership.done()
                return Rows(first, values, levels, times)
        except BaseException:
            if began:
                ownership.refuse()
            raise
