"""`RangeTables`: `table` gives sums over parts of a range, `moving` sums over a sliding window."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np

from tidegate.errors import QueryError
from tidegate.exact_numbers import whole

if TYPE_CHECKING:
    from tidegate.record.moving_sums import MovingSums, MovingWindows
    from tidegate.record.range_queries_and_answers import Answers
    from tidegate.record.record import Record
    from tidegate.record.times.time_ranges_and_tables import Moment, TimeTable

_PIECES = 1_000_000  # rows that one table may have


class RangeTables(ABC):
    """Tables from a record, which `_answered` provides."""

    @abstractmethod
    def _answered(self, ask: Callable[[Record], Answers]) -> Answers:
        """Call `ask` with the record, under the lock that guards it."""

    @overload
    def table(self, every: int, confidence: float = 0.95) -> Answers: ...

    @overload
    def table(
        self,
        every: str | timedelta,
        confidence: float = 0.95,
        *,
        from_: Moment | None = None,
        to: Moment | None = None,
    ) -> TimeTable: ...

    def table(
        self,
        every: int | str | timedelta,
        confidence: float = 0.95,
        *,
        from_: Moment | None = None,
        to: Moment | None = None,
    ) -> Answers | TimeTable:
        """The sums over `every` values at a time, from the first that is known; the last over less.

        Where values have times, `every` may be 15min, 1h, 1d, 1w, 1mo or 1y, or a timedelta: sums,
        means and rates by time. Days and longer are those of the calendar, in the zone of the
        stream. No privacy is spent. `table(...).to_pandas()` has a row for each.
        """
        every = range_length_as_text(every)
        if isinstance(every, str):
            length = every
            found: list[TimeTable] = []

            def by_time(record: Record) -> Answers:
                found.append(record.table_of(length, from_, to, confidence))
                return found[0].answers

            self._answered(by_time)
            return found[0]
        if from_ is not None or to is not None:
            raise QueryError("from_ and to need a length of time, such as every='1d'")
        every = whole("every", every, minimum=1)

        def ask(record: Record) -> Answers:
            starts = np.arange(record.start, record.end, every)
            if starts.size > _PIECES:
                raise QueryError(
                    f"every={every} gives {starts.size:,} sums: use a larger one, of at least "
                    f"{-(-(record.end - record.start) // _PIECES):,}"
                )
            ends = np.minimum(starts + every, record.end)
            return record.answers(starts, ends, confidence, None)

        return self._answered(ask)

    def moving(
        self,
        over: int | str | timedelta,
        every: int | str | timedelta | None = None,
        confidence: float = 0.95,
        *,
        start: int | None = None,
        end: int | None = None,
        from_: Moment | None = None,
        to: Moment | None = None,
    ) -> MovingSums:
        """The sums over the last `over` values, or the last hour, day or week, at regular steps.

        Windows end at multiples of `every` (values, or a duration); the last one ends with the
        last value. By default `every` is a quarter of the window. `start` and `end` (positions) or
        `from_` and `to` (times) limit them. `moving("1d", "1h").to_pandas()` has a row for each.
        No privacy is spent.
        """
        from tidegate.record.moving_sums import MovingWindows  # on demand: it needs `Answers`

        ends: dict[str, Any] = {"start": start, "end": end, "from_": from_, "to": to}
        return self.moved_over(MovingWindows.named(over, every, **ends, confidence=confidence))

    def moved_over(self, windows: MovingWindows) -> MovingSums:
        """Moving sums over windows that `MovingWindows.named` made."""
        from tidegate.record.moving_sums import moving_sums  # as above

        found: list[MovingSums] = []

        def ask(record: Record) -> Answers:
            found.append(moving_sums(record, windows))
            return found[0].answers

        self._answered(ask)
        return found[0]


_LENGTHS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


def range_length_as_text(every: Any) -> int | str:
    """A duration as text, if it is one of Python, numpy or pandas.

    >>> range_length_as_text(timedelta(minutes=90)), range_length_as_text("1d")
    ('90min', '1d')
    """
    if isinstance(every, np.timedelta64):
        every = timedelta(seconds=float(every / np.timedelta64(1, "s")))
    if not isinstance(every, timedelta):
        return cast("int | str", every)
    seconds = every.total_seconds()
    if seconds < 1 or not seconds.is_integer():
        raise QueryError("a length of time must be whole seconds, and one at least")
    name, size = next(one for one in _LENGTHS if not seconds % one[1])
    return f"{int(seconds) // size}{name}"
