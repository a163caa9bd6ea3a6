"""Events by key: an event log for each key, and sums per tick of a common clock."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.clock import Clock
from tidegate.errors import InputError
from tidegate.keyed.event_object_engine import EventObjectEngine
from tidegate.keyed.keyed_release import KeyedRelease
from tidegate.keyed.keyed_rows import KeyedRows
from tidegate.lattice import IntArray
from tidegate.ownership import handing_over
from tidegate.record.times.time_ranges_and_tables import Moment
from tidegate.run.event_ticks import Ticks, check_event_values
from tidegate.tables.table_input import refuse_numbers_in_table, refuse_times_in_table
from tidegate.timestamps import Times

_AT_ONCE = 1 << 18  # rows that are released together
_FORM = "push(keys, times, values)"


class KeyedEventRelease(KeyedRelease):
    """`push` takes events of any keys, `advance` releases the ticks that are over, for every key.

    What an event may change. All declared keys have a row for every tick, with or without events:
    that a key has an event at all is protected, too. Rows come out when `advance` is called, and as
    many as its argument and the declared keys say. An event goes to the stream of its own key, or
    nowhere: if its key is not declared or has ended, or if its tick is released. Each of these
    depends on that event and on public facts alone, so it is dropped and never refused.

    Attributes of an event release hold for every key: see `tidegate.run.event_release`.
    """

    @property
    def ticks(self) -> Ticks:
        """The clock of all keys."""
        if self._pipeline.ticks is None:
            raise AssertionError("the pipeline was checked")
        return self._pipeline.ticks

    @property
    def clock(self) -> Clock:
        """The clock that writes times: that of `start`, in whatever form events arrive."""
        return self._clock or self.ticks.clock

    @property
    def late(self) -> int:
        """How many events came after the release of their tick. For the operator: not private."""
        with self._ownership.lock:  # a push of another thread adds keys
            return self._events.late()

    @property
    def _events(self) -> EventObjectEngine:
        if not isinstance(self._engine, EventObjectEngine):
            raise AssertionError("events have an engine of their own")
        return self._engine

    @handing_over
    def push(  # type: ignore[override]  # nothing comes out of it
        self, keys: Any, times: Any, values: Any = None
    ) -> None:
        """Take events: key and time of each, and a value unless events are counted.

        In any order. Nothing comes out: `advance` does that. Times as numbers since 1970 are given
        as `tidegate.read_times(numbers, by_order=False)`: plain numbers are taken for values.

        Raises:
            InputError: a value is not a number, or a time none. None of this push was taken then.
        """
        refuse_numbers_in_table(times, _FORM, 0)  # positions count within a push: see `Ticks.read`
        refuse_times_in_table(values, _FORM, 0)
        check_event_values(self._pipeline, values)
        self.push_rows(keys, values, times)

    @handing_over
    def push_rows(self, keys: Any, values: Any, times: Any = None, late: str = "keep") -> KeyedRows:
        """Take events, for callers that push rows; return no rows."""
        return super().push_rows(keys, values, times, "keep")

    @handing_over
    def advance(self, until: Moment) -> KeyedRows:
        """Release every tick that is over at `until`, for all keys: rows by time, then by key.

        Call it when the clock says so, never with a time that was read off the events.
        """
        return self.close_ticks(self.ticks.complete(until))

    @property
    def ticks_over(self) -> int:
        """The number of released ticks, of the key with most."""
        return max(self._events.positions().tolist(), default=0)

    def ends_until(self, until: Moment) -> list[int]:
        """Numbers of ticks for `close_ticks`, in pieces that fit into memory, up to a time."""
        return self.ends_before(self.ticks.complete(until))

    def ends_before(self, end: int) -> list[int]:
        """Numbers of ticks for `close_ticks`, in pieces that fit into memory, up to `end`."""
        keys = self._open_codes()
        first = min(self._events.positions()[keys].tolist(), default=end)
        size = max(1, _AT_ONCE // max(1, len(keys)))
        return [*range(first + size, end, size), end] if end > first else []

    @handing_over
    def close_ticks(self, end: int) -> KeyedRows:
        """Release the ticks before number `end`."""
        return self._ownership.whole(lambda: self._advanced(end))

    @handing_over
    def finish(self, until: Moment | None = None) -> KeyedRows:  # type: ignore[override]
        """`advance`, then end open warm-ups: for a log that is over."""
        end = 0 if until is None else self.ticks.complete(until)
        rows = self.close_ticks(end)
        super().finish()
        return rows

    # -- inside ----------------------------------------------------------------------------------

    def _open_codes(self) -> list[int]:
        return [code for code in range(len(self._names)) if code not in self._ended]

    def _advanced(self, end: int) -> KeyedRows:
        engine, codes = self._events, self._open_codes()
        parts = [engine.advance(code, end) for code in codes]
        sizes = np.array([part.values.size for part in parts], dtype=np.int64)
        self._clock = self.clock
        times = _joined_keyed_events(
            [self.ticks.times(one.first, one.first + one.values.size) for one in parts]
        )
        order = np.argsort(times, kind="stable")  # by time, then by key
        positions = _joined_keyed_events(
            [np.arange(one.first, one.first + one.values.size) for one in parts]
        )
        self.changed.update(np.unique(np.array(codes, dtype=np.int64) // engine.PAGE).tolist())
        return KeyedRows(
            self._names.names,
            np.repeat(np.array(codes, dtype=np.int64), sizes)[order],
            positions[order],
            np.concatenate([np.zeros(0), *(one.values for one in parts)])[order],
            np.concatenate([np.zeros(0), *(one.levels for one in parts)])[order],
            times[order],
            self._clock,
        )

    def _checked(
        self, keys: Any, values: Any, times: Any
    ) -> tuple[NDArray[Any], IntArray, Times | None]:
        if times is None:
            raise InputError("an event has a time: give times")
        when = Times(self.ticks.read(times).ticks, self.clock)
        if values is None:
            values = np.ones(when.ticks.size, dtype=np.int64)
        numbers = self._pipeline.lattice.numbers(values, 0)
        if when.ticks.size != numbers.size:
            raise InputError(f"{numbers.size} values but {when.ticks.size} times")
        codes = self._names.codes(keys, numbers.size, 0)
        if self._ended:  # dropped: a refusal would tell that there was an event
            codes = np.where(np.isin(codes, list(self._ended)), -1, codes)
        return numbers, codes, when


def _joined_keyed_events(parts: list[IntArray]) -> IntArray:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])
