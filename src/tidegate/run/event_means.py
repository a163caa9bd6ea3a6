"""Means of events over ranges of time: a sum over a number, both private, with an interval."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from tidegate.errors import TidegateError
from tidegate.guarantee import Guarantee, sequential
from tidegate.ownership import NotCopied, Ownership, handing_over
from tidegate.randomness import Randomness
from tidegate.record.means_of_events import Ends, MeanQueries
from tidegate.record.record import Record
from tidegate.record.rows_and_levels import Rows
from tidegate.record.times.time_ranges_and_tables import Moment
from tidegate.run.event_release import EventRelease
from tidegate.run.pipeline import Pipeline

First = TypeVar("First")
Second = TypeVar("Second")


@dataclass(frozen=True)
class EventMeans:
    """Two event streams of one log: sums and counts. `start` it to release them.

    Privacy: both read the same events, so their budgets add up (sequential composition).
    """

    sums: Pipeline
    counts: Pipeline

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of both streams together, derived from theirs."""
        return sequential(self.sums.guarantee, self.counts.guarantee)

    def start(self, randomness: Randomness | None = None) -> EventMeansRelease:
        """Begin both releases, each with noise of its own."""
        return EventMeansRelease(self.sums.start(randomness), self.counts.start(randomness))


class PairOfReleases(NotCopied):
    """The releases of sum and count of one log: both change, or neither may continue.

    Attributes:
        sums: of the values per tick. It has rows, a record and snapshots of its own.
        counts: the numbers of events per tick; the same.
    """

    sums: Any
    counts: Any

    def __init__(self, sums: Any, counts: Any) -> None:
        self._ownership = Ownership("release of means")
        self.sums, self.counts = sums, counts

    def __repr__(self) -> str:
        return f"<{type(self).__name__} position={self.sums.position}; {self.guarantee}>"

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for every event of the log."""
        return sequential(self.sums.guarantee, self.counts.guarantee)

    @property
    def ends(self) -> Ends:
        """The public bounds of an event's value, which also bound every mean."""
        lattice = self.sums.pipeline.lattice
        return float(lattice.lower), float(lattice.bound)

    def _change(
        self, sums: Callable[[], First], counts: Callable[[], Second]
    ) -> tuple[First, Second]:
        """Change both, or refuse from now on: after a retry one would count events twice."""
        began = False
        try:
            with self._ownership.lock:
                self._ownership.begin()
                began = True
                try:
                    first = sums()
                except TidegateError:  # refused, and nothing has changed; or `sums` itself refuses
                    self._ownership.unchanged()
                    began = False
                    raise
                result = first, counts()
                self._ownership.done()
                return result
        except BaseException:
            if began:
                self._ownership.refuse()
            raise


class EventMeansRelease(PairOfReleases, MeanQueries):
    """Sums and counts of one log without keys. Made by `EventMeans.start`."""

    def __init__(self, sums: Any, counts: Any) -> None:
        if not isinstance(sums, EventRelease) or not isinstance(counts, EventRelease):
            raise AssertionError("both are event streams")
        super().__init__(sums, counts)

    @handing_over
    def push(self, times: Any, values: Any) -> None:
        """Take events. An event without a value counts as an event of value 0."""
        if isinstance(times, Iterator):  # both read them
            times = list(times)
        self._change(lambda: self.sums.push(times, values), lambda: self.counts.push(times))

    @handing_over
    def advance(self, until: Moment) -> tuple[Rows, Rows]:
        """Release every tick that is over: sums and counts."""
        return self._change(lambda: self.sums.advance(until), lambda: self.counts.advance(until))

    def _both(self, ask: Callable[[Record, Record], First]) -> First:
        with self._ownership.lock:
            self._ownership.check()  # what an interrupted change released was never returned
            return ask(self.sums._growing_record(), self.counts._growing_record())
