"""Means of events by key from Python: `tidegate.keyed(tidegate.event_means(…), keys=…)`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from tidegate.guarantee import Guarantee, sequential
from tidegate.keyed.answers_from_key_records import KeyedQueries
from tidegate.keyed.keyed_event_release import KeyedEventRelease
from tidegate.keyed.keyed_rows import KeyedRows
from tidegate.keyed.keyed_specification import Keyed
from tidegate.keyed.means_by_key import KeyedMeanQueries
from tidegate.ownership import handing_over
from tidegate.randomness import Randomness
from tidegate.record.times.time_ranges_and_tables import Moment
from tidegate.run.event_means import PairOfReleases

T = TypeVar("T")


@dataclass(frozen=True)
class KeyedMeans:
    """Sums and counts of one log's events, by key. Made by `keyed`; `start` it to release them.

    **Privacy**: an event has one key, and only the two streams of that key read it. Their budgets
    add up (sequential composition), keys are parallel, and every declared key has a row for every
    tick in both: so ε is that of `event_means`, whichever key has an event, and however many there
    are.

    Attributes:
        sums, counts: the two keyed streams; the first spends most of ε.
    """

    sums: Keyed
    counts: Keyed

    @property
    def guarantee(self) -> Guarantee:
        """The derived guarantee of both together."""
        return sequential(self.sums.guarantee, self.counts.guarantee)

    def start(self, randomness: Randomness | None = None) -> KeyedMeansRelease:
        """Begin both releases, each with noise of its own."""
        return KeyedMeansRelease(self.sums.start(randomness), self.counts.start(randomness))


class KeyedMeansRelease(PairOfReleases, KeyedMeanQueries):
    """Running release of sums and counts of one log by key. Made by `KeyedMeans.start`."""

    def __init__(self, sums: Any, counts: Any) -> None:
        if not isinstance(sums, KeyedEventRelease) or not isinstance(counts, KeyedEventRelease):
            raise AssertionError("both are event streams")
        super().__init__(sums, counts)

    @property
    def keys(self) -> list[str]:
        """The declared keys."""
        return list(self.counts.keys)

    @property
    def dropped(self) -> int:
        """How many events had an undeclared key. For the operator: not private."""
        return int(self.counts.dropped)

    @handing_over
    def push(self, keys: Any, times: Any, values: Any) -> None:
        """Take events of any keys. An event without a value counts as an event of value 0."""
        keys, times = (list(one) if isinstance(one, Iterator) else one for one in (keys, times))
        self._change(
            lambda: self.sums.push(keys, times, values), lambda: self.counts.push(keys, times)
        )

    @handing_over
    def advance(self, until: Moment) -> tuple[KeyedRows, KeyedRows]:
        """Release every tick that is over, for all keys: sums and counts."""
        return self._change(lambda: self.sums.advance(until), lambda: self.counts.advance(until))

    def _both(self, ask: Callable[[KeyedQueries, KeyedQueries], T]) -> T:
        with self._ownership.lock:
            self._ownership.check()  # what a cut-short change released was never handed out
            return ask(self.sums, self.counts)
