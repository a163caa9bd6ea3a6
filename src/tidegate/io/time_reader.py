"""Times of a source, batch by batch: one clock, in order. Errors name the row, never a time.

`TimeFormat` reads times in a form that the user gives, such as 31.12.2024 23:59.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from tidegate.clock import Clock, ClockRowsOfKeys
from tidegate.errors import InputError, SettingError
from tidegate.io.batches import Batch
from tidegate.io.column_choice import WantedColumn
from tidegate.lattice import IntArray
from tidegate.record.times.time_index import check_time_order, first_late_time
from tidegate.tables.repeated_items import RepeatedItems
from tidegate.timestamps import Times, read_times
from tidegate.timestamps_in_bulk import doubt_about_numbers

_HINTS = {  # by the end of a message
    "since 1970": (
        "; --time-format reads other forms, such as --time-format '%d.%m.%Y %H:%M' or '%Y%m%d'"
    ),
    "is missing": "; remove rows without a time, such as a row of totals or a blank line",
}
_RECENT = 3  # rows that decide about an hour that comes twice
_SAMPLE = datetime(2024, 12, 31, tzinfo=UTC)


class TimeFormat:
    """Parses times by a pattern of `datetime.strptime`.

    >>> TimeFormat("%d.%m.%Y %H:%M").iso(["31.12.2024 23:59"], 0)
    ['2024-12-31T23:59:00']
    """

    def __init__(self, pattern: str) -> None:
        try:
            found = datetime.strptime(_SAMPLE.strftime(pattern), pattern)  # noqa: DTZ007  # %z may be in it
        except (ValueError, re.error):
            found = None
        if found is None or found.date() != _SAMPLE.date():
            raise SettingError(
                "time-format",
                "must be a pattern of strptime with day, month and year, such as '%d.%m.%Y %H:%M' "
                "or '%m/%d/%Y %I:%M %p'",
            )
        self._pattern = pattern

    def iso(self, column: Iterable[Any], position: int) -> list[str]:
        """Rewrite times in ISO 8601. `position` is that of the first, for messages."""
        found = []
        for at, value in enumerate(column, start=position):
            text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
            if text is None or text == "":
                raise InputError(f"time at position {at} is missing")
            if isinstance(text, int | np.integer) and not isinstance(text, bool):
                text = str(text)  # such as 20240201
            if not isinstance(text, str):
                raise InputError(f"time at position {at} is not text: leave --time-format out")
            try:
                moment = datetime.strptime(text.strip(), self._pattern)  # noqa: DTZ007  # as above
            except ValueError:
                raise InputError(f"time at position {at} does not match --time-format") from None
            found.append(moment.isoformat())
        return found


class TimeReader:
    """Parses a column of times in any batches; for events, each time by itself."""

    def __init__(
        self,
        zone: str | None,
        late: str,
        format: TimeFormat | None = None,  # noqa: A002  # as in open_source
        *,
        events: bool = False,
    ) -> None:
        self._zone, self._late, self._format, self._events = zone, late, format, events
        self._clock: Clock | None = None
        self._last: int | None = None
        self._recent: list[int] = []  # the last rows, in their order
        self._codes: dict[Any, int] = {}  # of keys, whose last rows these are
        self._recent_of_key: dict[int, list[int]] = {}
        self._place = 0  # of the next row
        check_time_order(np.zeros(0, dtype=np.int64), None, 0, late)

    def read(self, column: Any, keys: Any = None) -> tuple[Times | None, InputError | None]:
        """The times of the next rows up to a bad one, and the error of that row.

        `keys`: the key of each row, where a stream is released for each.
        """
        problem: InputError | None = None
        size = len(column)
        # Only where naive times are read in a zone can an hour come twice.
        codes = None if keys is None or self._zone is None else self._coded(keys)
        try:
            times = self._read(column, codes)
        except InputError as error:
            known = [hint for end, hint in _HINTS.items() if str(error).endswith(end)]
            hint = known[0] if known else ""
            problem = InputError(f"{error}{hint}")
            good = self._first_good(column)
            times = self._read(column[:good], None if codes is None else codes[:good])
        late = None if self._late == "keep" else first_late_time_of(times, self._last)
        if late is not None:
            try:
                check_time_order(times.ticks, self._last, self._place, self._late)
            except InputError as error:
                problem = error
            times = Times(times.ticks[:late], times.clock)
        self._place += size
        if times.ticks.size:
            self._clock, self._last = times.clock, int(times.ticks.max())
            self._recent = [*self._recent, *times.ticks[-_RECENT:].tolist()][-_RECENT:]
            if codes is not None:
                self._note_keys(codes[: times.ticks.size], times.ticks)
        return times, problem

    def _coded(self, keys: Any) -> IntArray:
        """A number for each key, the same in every batch."""
        column = RepeatedItems.of(keys)
        known = self._codes
        each = [known.setdefault(item, len(known)) for item in column.distinct]
        codes: IntArray = np.array(each, dtype=np.int64)[column.places]
        return codes

    def _note_keys(self, codes: IntArray, ticks: IntArray) -> None:
        """Store the last rows of each key."""
        order = np.argsort(codes, kind="stable")
        ends = np.flatnonzero(np.append(np.diff(codes[order]) != 0, True)) + 1
        start = 0
        for end in ends.tolist():
            rows, start = order[max(start, end - _RECENT) : end], end
            recent = self._recent_of_key.setdefault(int(codes[rows[0]]), [])
            recent[:] = [*recent, *ticks[rows].tolist()][-_RECENT:]

    @property
    def doubt(self) -> str:
        """A remark on the times so far; may be empty. Times of events are not public."""
        if self._clock is None or self._last is None:
            return ""
        doubt = doubt_about_numbers(self._clock.unit, self._last)
        return f"{doubt} This is for you: it is not private" if doubt and self._events else doubt

    def _read(self, column: Any, codes: IntArray | None = None) -> Times:
        if self._format is not None:
            column = self._format.iso(column, self._place)
        return read_times(
            column,
            position=self._place,
            zone=self._zone,
            clock=self._clock,
            before=self._recent,
            by_order=not self._events,
            keys=None if codes is None else ClockRowsOfKeys(codes, self._recent_of_key),
        )

    def _first_good(self, column: Any) -> int:
        """How many rows can be parsed: by bisection, since parsing stops at a bad row."""
        low, high = 0, len(column) - 1
        while low < high:
            middle = (low + high + 1) // 2
            try:
                self._read(column[:middle])
            except InputError:
                high = middle - 1
            else:
                low = middle
        return low


def first_late_time_of(times: Times, last: int | None) -> int | None:
    """The first late row of a batch. None: there is none."""
    return first_late_time(times.ticks, last) if times.ticks.size else None


def batch_with_times(
    columns: Sequence[Any], wanted: Sequence[WantedColumn], reader: TimeReader | None
) -> Iterator[Batch]:
    """Columns as a batch; before a bad time only the rows before it, then the error."""
    if not any(what.numeric for what in wanted):  # events that count as one each
        columns, wanted = (np.ones(len(columns[0])), *columns), (wanted[0], *wanted)
    users = keys = None  # which come before the times
    times, problem = None, None
    others = []
    for column, what in zip(columns[1:], wanted[1:], strict=True):
        if what.numeric:
            others.append(column)
        elif what.time and reader is not None:
            times, problem = reader.read(column, keys)
        else:
            users = column
            keys = column if what.setting == "by" else None
    batch = Batch(columns[0], users, times=times, others=tuple(others))
    if times is not None and times.ticks.size < len(batch):
        batch = batch.part(0, times.ticks.size)
    if len(batch):
        yield batch
    if problem is not None:
        raise problem
