"""Sums over ranges of time; late rows count at their own time.

A record is by position, and a range of time is a range of positions, but for rows that came late
(`late="keep"`). Row p with time t stands among later rows:

    part of time      0 · · · · ·|1 · · · · p · ·|2 · · ·
    its own time t        t

The sum of part 0 gets the estimate for [p, p + 1), the sum of part 1 loses it. Neighbours that move
together are moved as one range. Errors of a moved range and of a sum are correlated, in ways that
no record keeps, so they are added and not their squares: a standard deviation of a sum is at most
the sum of the standard deviations. The interval is too wide rather than too narrow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidegate.clock import Clock
from tidegate.errors import QueryError
from tidegate.lattice import FloatArray, IntArray
from tidegate.record.answer_text import text_with_notes
from tidegate.record.range_queries_and_answers import Answers
from tidegate.record.times.ticks_cut_by_ranges import check_part_length, cut_ticks
from tidegate.record.times.time_index import TimeIndex
from tidegate.record.times.time_ranges_and_tables import (
    Moment,
    TimeTable,
    check_rows_in_time_range,
    edges_of_time_range,
    shortest_part,
    time_range_asked_for,
    time_range_beyond_rows,
)

if TYPE_CHECKING:
    from tidegate.record.record import Record

Ask = Callable[[IntArray, IntArray], Answers]


class TimeMoves(NamedTuple):
    """Ranges of positions that count in another part than that of their position."""

    start: IntArray
    end: IntArray
    source: IntArray  # parts; outside of all of them: -1 or their number
    target: IntArray


_NONE: IntArray = np.zeros(0, dtype=np.int64)
_NOTHING = TimeMoves(_NONE, _NONE, _NONE, _NONE)


def sums_of_moves(
    index: TimeIndex, cuts: IntArray, places: IntArray, known: tuple[int, int]
) -> TimeMoves:
    """The sums that late rows move between parts, cut at `cuts` (times) and `places` (positions).

    Only rows at the positions [known[0], known[1]) are looked at.
    """
    late = index.late
    if not late.places.size:
        return _NOTHING
    inside = (late.places >= known[0]) & (late.places < known[1])
    at, ticks = late.places[inside], late.ticks[inside]
    source = np.searchsorted(places, at, side="right") - 1
    target = np.searchsorted(cuts, ticks, side="right") - 1
    moved = source != target
    at, source, target = at[moved], source[moved], target[moved]
    joined = (np.diff(at) == 1) & (np.diff(source) == 0) & (np.diff(target) == 0)
    first = np.flatnonzero(np.concatenate(([True], ~joined))) if at.size else at
    last = np.append(first[1:], at.size) - 1 if at.size else at
    return TimeMoves(at[first], at[last] + 1, source[first], target[first])


def counted_by_time(sums: Answers, moved: TimeMoves, ask: Ask) -> tuple[Answers, IntArray]:
    """The sums of the parts with late rows at their own times, and how many rows each gains."""
    parts = len(sums)
    if not moved.start.size:
        return sums, np.zeros(parts, dtype=np.int64)
    found = ask(moved.start, moved.end)
    size = (moved.end - moved.start).astype(np.float64)
    leaves = (moved.source >= 0) & (moved.source < parts)
    joins = (moved.target >= 0) & (moved.target < parts)

    def won(of: FloatArray) -> FloatArray:
        return np.bincount(moved.target[joins], of[joins], parts).astype(np.float64)

    def lost(of: FloatArray) -> FloatArray:
        return np.bincount(moved.source[leaves], of[leaves], parts).astype(np.float64)

    def change(of: FloatArray) -> FloatArray:
        return won(of) - lost(of)

    below, above = found.estimate - found.low, found.high - found.estimate
    estimate = sums.estimate + change(found.estimate)
    errors = {
        name: getattr(sums, name) + won(getattr(found, name)) + lost(getattr(found, name))
        for name in ("noise_error", "prediction_error", "truncation_error")
    }
    caps = sums.caps
    if caps is not None and found.caps is not None:
        caps = caps.copy()
        for column in (2, 5):  # sums of thresholds and floors
            caps[:, column] += change(found.caps[:, column])
        for column, extreme in ((0, np.minimum), (1, np.maximum), (3, np.maximum), (4, np.minimum)):
            extreme.at(caps[:, column], moved.target[joins], found.caps[joins, column])
    unseen = sums.unseen
    if found.unseen is not None:  # of the rows that join; those that leave may have less of it
        unseen = won(found.unseen) if unseen is None else unseen + won(found.unseen)
    result = replace(
        sums,
        estimate=estimate,
        low=estimate - (sums.estimate - sums.low) - won(below) - lost(above),
        high=estimate + (sums.high - sums.estimate) + won(above) + lost(below),
        caps=caps,
        unseen=unseen,
        threshold=min(sums.threshold, found.threshold),
        capped=sums.capped or found.capped,
        **errors,
    )
    return result, np.rint(change(size)).astype(np.int64)


def sum_between_times(
    record: Record, from_: Moment | None, to: Moment | None, confidence: float, as_of: int | None
) -> Answers:
    """The sum of all rows with from ≤ time < to.

    Raises:
        QueryError: there is no such row.
    """
    index = record.time_index
    cuts = time_range_asked_for(index, from_, to)
    return replace(
        cuts_between_times(record, cuts, confidence, as_of),
        span=words_of_sums_between_times(index, cuts, to),
    )


def cuts_between_times(
    record: Record, cuts: IntArray, confidence: float, as_of: int | None
) -> Answers:
    """The cuts between two times in nanoseconds."""
    index = record.time_index
    check_sums_between_times_are_known([record], int(cuts[0]))
    places = index.positions(cuts)
    sums = record.answers(places[:-1], places[1:], confidence, as_of)
    found, rows = sums_with_late_rows(sums, [record], cuts, [places], as_of)
    check_rows_in_time_range(index, rows)
    return found


def words_of_sums_between_times(index: TimeIndex, cuts: IntArray, to: Moment | None) -> str:
    """A range of time as text, for a query by time."""
    if to is None:  # the cut lies a moment after the last row
        first, last = _time_text(index, int(cuts[0])), _time_text(index, index.last_time)
        return f"{first} to the last row, at {last}"
    return f"{_time_text(index, int(cuts[0]))} to {_time_text(index, int(cuts[-1]))}"


def sums_between_times_by(
    record: Record, every: str, from_: Moment | None, to: Moment | None, confidence: float
) -> TimeTable:
    """The sums over the parts of a range of time.

    Raises:
        QueryError: there is no row in all of it, or the record has forgotten some of its rows.
    """
    cuts, note = known_edges_of_sums([record], record.time_index, every, from_, to)
    found = table_between_times(record, cuts, confidence, note)
    check_rows_in_time_range(record.time_index, found.rows)
    return found


def table_between_times(
    record: Record,
    cuts: IntArray,
    confidence: float,
    note: str = "",
    places: IntArray | None = None,
) -> TimeTable:
    """The sums between these times, which the record must know; `places`: `places_of_sums`."""
    places = places_of_sums(record, cuts) if places is None else places
    sums = record.answers(places[:-1], places[1:], confidence, None)
    found, rows = sums_with_late_rows(text_with_notes(sums, note), [record], cuts, [places])
    return TimeTable(found, cuts, record.time_index.clock, rows)


def known_edges_of_sums(
    records: Sequence[Record], index: TimeIndex, every: str, from_: Moment | None, to: Moment | None
) -> tuple[IntArray, str]:
    """The edges of the parts that all records know completely, and a note about the others.

    A record keeps the last `history` values. A part with a value that it has forgotten has no sum:
    the rest of its values would be taken for all of them, and none of them for 0.

    Raises:
        QueryError: `from_` is older than a record, no part is whole, or a part is shorter than a
            tick.
    """
    check_part_length(records, shortest_part(every))
    begin = sums_forgotten_until(records)
    cuts = edges_of_time_range(index, every, from_, to, begin)
    if begin is None:
        return cuts, ""
    if from_ is not None:
        check_sums_between_times_are_known(records, int(cuts[0]))
        return cuts, ""
    whole = np.ones(cuts.size, dtype=np.bool_)
    for record in records:
        if _forgets_sums(record):
            whole &= record.time_index.positions(cuts) >= record.start
    if int(whole.sum()) < 2:
        raise QueryError(
            f"every: no part is whole: {_begins_at(index, begin)}. Ask for shorter parts, or "
            "keep more with `history`"
        )
    left, kept = cuts[~whole], cuts[whole]
    if not left.size and int(kept[0]) <= index.first_time:
        return kept, ""
    first = _time_text(index, int(kept[0]))
    return kept, f"Parts before {first} are left out: {_begins_at(index, begin)}."


def check_sums_between_times_are_known(records: Sequence[Record], first: int) -> None:
    """Refuse a range of time that begins before the oldest rows of a record."""
    for record in records:
        index = record.time_index
        if _forgets_sums(record) and int(index.positions(np.array([first]))[0]) < record.start:
            begin = sums_forgotten_until([record])
            raise QueryError(
                f"the range is older than the record: {_begins_at(index, begin or 0)}. Ask from "
                "later on, keep more with `history`, or ask a stored record or the released file"
            )


def sums_forgotten_until(records: Sequence[Record]) -> int | None:
    """The time of the first row that all of these still know. None: they know every row."""
    found = []
    for record in filter(_forgets_sums, records):
        index = record.time_index
        known = record.start < index.end
        found.append(
            int(index.times(np.array([record.start]))[0]) if known else index.last_time + 1
        )
    return max(found) if found else None


def _forgets_sums(record: Record) -> bool:
    return record.start > record.time_index.start


def _begins_at(index: TimeIndex, begin: int) -> str:
    return f"the record begins at {_time_text(index, begin)}"


def _time_text(index: TimeIndex, tick: int) -> str:
    return Clock(index.clock.zone).texts(np.array([tick]))[0]


def places_of_sums(record: Record, cuts: IntArray) -> IntArray:
    """The positions at which these times divide the rows of the record."""
    found: IntArray = np.clip(record.time_index.positions(cuts), record.start, record.end)
    return found


def sums_with_late_rows(
    sums: Answers,
    records: Sequence[Record],
    cuts: IntArray,
    places: Sequence[IntArray],
    as_of: int | None = None,
) -> tuple[Answers, IntArray]:
    """Sums between times, over all these records, with late rows at their own times.

    Returns:
        The sums with their notes, and how many rows each has.
    """
    rows, late, notes = sums.end - sums.start, 0, []
    for record, at in zip(records, places, strict=True):
        end = record.end if as_of is None else as_of
        moved = sums_of_moves(record.time_index, cuts, at, (record.start, end))
        ask = partial(record.answers, confidence=sums.confidence, as_of=as_of)
        sums, won = counted_by_time(sums, moved, ask)
        rows, late = rows + won, late + int((moved.end - moved.start).sum())
    sums = sums.within_bounds(rows) if late else sums
    if late:
        notes.append(f"{late:,} late rows count where their own time lies.")
    notes.append(cut_ticks(records, cuts))
    if len(records) == 1:
        notes.append(time_range_beyond_rows(records[0].time_index, cuts))
    return text_with_notes(sums, *notes), rows
