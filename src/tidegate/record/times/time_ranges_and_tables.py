"""Ranges of time, and tables with a row for every day, week or quarter of an hour."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.clock import SECOND, Clock
from tidegate.errors import InputError, QueryError
from tidegate.lattice import FloatArray, IntArray
from tidegate.record.answer_text import SHOWN, six_digit_text, text_of_cautions, text_of_numbers
from tidegate.record.range_queries_and_answers import Answers
from tidegate.record.times.time_index import TimeIndex
from tidegate.tables import html, plain_text
from tidegate.tables.tables_from_numpy import Tabular
from tidegate.timestamps import read_times

_EVERY = re.compile(r"(\d{1,6})?\s*([a-z]+)")
_SECONDS = {
    "s": 1, "sec": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600,
}  # fmt: skip
_DAYS = {"d": 1, "day": 1, "w": 7, "week": 7}
_MONTHS = {"mo": 1, "month": 1, "q": 3, "quarter": 3, "y": 12, "year": 12}
_MONDAY = 4  # days from 1970-01-01, a Thursday, to the first Monday
_DAY = 86_400 * SECOND
_MOST_ROWS = 10_000_000
_EARLIEST = 10**8 * SECOND  # 1973: where times are dates, a smaller number is not meant as one

Moment = str | int | float | date | datetime | np.datetime64


def end_of_time_range(clock: Clock, when: Moment, name: str) -> int:
    """One time of a query, in nanoseconds, by the clock of the stream.

    A text without a zone lies in the zone of the stream.
    """
    return int(ends_of_time_ranges(clock, [when], name)[0])


def ends_of_time_ranges(clock: Clock, when: Any, name: str) -> IntArray:
    """The times of a query, in nanoseconds, by the clock of the stream."""
    zone = clock.zone if clock.zone != "UTC" else "UTC"
    try:
        found = read_times([when] if isinstance(when, str | date) else when, zone=zone)
    except InputError as error:
        problem = str(error).partition(" at position ")[2].partition(" ")[2] or str(error)
        raise QueryError(f"{name} {problem}: write 2024-02-01 or 2024-02-01T12:00") from None
    unlike = (found.clock.zone is None) != (clock.zone is None)
    early = clock.unit is None and bool((np.abs(found.ticks) < _EARLIEST).any())
    if found.clock.unit is not None and (unlike or early):
        raise QueryError(
            f"{name} is a number, which counts from 1970: write a date, such as 2024-01-01"
        )
    if unlike:
        raise QueryError(
            f"{name} has a zone, and the times of this release have none: leave it out"
        )
    return found.ticks


def time_range_asked_for(index: TimeIndex, from_: Moment | None, to: Moment | None) -> IntArray:
    """Both ends of a queried range of time; None: from the first row, to the last."""
    if index.end == index.start:
        raise QueryError("nothing is released yet")
    first = index.first_time if from_ is None else end_of_time_range(index.clock, from_, "from")
    last = index.last_time + 1 if to is None else end_of_time_range(index.clock, to, "to")
    if last < first and (from_ is None or to is None):
        begins, ends = _ends_of_time_range(index)
        place = (
            f"to is before the first row, {begins}" if to else f"from is after the last row, {ends}"
        )
        raise QueryError(place)
    if last < first:
        raise QueryError("from must not be after to")
    return np.array([first, last])


def check_rows_in_time_range(index: TimeIndex, rows: IntArray) -> None:
    """Refuse a range of time without rows: an answer of 0 would mislead."""
    if not rows.any():
        first, last = _ends_of_time_range(index)
        raise QueryError(
            f"no row lies between from and to: the times of this release run from {first} to {last}"
        )


def time_range_beyond_rows(index: TimeIndex, cuts: IntArray) -> str:
    """A note if ranges of time reach beyond the rows; else empty."""
    rows = index.end - index.start
    slack = 2 * (index.last_time - index.first_time) // max(1, rows - 1)
    early = index.first_time - int(cuts[0]) > slack
    late = int(cuts[-1]) - index.last_time > slack
    if not early and not late:
        return ""
    first, last = _ends_of_time_range(index)
    found = [f"the first row is at {first}"] * early + [f"the last row is at {last}"] * late
    what = "The range reaches beyond the data" if cuts.size == 2 else "Not every part is full"
    return f"{what}: {' and '.join(found)}."


def _ends_of_time_range(index: TimeIndex) -> tuple[str, str]:
    return _texts_of_times(index.clock.zone, index.first_time, index.last_time)


@lru_cache(maxsize=64)  # keys that are asked together often begin and end together
def _texts_of_times(zone: str | None, first: int, last: int) -> tuple[str, str]:
    begins, ends = Clock(zone).texts(np.array([first, last]))
    return begins, ends


def edges_of_time_range(
    index: TimeIndex,
    every: str,
    from_: Moment | None,
    to: Moment | None,
    known: int | None = None,
) -> IntArray:
    """The times that divide a range of time into parts, including its ends.

    Days, weeks (from Monday on), months and longer are those of the calendar, in the zone of the
    stream. Hours and shorter have one length, from the midnight before the first on. Without
    `from_`, they begin with the part that holds `known`; where parts begin does not depend on it.
    """
    clock = index.clock
    first, last = time_range_asked_for(index, from_, to).tolist()
    if last == first:
        raise QueryError("from must be before to")
    count, unit = _parsed_time(every)
    later = first if known is None or from_ is not None else max(first, min(known, last))
    local = clock.local(np.array([first, last, later]))
    if unit in _SECONDS:
        length = count * _SECONDS[unit] * SECOND
        midnight = int(clock.universal(local[:1] // _DAY * _DAY)[0])
        begin = midnight + (later - midnight) // length * length
        _check_rows_of_time_table((last - begin) // length)
        cuts = np.arange(begin, last + length, length)
    else:
        days = local // _DAY
        if unit in _DAYS:
            length = count * _DAYS[unit]
            origin = _MONDAY if unit in ("w", "week") else int(days[0])
            begin = origin + (int(days[2]) - origin) // length * length
            _check_rows_of_time_table((int(days[1]) - begin) // length)
            cut_days = np.arange(begin, int(days[1]) + length + 1, length)
        else:
            months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
            length = count * _MONTHS[unit]
            begin = int(months[2]) // length * length
            cut_months = np.arange(begin, int(months[1]) + length + 1, length)
            cut_days = cut_months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
        cuts = clock.universal(cut_days * _DAY)
    inside = cuts[(cuts > later) & (cuts < last)]
    start = cuts[0] if from_ is None else first
    end = cuts[cuts >= last][0] if to is None else last
    return np.concatenate(([start], inside, [end])).astype(np.int64)


def _parsed_time(every: str) -> tuple[int, str]:
    found = _EVERY.fullmatch(str(every).strip().lower())
    if found is not None:
        count, unit = int(found[1] or 1), found[2]
        unit = unit if unit == "s" else unit.removesuffix("s") or unit
        if count and unit in {**_SECONDS, **_DAYS, **_MONTHS}:
            return count, unit
    raise QueryError("every must be a length of time: 15min, 1h, 1d, 1w, 1mo, 1y")


def length_of_time(every: str) -> int:
    """A duration of fixed length, in nanoseconds: seconds to weeks.

    Raises:
        QueryError: it is none, or the calendar decides how long it is.
    """
    count, unit = _parsed_time(every)
    if unit in _MONTHS:
        raise QueryError("every must be a fixed length of time, up to weeks: 1s, 15min, 1h, 1d")
    return count * (_SECONDS[unit] * SECOND if unit in _SECONDS else _DAYS[unit] * _DAY)


def shortest_part(every: str) -> int:
    """The shortest possible part of such a table, in nanoseconds; a month counts 28 days.

    Days count 24 hours: one that is shorter because clocks change does not make them shorter.
    """
    count, unit = _parsed_time(every)
    return 28 * count * _MONTHS[unit] * _DAY if unit in _MONTHS else length_of_time(every)


def _check_rows_of_time_table(count: int) -> None:
    if count > _MOST_ROWS:
        raise QueryError(f"every is too short: more than {_MOST_ROWS:,} rows")


@dataclass(frozen=True)
class TimeTable(Tabular):
    """A row for each part of a range of time.

    Attributes:
        answers: the sums, with their intervals.
        edges: the times between rows and at both ends, in nanoseconds since 1970.
        clock: of the times.
        rows: how many values each part has; late ones count where their own time lies.
    """

    answers: Answers
    edges: IntArray
    clock: Clock
    rows: IntArray

    def __len__(self) -> int:
        return len(self.answers)

    @property
    def times(self) -> list[str]:
        """The beginning of each row, in the file's form of times."""
        return Clock(self.clock.zone).texts(self.edges[:-1])

    @property
    def zone(self) -> str | None:
        """The time zone of the rows."""
        return self.clock.zone

    def __repr__(self) -> str:
        said = filter(None, (*text_of_cautions(self.answers), self.note))
        return "\n".join([self._about, plain_text.table(*self._cells()), *said])

    def _repr_html_(self) -> str:
        answers, times, about = self.answers, self.times, self._about
        ends = (times[0], times[-1]) if times else ("", "")
        picture = html.band(answers.estimate, answers.low, answers.high, ends, about)
        said = html.lines([*text_of_cautions(answers), self.note])
        return f"<div><strong>{about}</strong>{picture}{html.table(*self._cells())}{said}</div>"

    @property
    def _about(self) -> str:
        return f"{len(self):,} sums with {self.answers.confidence:.0%} intervals"

    def _cells(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """The header and the first rows of a table."""
        answers, times = self.answers, self.times
        rows = [
            (times[at], f"{self.rows[at]:,}", *map(six_digit_text, text_of_numbers(answers[at])))
            for at in range(min(len(self), SHOWN))
        ]
        more = len(self) - len(rows)
        if more:
            rows.append(("…", f"{more:,} more", "", "", ""))
        return ("from", "rows", "sum", "low", "high"), rows

    @property
    def note(self) -> str:
        """A note about late rows, or a range that reaches beyond the data; may be empty."""
        return self.answers.note

    def columns(self) -> dict[str, Any]:
        """The columns: time, rows, sum, mean and rate (per second), each with low and high.

        `time` is when a part begins, in universal time if the times have a zone. A mean over no
        values is NaN. A rate is a sum over the seconds of the part.
        """
        return joined_time_columns([self])


def joined_time_columns(tables: Sequence[TimeTable]) -> dict[str, Any]:
    """The columns of these tables, one table after another: many keys at once."""
    rows = _joined_tables([one.rows for one in tables])
    seconds = _joined_tables([(one.edges[1:] - one.edges[:-1]) / SECOND for one in tables])
    begun = _joined_tables([one.edges[:-1] for one in tables])
    found: dict[str, Any] = {"time": begun.astype("datetime64[ns]"), "rows": rows}
    ends = {
        end: _joined_tables([getattr(one.answers, end) for one in tables])
        for end in ("estimate", "low", "high")
    }
    for name, size in (("sum", np.ones(rows.size)), ("mean", rows), ("rate", seconds)):
        for end, column in ends.items():
            label = name if end == "estimate" else f"{name}_{end}"
            found[label] = _divided_time_range(column, size)
    return found


def _joined_tables(columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return columns[0] if len(columns) == 1 else np.concatenate(columns)


def _divided_time_range(numbers: FloatArray, by: Any) -> FloatArray:
    out: FloatArray = np.full(numbers.size, np.nan)
    np.divide(numbers, by, out=out, where=np.asarray(by) > 0)
    return out
