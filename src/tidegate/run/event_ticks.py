"""`Ticks`: the clock of an event stream, and what the stages of one promise together.

events   ·  ··    ·         ····  ·            rows of a log: each has a time and a value
ticks  |-----|-----|-----|-----|-----|-----|   from the clock: public, empty ones too
released   Σ     Σ     Σ     Σ     Σ           one row a tick

          |------ warm-up ------|- block -|--- block ---| …     ε of an event goes to
fixed θ     their sum              sums                           one noisy sum per level
private θ   1/8 their number       1/2 or 1/4 the next θ (windows), then none
            5/8 θ, 1/4 their sum   1/2 or 3/4 sums, then all
                                   numbers by size: what an event leaves of that (`EventSizes`)
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tidegate.clock import SECOND, Clock
from tidegate.errors import InputError, QueryError, SettingError
from tidegate.estimate.mixture.event_mixture import EventMixture
from tidegate.guarantee import Guarantee, parallel, sequential
from tidegate.lattice import FloatArray, IntArray, Lattice
from tidegate.perturb.adaptive.event_trees import EventTrees
from tidegate.record.times.time_ranges_and_tables import Moment, end_of_time_range, length_of_time
from tidegate.run.threshold_schedule_and_reselection import ThresholdSchedule
from tidegate.settings import Setting, Spec
from tidegate.stages import Perturber, Threshold
from tidegate.stages.size_bands import QUARTERS
from tidegate.threshold import Fixed, TailQuantile
from tidegate.timestamps import Times, read_times
from tidegate.units import AddedEvent

if TYPE_CHECKING:
    from tidegate.run.event_release import EventRelease
    from tidegate.run.event_run import EventRun
    from tidegate.run.phased_run import PhaseKeys
    from tidegate.run.pipeline import Pipeline

__all__ = ["EventMixture", "EventTrees", "Ticks"]  # what settings can name

# Parts of ε of an event of the warm-up, where θ is chosen privately; the sum gets the rest.
COUNT_SHARE, CHOICE_SHARE = Fraction(1, 8), Fraction(5, 8)
SUM_SHARE = 1 - COUNT_SHARE - CHOICE_SHARE
# With fewer events than this, in 1/ε, a warm-up is made twice as long before θ is chosen; up to
# this part of a horizon.
EVIDENCE, LONGEST = 48, Fraction(1, 4)
_SHORTEST = 16  # ticks of a warm-up
DAY = 86_400 * SECOND


class _TickText(Setting[str, Any]):
    """Text that `Ticks` parses."""

    def check(self, value: Any) -> str:
        """The text; a time of Python or numpy is converted to text."""
        if isinstance(value, str | date | datetime | np.datetime64):
            return str(value)
        raise SettingError(self.name, "must be text, such as 15min or 2024-01-01T00:00")


class _TickZone(Setting[str | None, str | None]):
    """A time zone, or None: that of `start`."""

    def check(self, value: str | None) -> str | None:
        """A time zone that exists, or None."""
        return None if value is None else str(Clock(value).zone)


@dataclass(frozen=True, kw_only=True, repr=False)
class Ticks(ThresholdSchedule, Spec):
    """Intervals of equal length, one after the other from a public start, without end.

    Tick i is [start + i·every, start + (i + 1)·every). They are equal in universal time if there is
    a zone, on the wall clock if not.

    Args:
        every: how long a tick is: `1s`, `15min`, `1h`, `1d`, up to weeks.
        start: where the first one begins. Never read off the events: the time of the first event
            tells that it happened.
        zone: where times without a zone were written, as for `tidegate.read_times`.

    >>> ticks = Ticks(every="15min", start="2024-02-01")
    >>> ticks.places(read_times(["2024-02-01T00:14:59", "2024-02-01T00:15"]).ticks)
    array([0, 1])
    """

    KIND: ClassVar[str] = "events.Ticks"

    every: _TickText = _TickText()
    start: _TickText = _TickText()
    zone: _TickZone = _TickZone(default=None)

    def __post_init__(self) -> None:
        try:
            _ = self.length
        except QueryError as problem:
            raise SettingError("every", str(problem).removeprefix("every ")) from None
        try:
            _ = self.origin
        except InputError:
            raise SettingError("start", "must be a time, such as 2024-02-01T00:00") from None

    @cached_property
    def length(self) -> int:
        """Length of a tick, in nanoseconds."""
        return length_of_time(self.every)

    @cached_property
    def _first(self) -> Times:
        return read_times([self.start], zone=self.zone)

    @property
    def origin(self) -> int:
        """The beginning of the first tick, in nanoseconds since 1970."""
        return int(self._first.ticks[0])

    @property
    def clock(self) -> Clock:
        """The zone of the ticks. None: local wall-clock times."""
        return self._first.clock

    def places(self, times: IntArray) -> IntArray:
        """The tick of each time; −1 for every time before the start."""
        return (np.maximum(times, self.origin - 1) - self.origin) // self.length

    def times(self, start: int, end: int) -> IntArray:
        """The beginnings of the ticks [start, end)."""
        return self.origin + np.arange(start, end, dtype=np.int64) * self.length

    def clock_change(self, count: int) -> str:
        """The first of `count` ticks that a change of the clock moves off day or week; empty: none.

        Ticks keep their length when clocks change, so all later ones begin an hour off. Looks at
        one year at most.
        """
        if self.length % DAY or self.clock.zone is None:
            return ""
        begun = self.times(0, min(count, 366 * DAY // self.length + 2))
        changed = np.flatnonzero(np.diff(self.clock.local(begun)) != self.length)
        return self.clock.texts(begun[changed[:1] + 1])[0] if changed.size else ""

    def complete(self, until: Moment) -> int:
        """How many ticks are over at this time."""
        try:
            at = end_of_time_range(self.clock, until, "until")
        except QueryError as problem:
            raise SettingError("until", str(problem).removeprefix("until ")) from None
        return max(0, (at - self.origin) // self.length)

    def read(self, times: Any) -> Times:
        """Read the times of events, in any supported form.

        Privacy: nothing here depends on events before these. What is refused, how times are written
        out (`clock`) and the position in a message, which counts from the first of these times,
        would all tell that there were some, or how many.

        Raises:
            InputError: one is missing, or is none. It names the position, and no time.
        """
        found = read_times(times, zone=self.zone, by_order=False)
        if found.ticks.size and (found.clock.zone is None) != (self.clock.zone is None):
            named = ("have no zone", "has one")
            if found.clock.zone is not None:
                named = ("have a zone (numbers since 1970 do, too)", "has none")
            raise InputError(
                f"times of events: they {named[0]}, and the start of the ticks {named[1]}. Write "
                "the start as the times are, or give the zone"
            )
        return Times(found.ticks, self.clock)

    # -- the stages ------------------------------------------------------------------------------

    @property
    def lattice_kind(self) -> type[Lattice]:
        """The lattice class for events."""
        return EventLattice

    @property
    def release_kind(self) -> type[EventRelease]:
        """The class of release that a pipeline with ticks starts."""
        from tidegate.run.event_release import EventRelease  # it imports this module

        return EventRelease

    def event_run(self, keys: PhaseKeys, state: dict[str, Any] | None) -> EventRun:
        """The run behind the release."""
        from tidegate.run.event_run import EventRun  # it imports this module

        return EventRun(keys, state=state)

    @property
    def releases_warm_up(self) -> bool:
        """True: every tick has a row."""
        return True

    def check(self, pipeline: Pipeline) -> None:
        """Refuse stages whose privacy argument does not cover events that are added or removed."""
        if not isinstance(pipeline.threshold, Fixed | TailQuantile):
            raise SettingError("threshold", "must be Fixed or TailQuantile for events")
        trees, estimator = pipeline.perturber, pipeline.estimator
        if not isinstance(trees, EventTrees) or not isinstance(estimator, EventMixture):
            raise SettingError("ticks", "need EventTrees and EventMixture")
        if not isinstance(pipeline.unit, AddedEvent):
            raise SettingError("unit", "must be units.AddedEvent() for events")
        if pipeline.reselect is not None:
            raise SettingError("reselect", "must be None for events")
        private = pipeline.threshold.guarantee.epsilon > 0  # Fixed costs nothing
        if private != trees.windows:
            raise SettingError("windows", "must be on exactly if the threshold is private")
        if trees.sizes and not private:
            raise SettingError("sizes", "must be off if the threshold is fixed: nothing is cut")
        if trees.sizes and (trees.warm_up * QUARTERS).denominator > 1:
            raise SettingError("warm_up", "must be in quarters where events are counted by size")

    def warm_up(self, pipeline: Pipeline) -> int:
        """How many ticks the first part of the warm-up has, computed from public settings."""
        return max(1, min(_SHORTEST, pipeline.perturber.horizon))

    def longest_warm_up(self, pipeline: Pipeline) -> int:
        """The largest number of ticks in a warm-up."""
        quarter = int(pipeline.perturber.horizon * LONGEST)
        return max(self.warm_up(pipeline), quarter)

    def stream_guarantee(self, pipeline: Pipeline) -> Guarantee:
        """The guarantee for one added or removed event."""
        return self.guarantee(pipeline.threshold, pipeline.perturber)

    def guarantee(self, threshold: Threshold, perturber: Perturber) -> Guarantee:
        """Derived: count, θ and sum of the warm-up in sequence, parallel to windows and blocks."""
        if not isinstance(perturber, EventTrees):
            raise AssertionError("the stages were checked")
        parts = [Guarantee(epsilon=perturber.warm_up * perturber.epsilon)]
        if threshold.guarantee.epsilon:  # else it is known beforehand
            count = Guarantee(epsilon=COUNT_SHARE * perturber.epsilon)
            parts = [count, threshold.guarantee, *parts]
        pieces = [sequential(*parts), perturber.guarantee]
        for share in perturber.shares:  # an event of a window: a choice of θ, then sums
            choice, sums = (
                Guarantee(epsilon=part * perturber.epsilon) for part in (share, 1 - share)
            )
            pieces.append(sequential(choice, sums))
        return AddedEvent().widen(parallel(*pieces))


def check_event_values(pipeline: Pipeline, values: Any) -> None:
    """Refuse missing values where values are summed, and values where events are counted.

    Either would be taken for a sum that it is not: each event as 1, or each value cut at 1. A
    decision about public settings and about what was called, never about a value.
    """
    counting = pipeline.threshold == Fixed(1) and pipeline.resolution == 1 and not pipeline.lower
    if values is None and not counting:
        raise InputError("this stream sums the values of events: push(times, values)")
    if values is not None and counting:
        raise InputError(
            "this stream counts events: push times without values. To sum values, give "
            "tidegate.events a bound"
        )


class EventLattice(Lattice):
    """The lattice of single events; a level is that of a tick, which may hold many events."""

    def bounded(self, levels: FloatArray) -> None:
        """Convert levels from units to the unit of the data, in place; at least 0 if events are."""
        levels *= self.step
        if not self.bottom:
            np.maximum(levels, 0.0, out=levels)
