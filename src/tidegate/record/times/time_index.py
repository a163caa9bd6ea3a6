"""`TimeIndex`: times by position, and positions by time.

Times of a stream are a line through knots, exactly: between two knots they are evenly spaced.
A regular stream of any length has two knots; an irregular one has a knot for each row.

    time  ·                    · knot
          |             ·──────      evenly spaced
          |      ·──────
          └──────────────────── position

A row that is older than one before it (`late="keep"`) stands at its place with the newest time so
far: so these times never go back, and a range of time is a range of positions. Its own time is kept
beside (`late`), and sums by time count it there (`tidegate.record.times.sums_between_times`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tidegate.clock import Clock
from tidegate.errors import InputError, QueryError
from tidegate.lattice import IntArray
from tidegate.stages import NO_SUMS

LATE = ("refuse", "keep")


class TimeKnots(NamedTuple):
    """A piecewise linear sequence of integers, stored as its knots."""

    places: IntArray
    ticks: IntArray

    @classmethod
    def through(cls, ticks: IntArray, first: int = 0) -> TimeKnots:
        """The fewest knots that reproduce these numbers; the first is at position `first`."""
        steps = np.diff(ticks)
        bend = np.flatnonzero(steps[1:] != steps[:-1]) + 1
        at = np.unique(np.concatenate(([0], bend, [ticks.size - 1]))) if ticks.size else NO_SUMS
        return cls(at + first, ticks[at])

    def between(self, start: int, end: int) -> IntArray:
        """The numbers at the positions [start, end)."""
        wanted = np.arange(start, end)
        if not wanted.size:
            return NO_SUMS
        at = np.clip(np.searchsorted(self.places, wanted, side="right") - 1, 0, None)
        after = np.minimum(at + 1, self.places.size - 1)
        widths = np.maximum(self.places[after] - self.places[at], 1)
        steps = (self.ticks[after] - self.ticks[at]) // widths
        found: IntArray = self.ticks[at] + (wanted - self.places[at]) * steps
        return found


class TimeIndex:
    """The times of the rows [start, end), which never decrease.

    Attributes:
        clock: that showed them.
        start, end: positions.
        late: places and own times of rows that are older than one before them.
    """

    def __init__(
        self, clock: Clock, knots: TimeKnots | None = None, late: TimeKnots | None = None
    ) -> None:
        self.clock = clock
        self._pieces = [TimeKnots(NO_SUMS, NO_SUMS) if knots is None else knots]
        self._late = [] if late is None or not late.places.size else [late]

    def view(self) -> TimeIndex:
        """A view as of now for another thread. Knots never change."""
        found = TimeIndex(self.clock)
        found._pieces, found._late = list(self._pieces), list(self._late)
        return found

    @property
    def late(self) -> TimeKnots:
        """Positions and own times of late rows, ordered by position."""
        if len(self._late) != 1:
            self._late = [_joined_time_index(self._late)]
        return self._late[0]

    @property
    def knots(self) -> TimeKnots:
        """The knots, in order."""
        if len(self._pieces) > 1:
            self._pieces = [_joined_time_index(self._pieces)]
        return self._pieces[0]

    @property
    def start(self) -> int:
        """The first position."""
        places = self.knots.places
        return int(places[0]) if places.size else 0

    @property
    def end(self) -> int:
        """The position after the last row."""
        places = self._pieces[-1].places
        return int(places[-1]) + 1 if places.size else 0

    @property
    def first_time(self) -> int:
        """The time of the oldest row."""
        first, late = int(self.knots.ticks[0]), self.late.ticks
        return min(first, int(late.min())) if late.size else first

    @property
    def last_time(self) -> int:
        """The time of the newest row."""
        return int(self._pieces[-1].ticks[-1])

    def push(self, first: int, ticks: IntArray) -> None:
        """Add the times of the next rows, from position `first` on."""
        if not ticks.size:
            return
        latest = self._pieces[-1]
        if not latest.places.size:
            ahead = np.maximum.accumulate(ticks)
            self._note_late(first, ticks, ahead)
            self._pieces = [TimeKnots.through(ahead, first)]
            return
        # The last two knots say where the line goes; the last one may turn out to be none.
        kept = latest.places.size - min(2, latest.places.size)
        tail = TimeKnots(latest.places[kept:], latest.ticks[kept:])
        before = int(tail.ticks[-1])
        ahead = np.maximum.accumulate(np.concatenate(([before], ticks)))
        self._note_late(first, ticks, ahead[1:])
        fresh = TimeKnots.through(ahead, first - 1)
        if tail.places.size == 2:
            step = (before - int(tail.ticks[0])) // int(tail.places[1] - tail.places[0])
            straight = ahead[1] - ahead[0] == step
            bend = fresh if not straight else TimeKnots(fresh.places[1:], fresh.ticks[1:])
            self._pieces[-1] = TimeKnots(latest.places[:-1], latest.ticks[:-1])
        else:
            bend = fresh
            self._pieces.pop()
        self._pieces.append(bend)
        if len(self._pieces) > _MOST_PIECES or self._pieces[-1].places.size < 2:
            _ = self.knots

    def _note_late(self, first: int, ticks: IntArray, ahead: IntArray) -> None:
        at = np.flatnonzero(ticks < ahead)
        if at.size:
            self._late.append(TimeKnots(at + first, ticks[at]))
            if len(self._late) > _MOST_PIECES:
                self._late = [_joined_time_index(self._late)]

    def brief(self) -> TimeKnots:
        """The part that is needed to continue."""
        knots = self.knots
        return TimeKnots(knots.places[-2:], knots.ticks[-2:])

    def positions(self, ticks: IntArray) -> IntArray:
        """The first position whose time is not before each time; the end if there is none."""
        places, known = self.knots
        if not places.size:
            return np.zeros(ticks.size, dtype=np.int64)
        at = np.searchsorted(known, ticks, side="left")
        inside = np.clip(at, 1, places.size - 1) if places.size > 1 else np.zeros_like(at)
        before = np.maximum(inside - 1, 0)
        widths = np.maximum(places[inside] - places[before], 1)
        steps = np.maximum((known[inside] - known[before]) // widths, 1)
        found = places[before] + -((known[before] - ticks) // steps)
        found = np.where(at == 0, places[0], found)
        ended: IntArray = np.where(at >= known.size, places[-1] + 1, found)
        return ended

    def times(self, positions: IntArray) -> IntArray:
        """The times of rows."""
        places, ticks = self.knots
        at = np.clip(np.searchsorted(places, positions, side="right") - 1, 0, None)
        after = np.minimum(at + 1, places.size - 1)
        widths = np.maximum(places[after] - places[at], 1)
        steps = (ticks[after] - ticks[at]) // widths
        found: IntArray = ticks[at] + (positions - places[at]) * steps
        return found

    def along(self, start: int, end: int) -> list[str]:
        """The times of the first, the middle and the last of these rows, as text."""
        rows = np.array([start, (start + end) // 2, end - 1])
        return Clock(self.clock.zone).texts(self.times(rows))


_MOST_PIECES = 256


def _joined_time_index(pieces: Sequence[TimeKnots]) -> TimeKnots:
    if not pieces:
        return TimeKnots(NO_SUMS, NO_SUMS)
    places, ticks = zip(*pieces, strict=True)
    return TimeKnots(np.concatenate(places), np.concatenate(ticks))


def check_time_order(ticks: IntArray, last: int | None, position: int, late: str) -> None:
    """Refuse times that go back, unless late rows are kept.

    Raises:
        InputError: it names the position of the first.
    """
    if late not in LATE:
        raise QueryError(f"late must be one of {', '.join(LATE)}")
    if late == "keep" or not ticks.size:
        return
    place = first_late_time(ticks, last)
    if place is not None:
        raise InputError(
            f"time at position {position + place} is before the one before it. Sort the rows by "
            "time, or keep late rows at their place: late='keep' (--late keep). If clocks were "
            "turned back there, give the zone instead"
        )


def first_late_time(ticks: IntArray, last: int | None) -> int | None:
    """The first of these times that lies before its predecessor. None: none does."""
    before = ticks[0] if last is None else last
    wrong = np.flatnonzero(np.diff(ticks, prepend=before) < 0)
    return int(wrong[0]) if wrong.size else None
