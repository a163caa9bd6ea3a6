"""Counts, sums and means of events over ranges, from two released streams of one log.

The mean of a range is its sum over its number, and both have noise of their own: Fieller's interval
(`mean_and_ratio`), cut to the public bounds of a value. Where the number may be 0, the mean is not
known.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import QueryError
from tidegate.record.answer import Answer
from tidegate.record.answer_text import SHOWN, six_digit_text, text_of_cautions
from tidegate.record.mean_and_ratio import Ratio, ratio
from tidegate.record.range_queries_and_answers import Answers
from tidegate.record.record import Record
from tidegate.record.record_given_counts import RecordGivenCounts, given_counts_tell
from tidegate.record.times.time_ranges_and_tables import Moment, TimeTable
from tidegate.tables import html, plain_text
from tidegate.tables.tables_from_numpy import Tabular

T = TypeVar("T")
Ends = tuple[float, float]
_APART = (
    "sums and numbers do not cover the same ticks: the run that released them was cut short. Run "
    "the same command again, or ask for a range that both have"
)
_ENDS = ("estimate", "low", "high")


def mean_of(total: Answer, count: Answer, ends: Ends) -> Ratio:
    """The mean of the events of a range, limited to the public bounds of a value.

    Raises:
        QueryError: the number of events may be 0, or the answers speak of different ticks.
    """
    if (total.start, total.end) != (count.start, count.end):
        raise QueryError(_APART)
    if not count.low > 0:
        raise QueryError(
            "there may be no event in this range, and so no mean: ask for a longer one, or give "
            "the count more of epsilon"
        )
    found = ratio(total, count)
    inside = {name: min(max(getattr(found, name), ends[0]), ends[1]) for name in _ENDS}
    return replace(found, **inside)


def means_of(totals: Answers, counts: Answers, ends: Ends) -> dict[str, NDArray[np.float64]]:
    """The means of many ranges: estimate, low and high; NaN where there may be no events."""
    if not np.array_equal(totals.start, counts.start) or not np.array_equal(totals.end, counts.end):
        raise QueryError(_APART)
    found = {name: np.full(len(totals), math.nan) for name in _ENDS}
    for at in np.flatnonzero(counts.low > 0).tolist():
        mean = mean_of(totals[at], counts[at], ends)
        for name, column in found.items():
            column[at] = getattr(mean, name)
    return found


@dataclass(frozen=True)
class CountSumMean:
    """The number, the sum and the mean of the events of a range.

    Attributes:
        count, sum: the answers of the two streams.
        mean: one over the other, with Fieller's interval. None: there may be no event.
    """

    count: Answer
    sum: Answer
    mean: Ratio | None

    def __str__(self) -> str:
        mean = "mean: not known, as there may be no event"
        if self.mean is not None:
            sure = f"{self.mean.confidence:.0%}"
            mean = f"mean: {self.mean.estimate:.5g} ({sure}: {_interval_of_events(self.mean)})"
        count = f"count: {six_digit_text(self.count.estimate)} ({_interval_of_events(self.count)})"
        return f"{count}; {self.sum}; {mean}"


def _interval_of_events(one: Answer | Ratio) -> str:
    return f"{six_digit_text(one.low)} to {six_digit_text(one.high)}"


@dataclass(frozen=True)
class MeansTable(Tabular):
    """A row for each part of a range of time: number, sum and mean of its events.

    Attributes:
        sums, counts: the tables of the two streams; `rows` of both are ticks.
        ends: the public bounds of a value.
    """

    sums: TimeTable
    counts: TimeTable
    ends: Ends

    def __len__(self) -> int:
        return len(self.sums)

    @property
    def times(self) -> list[str]:
        """The beginning of each row."""
        return self.sums.times

    @property
    def zone(self) -> str | None:
        """The time zone of the rows."""
        return self.sums.zone

    @property
    def note(self) -> str:
        """A note if the range reaches beyond the data; else empty."""
        return self.sums.note

    @cached_property
    def means(self) -> dict[str, NDArray[np.float64]]:
        """The means: estimate, low and high."""
        return means_of(self.sums.answers, self.counts.answers, self.ends)

    def columns(self) -> dict[str, Any]:
        """The columns: time, ticks, count, sum and mean; the last three each with low and high.

        `time` is when a part begins, in universal time if the times have a zone. A mean is NaN
        where there may be no event.
        """
        begun = self.sums.edges[:-1].astype("datetime64[ns]")
        found: dict[str, Any] = {"time": begun, "ticks": self.sums.rows}
        for name, table in (("count", self.counts), ("sum", self.sums)):
            for end in _ENDS:
                found[name if end == "estimate" else f"{name}_{end}"] = getattr(table.answers, end)
        for end, column in self.means.items():
            found["mean" if end == "estimate" else f"mean_{end}"] = column
        return found

    def __repr__(self) -> str:
        return "\n".join([self._about, plain_text.table(*self.cells(SHOWN)), *self.said])

    def _repr_html_(self) -> str:
        shown = html.table(*self.cells(SHOWN))
        return f"<div><strong>{self._about}</strong>{shown}{html.lines(self.said)}</div>"

    @property
    def said(self) -> list[str]:
        """Warnings about these answers; may be empty."""
        return [line for line in (*text_of_cautions(self.sums.answers), self.note) if line]

    @property
    def _about(self) -> str:
        sure = f"{self.sums.answers.confidence:.0%}"
        return f"{len(self):,} counts, sums and means with {sure} intervals"

    def cells(self, most: int) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """The header and the first rows of a table, as text."""
        parts = ("count", "sum", "mean")
        names = [f"{part}{end}" for part in parts for end in ("", "_low", "_high")]
        columns = self.columns()
        rows = [
            (self.times[at], *(_shown_mean(float(columns[name][at])) for name in names))
            for at in range(min(len(self), most))
        ]
        if more := len(self) - len(rows):
            rows.append(("…", f"{more:,} more", *[""] * (len(names) - 1)))
        return ("from", *(name.replace("_", " ") for name in names)), rows


def _shown_mean(number: float) -> str:
    return "not known" if math.isnan(number) else six_digit_text(number)


def means_table(sums: TimeTable, counts: TimeTable, ends: Ends) -> MeansTable:
    """The table from the tables of sums and of counts.

    Raises:
        QueryError: they speak of different ticks.
    """
    if not np.array_equal(sums.edges, counts.edges) or not np.array_equal(sums.rows, counts.rows):
        raise QueryError(_APART)
    return MeansTable(sums, counts, ends)


class MeanVerbs(ABC):
    """Count, sum and mean of a range of two streams of one log."""

    @abstractmethod
    def _asked(self, *where: Any, **how: Any) -> tuple[Answer, Answer]:
        """The sum and the count of a range."""

    @property
    @abstractmethod
    def ends(self) -> Ends:
        """The public bounds of a value."""

    def query(self, *where: Any, **how: Any) -> CountSumMean:
        """Count, sum and mean of a range; arguments as for sums."""
        total, count = self._asked(*where, **how)
        if count.low > 0:
            return CountSumMean(count, total, mean_of(total, count, self.ends))
        return CountSumMean(count, total, None)

    def sum(self, *where: Any, **how: Any) -> Answer:
        """The sum of the events of a range."""
        return self._asked(*where, **how)[0]

    def count(self, *where: Any, **how: Any) -> Answer:
        """The number of events of a range."""
        return self._asked(*where, **how)[1]

    def mean(self, *where: Any, **how: Any) -> Ratio:
        """The mean of the events of a range, with Fieller's interval, limited to the public bounds.

        Raises:
            QueryError: the number of events may be 0.
        """
        return mean_of(*self._asked(*where, **how), self.ends)


class MeanQueries(MeanVerbs):
    """Answers for count, sum and mean from the records of two streams of one log (`_both`).

    Sums are answered with what the numbers tell (`sums_given_counts`), where these are known well.
    """

    _given: RecordGivenCounts | None = None  # of the last question

    @abstractmethod
    def _both(self, ask: Callable[[Record, Record], T]) -> T:
        """Call a function with the records of sums and counts, under their lock if there is one."""

    def _asked(self, *where: Any, **how: Any) -> tuple[Answer, Answer]:
        return self._both(
            lambda sums, counts: (
                self._sums_given(sums, counts).query(*where, **how),
                counts.query(*where, **how),
            )
        )

    def _sums_given(self, sums: Record, counts: Record) -> Record:
        """The record of sums, improved by what the counts tell."""
        if self._given is None or not self._given.fits(sums, counts):
            self._given = None
            if not given_counts_tell(sums, counts):
                return sums
            self._given = RecordGivenCounts(sums, counts)
        return self._given

    def table(
        self,
        every: Any,
        confidence: float = 0.95,
        *,
        from_: Moment | None = None,
        to: Moment | None = None,
    ) -> MeansTable:
        """Count, sum and mean of every hour, day or month: `table("1d").to_pandas()`.

        `every` is a length of time, as in `Release.table`. No privacy is spent.
        """
        if not isinstance(every, str | timedelta):
            raise QueryError("every must be a length of time: 15min, 1h, 1d, 1w, 1mo, 1y")
        length: str | timedelta = every

        def ask(record: Record) -> TimeTable:
            return record.table(length, confidence, from_=from_, to=to)

        sums, counts = self._both(
            lambda sums, counts: (ask(self._sums_given(sums, counts)), ask(counts))
        )
        return means_table(sums, counts, self.ends)
