"""`MovingSums`: sums over sliding windows, each with an interval.

Each number is that of `queries(starts, ends)`, bit for bit. Windows overlap, which costs nothing:
answers are post-processing of what was released.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tidegate.clock import SECOND, Clock
from tidegate.errors import QueryError
from tidegate.exact_numbers import whole
from tidegate.lattice import FloatArray, IntArray
from tidegate.record.answer_text import SHOWN, six_digit_text, text_of_cautions, text_of_numbers
from tidegate.record.range_queries_and_answers import Answers
from tidegate.record.range_tables import range_length_as_text
from tidegate.record.times.many_time_ranges import joined_ranges
from tidegate.record.times.sums_between_times import (
    check_sums_between_times_are_known,
    places_of_sums,
    sums_forgotten_until,
    sums_with_late_rows,
)
from tidegate.record.times.time_ranges_and_tables import (
    Moment,
    length_of_time,
    time_range_asked_for,
)
from tidegate.tables import html, plain_text
from tidegate.tables.tables_from_numpy import Tabular

if TYPE_CHECKING:
    from tidegate.record.record import Record

_STEPS = 4  # ends of windows in a window, unless `every` says more or fewer
_MOST_WINDOWS = 1_000_000  # in one answer
_NO_LENGTH = "must be a fixed length of time, up to weeks (1h, 1d, 1w), or a number of rows (1000)"


class MovingWindows(NamedTuple):
    """The requested windows.

    Attributes:
        over: the length of a window: a number of rows, or a length of time such as 1d.
        every: how far apart windows end, in the same unit; None: a quarter of `over`.
        start, end: positions between which windows lie; None: all rows.
        from_, to: times between which they lie.
        confidence: of the intervals.
        most: how many windows there may be.
    """

    over: int | str
    every: int | str | None = None
    start: int | None = None
    end: int | None = None
    from_: Moment | None = None
    to: Moment | None = None
    confidence: float = 0.95
    most: int = _MOST_WINDOWS

    @classmethod
    def named(
        cls, over: int | str | timedelta, every: int | str | timedelta | None, **more: Any
    ) -> MovingWindows:
        """The windows from a user's arguments; durations of Python, numpy or pandas are fine."""
        step = None if every is None else range_length_as_text(every)
        return cls(range_length_as_text(over), step, **more)


