"""Methods that query many keys, here or through a service: `query`, `table`, `moving`, `plot`.

Arguments are read and checked once; who has the keys answers (`_queried`, `_tables`, `_plotted`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Generic, Literal, NamedTuple, TypeVar, overload

from tidegate.errors import QueryError
from tidegate.keyed.keyed_table import KeyedTable, TableByKey
from tidegate.record.answer import Answer
from tidegate.record.moving_sums import MovingSums, MovingWindows
from tidegate.record.range_queries_and_answers import Answers, query_places_or_times
from tidegate.record.range_tables import range_length_as_text
from tidegate.record.times.time_ranges_and_tables import Moment, TimeTable


class AskedOfKeys(NamedTuple):
    """A question: `keys` (None: all), a range of time, the confidence."""

    keys: Iterable[Any] | None
    from_: Moment | None
    to: Moment | None
    confidence: float


Each = TypeVar("Each", bound=TableByKey[Any], covariant=True)
Total = TypeVar("Total", covariant=True)
One = TypeVar("One", covariant=True)


class TablesByKey(ABC, Generic[Each, Total, One]):
    """Tables of each of many keys, of their total, or of one key."""

    @overload
    def table(
        self,
        every: int | str | timedelta,
        *,
        key: None = None,
        keys: Iterable[Any] | None = None,
        total: Literal[False] = False,
        from_: Moment | None = None,
        to: Moment | None = None,
        confidence: float = 0.95,
    ) -> Each: ...

    @overload
    def table(
        self,
        every: str | timedelta,
        *,
        keys: Iterable[Any] | None = None,
        total: Literal[True],
        from_: Moment | None = None,
        to: Moment | None = None,
        confidence: float = 0.95,
    ) -> Total: ...

    @overload
    def table(
        self,
        every: int | str | timedelta,
        *,
        key: str | int,
        from_: Moment | None = None,
        to: Moment | None = None,
        confidence: float = 0.95,
    ) -> One: ...

    def table(
        self,
        every: int | str | timedelta,
        *,
        key: Any = None,
        keys: Iterable[Any] | None = None,
        total: bool = False,
        from_: Moment | None = None,
        to: Moment | None = None,
        confidence: float = 0.95,
    ) -> Each | Total | One:
        """A table for each key: the sums over `every` rows, or, by time, over 15min, 1h, 1d, 1w.

        With `key`, the table of that key; with `total`, by time, the table of the total over `keys`
        or over all, as `totals`. By time, all keys have the same rows: from the first time of any
        of them to the last, or, if a record has forgotten its first values, from the first part
        that all know completely.
        """
        if key is not None and (keys is not None or total):
            raise QueryError(
                "give key= for one key, or keys= and total=True for the total of a group"
            )
        asked = AskedOfKeys(keys if key is None else [key], from_, to, confidence)
        length = range_length_as_text(every)
        if total:
            if not isinstance(length, str):
                raise QueryError("total needs a length of time, such as every='1d'")
            return self._totals(length, asked)
        found = self._tables(length, asked)
        return found if key is None else found[key]

    def totals(
        self,
        every: str | timedelta,
        *,
        keys: Iterable[Any] | None = None,
        from_: Moment | None = None,
        to: Moment | None = None,
        confidence: float = 0.95,
    ) -> Total:
        """A table by time of the total over a group of keys, or over all keys."""
        return self._totals(
            str(range_length_as_text(every)), AskedOfKeys(keys, from_, to, confidence)
        )

    @abstractmethod
    def _tables(self, every: int | str, asked: AskedOfKeys) -> Each:
        """A table for each key."""

    @abstractmethod
    def _totals(self, every: str, asked: AskedOfKeys) -> Total:
        """The table of the total."""


class KeyedVerbs(TablesByKey[KeyedTable, TimeTable, TimeTable | Answers]):
    """Queries about one key, about each of many, or about their total."""

    def query(
        self,
        start: Moment | None = None,
        end: Moment | None = None,
        *,
        key: Any = None,
        keys: Iterable[Any] | None = None,
        from_: Moment | None = None,
        to: Moment | None = None,
        confidence: float = 0.95,
    ) -> Answer:
        """The sum over a range of one key, or the total over a group of keys, with its interval.

        A range is `start` and `end`, positions of every key; or times, as `start` and `end` or as
        `from_` and `to`; or all rows, if neither is given. Without `key`, the total over `keys`,
        or over all: noise of different keys is independent, and what truncation took away is
        doubted for all alike. The range of a total counts its rows: `answer.end` is how many.
        """
        if key is not None and keys is not None:
            raise QueryError("give key= for one key, or keys= for the total over a group")
        start, end, from_, to = query_places_or_times(start, end, from_, to)
        return self._queried(key, start, end, AskedOfKeys(keys, from_, to, confidence))

    def moving(
        self,
        over: int | str | timedelta,
        every: int | str | timedelta | None = None,
        confidence: float = 0.95,
        *,
        key: Any,
        start: int | None = None,
        end: int | None = None,
        from_: Moment | None = None,
        to: Moment | None = None,
    ) -> MovingSums:
        """The sums of one key over a sliding window: see `Release.moving`."""
        ends: dict[str, Any] = {"start": start, "end": end, "from_": from_, "to": to}
        windows = MovingWindows.named(over, every, **ends, confidence=confidence)
        return self.moved_over(windows, key)

    @abstractmethod
    def moved_over(self, windows: MovingWindows, key: Any) -> MovingSums:
        """Moving sums over windows that `MovingWindows.named` made."""

    @abstractmethod
    def _queried(self, key: Any, start: Any, end: Any, asked: AskedOfKeys) -> Answer:
        """The answer about one range of a key, or of a group."""


class PlottedKeys(ABC):
    """Plots of one key or of several."""

    def plot(
        self,
        key: Any = None,
        *,
        keys: Iterable[Any] | None = None,
        window: int | None = None,
        confidence: float = 0.95,
        ax: Any = None,
    ) -> Any:
        """Plot the moving average of one key, of `keys`, or of all if they are few.

        A file draws one key with its level. Needs matplotlib. Draws on `ax`, or on new axes;
        returns the axes.
        """
        if key is not None and keys is not None:
            raise QueryError("give key= for one key, or keys= for several")
        return self._plotted(key, keys, window, confidence, ax)

    @abstractmethod
    def _plotted(
        self, key: Any, keys: Iterable[Any] | None, window: int | None, confidence: float, ax: Any
    ) -> Any:
        """The axes of a plot."""
