"""Events of ticks that are not released yet. As secret as the data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tidegate.lattice import IntArray
from tidegate.stages import NO_SUMS
from tidegate.stages.size_bands import SizeBands

_MOST_PIECES = 64  # events that are not added up yet
_HALF, _LOW, _MOST_SUM = 32, (1 << 32) - 1, 1 << 62
_MOST_HIGH = 1 << 30


class _LoggedEvents(NamedTuple):
    ticks: list[IntArray]
    units: list[IntArray]
    ordered: bool

    def __repr__(self) -> str:  # raw values
        return "<_Events>"


class EventLog:
    """Events by tick: single values while θ may change, sums of truncated values afterwards.

    Neither the order of events nor their split into pushes matters: sums are integers, and what is
    kept of single events is sorted.

    Privacy: each event is truncated by itself to [−θ, θ], then added to its tick. One event more or
    less moves one sum, by at most θ. (Sums count up to ±`most`, far beyond any real one: 64 bits
    must not overflow. They are cut once, when they are taken: that moves no sum further. A sum that
    was cut before all of its events were there would depend on which came first.) One assignment
    changes ticks and values together: snapshots join them, and may be interrupted and go on.
    """

    def __init__(self, most: int, cap: int | None = None) -> None:
        self._most = most
        self.cap = cap  # θ, if it cannot change any more
        self._events = _LoggedEvents([], [], ordered=True)

    def __repr__(self) -> str:
        return "<EventLog>"  # neither values nor their number

    @property
    def waiting(self) -> bool:
        """Whether the log holds events. For the operator only."""
        return any(ticks.size for ticks in self._events.ticks)

    def add(self, ticks: IntArray, units: IntArray) -> None:
        """Add events; `ticks` holds the tick of each."""
        if not ticks.size:
            return
        events = self._events = self._events._replace(ordered=False)
        events.ticks.append(ticks.copy())
        events.units.append(
            units.copy() if self.cap is None else truncated_sums_of_log(units, self.cap)
        )
        if self.cap is not None and len(events.ticks) > _MOST_PIECES:
            self._fold()

    def values(self, start: int, end: int) -> IntArray:
        """The sorted values of the events of [start, end); only before `settle`."""
        ticks, units = self._joined()
        first, last = np.searchsorted(ticks, (start, end))
        return np.sort(units[first:last])

    def take(
        self, start: int, end: int, cap: int, bands: SizeBands | None = None
    ) -> tuple[IntArray, IntArray]:
        """The sums of the ticks [start, end), and the values of their events, if there are any.

        Both are forgotten here. `bands`: their events are counted, and give less if they are large.
        """
        ticks, units = self._joined()
        first, last = np.searchsorted(ticks, (start, end)).tolist()
        here = slice(first, last)
        values = NO_SUMS if self.cap is not None else np.sort(units[here])
        known = truncated_sums_of_log(units[here], cap, self.cap)
        if bands is not None:
            known = bands.kept(known if self.cap is not None else units[here])
        sums = added_to_log(ticks[here] - start, known, end - start)
        self._events = _LoggedEvents([ticks[last:]], [units[last:]], ordered=True)
        units[:last].fill(0)  # raw values are not kept longer than needed
        return np.clip(sums, -self._most, self._most), values

    def settle(self, cap: int) -> None:
        """θ is final: keep sums instead of values. (Call it once: sums must not be truncated.)"""
        if self.cap is not None:
            return
        ticks, units = self._joined()
        self._events = _LoggedEvents([ticks], [truncated_sums_of_log(units, cap)], ordered=True)
        units.fill(0)
        self.cap = cap
        self._fold()

    def _joined(self) -> tuple[IntArray, IntArray]:
        """All events, ordered by tick."""
        some, pieces, ordered = self._events
        if len(some) != 1 or not ordered:
            ticks = np.concatenate((NO_SUMS, *some))
            order, whole = np.argsort(ticks, kind="stable"), np.concatenate((NO_SUMS, *pieces))
            self._events = _LoggedEvents([ticks[order]], [whole[order]], ordered=True)
            for piece in (*pieces, whole):
                piece.fill(0)
        return self._events.ticks[0], self._events.units[0]

    def _fold(self) -> None:
        """Add up each tick; if the sum of one does not fit 64 bits, keep all events as they are."""
        ticks, units = self._joined()
        known, at = np.unique(ticks, return_inverse=True)
        sums = added_to_log(at.reshape(-1), units, known.size)
        if np.abs(sums).max(initial=0) >= _MOST_SUM:
            return
        self._events = _LoggedEvents([known], [sums], ordered=True)

    def state(self) -> dict[str, Any]:
        """The state; the same for any order of the same events."""
        if self.cap is not None:
            self._fold()
        ticks, units = self._joined()
        order = np.lexsort((units, ticks))
        return {"cap": self.cap, "ticks": ticks[order], "units": units[order]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state."""
        self.cap = state["cap"]
        ticks, units = state["ticks"].copy(), state["units"].copy()
        self._events = _LoggedEvents([ticks], [units], ordered=True)  # `state` sorts them


def added_to_log(places: IntArray, units: IntArray, count: int) -> IntArray:
    """The sum of the units at each of `count` places, clamped to ±2⁶².

    Privacy: a sum that wrapped round would move by far more than the event that makes it. So where
    64 bits may not be enough the halves of the numbers are added up apart; there are fewer than
    2³¹ of them. A sum that was cut must not be added to: what comes later may have another sign.
    """
    sums: IntArray = np.zeros(count, dtype=np.int64)
    largest = int(np.abs(units).max(initial=0))
    if largest * units.size < _MOST_SUM:
        np.add.at(sums, places, units)
        return sums
    np.add.at(sums, places, units & _LOW)
    high: IntArray = np.zeros(count, dtype=np.int64)
    np.add.at(high, places, units >> _HALF)
    high += sums >> _HALF
    whole: IntArray = (np.clip(high, -_MOST_HIGH - 1, _MOST_HIGH) << _HALF) + (sums & _LOW)
    return np.clip(whole, -_MOST_SUM, _MOST_SUM)


def truncated_sums_of_log(units: IntArray, cap: int, known: int | None = None) -> IntArray:
    """Truncate single values to [−`cap`, `cap`]; sums of truncated values stay as they are."""
    return units if known is not None else np.clip(units, -cap, cap)