@dataclass(frozen=True)
class MovingSums(Tabular):
    """One row for each window, oldest first. Windows end at multiples of a step; the last ends now.

    Attributes:
        answers: the sums, with their intervals.
        rows: how many values each window has.
        spans: of windows of time, a row for when they begin and one for when they end, in
            nanoseconds since 1970; None: windows of rows.
        clock: of the times.
    """

    answers: Answers
    rows: IntArray
    spans: IntArray | None = None
    clock: Clock | None = None

    def __len__(self) -> int:
        return len(self.answers)

    @property
    def zone(self) -> str | None:
        """The time zone of the windows."""
        return None if self.clock is None else self.clock.zone

    def columns(self) -> dict[str, Any]:
        """The columns: begin and end of each window, rows, sum and mean, both with low and high.

        The mean over no values is NaN.
        """
        found: dict[str, Any] = {"start": self.answers.start, "end": self.answers.end}
        if self.spans is not None:
            begin, end = self.spans.astype("datetime64[ns]")
            found = {"from": begin, "to": end}
        found["rows"] = self.rows
        some: FloatArray = np.where(self.rows > 0, self.rows, np.nan)
        for name in ("estimate", "low", "high"):
            more = "" if name == "estimate" else f"_{name}"
            found[f"sum{more}"] = getattr(self.answers, name)
            found[f"mean{more}"] = getattr(self.answers, name) / some
        return found

    def texts(self) -> tuple[list[str], list[str]]:
        """The ends of the windows as text."""
        if self.spans is None or self.clock is None:
            pair = self.answers.start, self.answers.end
            begin, end = ([f"{place:,}" for place in one.tolist()] for one in pair)
        else:
            clock = Clock(self.clock.zone)
            begin, end = (clock.texts(one) for one in self.spans)
        return begin, end

    def __repr__(self) -> str:
        said = filter(None, text_of_cautions(self.answers))
        return "\n".join([self._about, plain_text.table(*self._cells()), *said])

    def _repr_html_(self) -> str:
        answers, (_, ends), about = self.answers, self.texts(), self._about
        reach = (ends[0], ends[-1]) if ends else ("", "")
        picture = html.band(answers.estimate, answers.low, answers.high, reach, about)
        said = html.lines(text_of_cautions(answers))
        return f"<div><strong>{about}</strong>{picture}{html.table(*self._cells())}{said}</div>"

    @property
    def _about(self) -> str:
        return f"{len(self):,} moving sums with {self.answers.confidence:.0%} intervals"

    def _cells(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """The header and the last rows of a table: the newest ones."""
        begin, end = self.texts()
        first = max(0, len(self) - SHOWN)
        rows = [
            (
                begin[at],
                end[at],
                f"{self.rows[at]:,}",
                *map(six_digit_text, text_of_numbers(self.answers[at])),
            )
            for at in range(first, len(self))
        ]
        if first:
            rows.insert(0, ("…", f"{first:,} before", "", "", "", ""))
        return ("from", "to", "rows", "sum", "low", "high"), rows


def moving_sums(record: Record, windows: MovingWindows) -> MovingSums:
    """The sums over windows of one length."""
    over = windows.over
    if isinstance(over, str):
        return _sums_by_time(record, windows, _length_of_window("over", over))
    if windows.from_ is not None or windows.to is not None:
        raise QueryError("from and to need a length of time, such as over=1d")
    size = whole("over", over, minimum=1)
    if isinstance(windows.every, str):
        raise QueryError("every must be a number of rows, as over is")
    step = max(1, size // _STEPS)
    if windows.every is not None:
        step = whole("every", windows.every, minimum=1)
    first = max(record.start, windows.start or 0) + size
    ends = _ends_of_moving_windows(
        first, min(record.end, _or(windows.end, record.end)), step, windows.most
    )
    answers = record.answers(ends - size, ends, windows.confidence, None)
    return MovingSums(answers, np.full(ends.size, size))


def _sums_by_time(record: Record, windows: MovingWindows, over: int) -> MovingSums:
    if windows.start is not None or windows.end is not None:
        raise QueryError("start and end need a number of rows, such as over=1000")
    every = windows.every
    if every is not None and not isinstance(every, str):
        raise QueryError("every must be a length of time, as over is")
    index = record.time_index
    step = max(SECOND, over // _STEPS) if every is None else _length_of_window("every", every)
    first, last = time_range_asked_for(index, windows.from_, windows.to).tolist()
    known = sums_forgotten_until([record]) or index.first_time
    ends = _ends_of_moving_windows(
        max(first, known) + over, min(last, index.last_time + 1), step, windows.most
    )
    if ends.size:
        check_sums_between_times_are_known([record], int(ends[0]) - over)
    spans = np.stack((ends - over, ends))
    answers, rows = _moving_windows_of_time(record, spans, windows.confidence)
    return MovingSums(answers, rows, spans, index.clock)


def _moving_windows_of_time(
    record: Record, spans: IntArray, confidence: float
) -> tuple[Answers, IntArray]:
    begin, end = (places_of_sums(record, ticks) for ticks in spans)
    if not record.time_index.late.places.size or not begin.size:
        return record.answers(begin, end, confidence, None), end - begin
    # Each window counts late rows of its own.
    parts = []
    for cuts, places in zip(spans.T, np.stack((begin, end)).T, strict=True):
        sums = record.answers(places[:1], places[1:], confidence, None)
        parts.append(sums_with_late_rows(sums, [record], cuts, [places]))
    return joined_ranges([part for part, _ in parts]), np.concatenate([rows for _, rows in parts])


def _ends_of_moving_windows(first: int, last: int, step: int, most: int) -> IntArray:
    """The ends of windows: multiples of the step, so that they do not shift; and the last row.

    No window is shown before a whole one is known.
    """
    if last < first:
        return np.zeros(0, dtype=np.int64)
    begin = -(-first // step) * step
    if (last - begin) // step + 1 > most:
        raise QueryError(f"every is too short: more than {most:,} windows")
    ends = np.arange(begin, last + 1, step)
    return ends if ends.size and ends[-1] == last else np.append(ends, last)


def _length_of_window(name: str, given: str) -> int:
    try:
        return length_of_time(given)
    except QueryError:
        raise QueryError(f"{name} {_NO_LENGTH}") from None


def _or(given: int | None, default: int) -> int:
    return default if given is None else given
