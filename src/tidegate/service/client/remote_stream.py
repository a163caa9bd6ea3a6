"""Streams of a service without keys: the interface of a local release.

Stream        push(values, times=times)         as `Release`
EventStream   push(times, values), advance      as `EventRelease`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np

from tidegate.errors import SettingError
from tidegate.exact_numbers import whole
from tidegate.record.mean_and_ratio import Mean
from tidegate.record.moving_sums import MovingSums, MovingWindows
from tidegate.record.range_queries_and_answers import Answers, RangeQueries
from tidegate.record.record import Record
from tidegate.record.rows_and_levels import Rows
from tidegate.record.times.time_ranges_and_tables import Moment
from tidegate.service.client import remote_picture
from tidegate.service.client.pushed_columns import (
    is_single_push,
    pushed_columns,
    refuse_pushed_late,
    refuse_pushed_users,
)
from tidegate.service.client.remote_record import RemoteRecord
from tidegate.service.client.remote_stream_base import RemoteStreamBase, remote_page_times
from tidegate.tables.tables_from_numpy import series_from_numpy

NO_TICKS = "is for event streams: create the stream with events={'every': …, 'start': …}"


class UnkeyedStream(RemoteStreamBase, RangeQueries):
    """A stream without keys: of readings, or of events."""

    def _answered(self, ask: Callable[[Record], Answers]) -> Answers:
        return ask(cast("Record", RemoteRecord(self)))

    def table(self, every: Any, confidence: float = 0.95, **times: Any) -> Any:
        """The sums over `every` values at a time, or over parts of a range of time.

        See `Release.table`.
        """
        if isinstance(every, str) or any(when is not None for when in times.values()):
            return super().table(every, confidence, **times)
        return RemoteRecord(self).table(whole("every", every, minimum=1), confidence)

    def moved_over(self, windows: MovingWindows) -> MovingSums:
        """The sums over windows: see `Release.moving`."""
        return RemoteRecord(self).moved_over(windows)

    def mean(self, *where: Any, **how: Any) -> Mean:
        """The mean over a range; arguments as for `query`; for events, per tick."""
        return Mean.of(self.query(*where, **how))

    def rows(self, start: int = 0, end: int | None = None) -> Rows:
        """The released rows [start, end), with their levels and times."""
        return _stream_rows(self._pages(start, end), start)

    def follow(self, start: int | None = None) -> Iterator[Rows]:
        """Released rows as they come, without end; from `start` on, or from now on."""
        for page in self._live(start):
            yield _stream_rows([page], 0)

    @property
    def warming(self) -> int:
        """How many more values the open warm-up needs; 0: none is open."""
        warming: int = self.facts()["warming"]
        return warming

    def plot(self, window: int | None = None, confidence: float = 0.95, ax: Any = None) -> Any:
        """Plot the level, and the moving average of `window` values with its error band.

        Needs matplotlib. Draws on `ax`, or on new axes; returns the axes.
        """
        return remote_picture.plot(self, window, confidence, ax)

    def _repr_html_(self) -> str:
        return remote_picture.remote_picture_shown(self)


class Stream(UnkeyedStream):
    """A stream of readings: the methods of `Release`, over HTTP."""

    def push(self, values: Any, users: Any = None, times: Any = None, late: str = "refuse") -> Any:
        """Send one value or a column; return what is released for it, once it is durable.

        As `Release.push`: a number for a number, a Series for a Series, else an array. None if no
        token may read: a producer is told nothing about the stream.
        """
        one = is_single_push(values)
        if one:
            rows = self.push_rows([values], users, None if times is None else [times], late)
        else:
            rows = self.push_rows(values, users, times, late)
        if rows is None:
            return None
        if one:
            return rows.values.item() if rows.values.size else None
        as_series = series_from_numpy(values)
        return rows.values if as_series is None else as_series(rows.values)

    def push_rows(
        self, values: Any, users: Any = None, times: Any = None, late: str = "refuse"
    ) -> Rows | None:
        """Push a column of values; return rows: values, and a level for each."""
        refuse_pushed_users(users)
        refuse_pushed_late(late)
        receipts = self._sent(pushed_columns("push(values, times=times)", values, times))
        return self._released(receipts) if self._reads() else None

    def _released(self, receipts: list[dict[str, Any]]) -> Rows:
        """The rows of these receipts, whatever else was pushed meanwhile."""
        facts = self.facts()
        held = facts["taken"] - facts["released"]  # by the hold-out, before the first row
        parts = [
            self.rows(
                *(max(0, place - held) for place in (one["start"], one["start"] + one["count"]))
            )
            for one in receipts
        ]
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return _stream_rows([], facts["released"])
        values, levels = (np.concatenate([one[at] for one in parts]) for at in (1, 2))
        times = [one.times for one in parts if one.times is not None]
        return Rows(parts[0].first, values, levels, np.concatenate(times) if times else None)

    def advance(self, until: Moment) -> Rows:
        """Refuse: only event streams have ticks."""
        raise SettingError("until", NO_TICKS)

    def finish(self) -> None:
        """End an open warm-up with the values so far: for a stream that is over."""
        self._finished()

    @property
    def seen(self) -> int:
        """The number of values taken, including the hold-out."""
        taken: int = self.facts()["taken"]
        return taken


class EventStream(UnkeyedStream):
    """A stream of events: `push` takes events, `advance` releases ticks, as `EventRelease`."""

    def push(self, times: Any, values: Any = None, users: Any = None) -> None:
        """Send events: the time of each, and its value; None: each counts as one.

        They are durable when this returns. Nothing comes out: `advance` does that.
        """
        refuse_pushed_users(users)
        self._sent(pushed_columns("push(times, values)", values, times, events=True))

    def advance(self, until: Moment) -> Rows | None:
        """Release every tick that is over at `until`; None if no token may read.

        Take it from a clock, never from the events.
        """
        before = self.position if self._reads() else 0
        self._advanced(until)
        return self.rows(before) if self._reads() else None

    def finish(self, until: Moment | None = None) -> Rows | None:
        """`advance`, then end an open warm-up: for a log that is over."""
        before = self.position if self._reads() else 0
        if until is not None:
            self._advanced(until)
        self._finished()
        return self.rows(before) if self._reads() else None


def _stream_rows(pages: list[dict[str, Any]], start: int) -> Rows:
    """Join pages into one table."""
    values, levels = (
        np.array([number for page in pages for number in page[name]], dtype=np.float64)
        for name in ("values", "levels")
    )
    return Rows(pages[0]["first"] if pages else start, values, levels, remote_page_times(pages))
