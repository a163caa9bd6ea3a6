"""Sums over ranges of time; late rows count at their own time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tidegate.lattice import IntArray
from tidegate.record.answers import Answers
from tidegate.record.late_rows import counted_by_time, moves
from tidegate.record.time_ranges import Moment, TimeTable, asked, check_rows, edges, reach

if TYPE_CHECKING:
    from tidegate.record.record import Record


def between(
    record: Record, from_: Moment | None, to: Moment | None, confidence: float, as_of: int | None
) -> Answers:
    """The sum of all rows with from ≤ time < to.

    Raises:
        QueryError: there is no such row.
    """
    index = record.time_index
    cuts = asked(index, from_, to)
    places = index.positions(cuts)
    sums = record.answers(places[:-1], places[1:], confidence, as_of)
    found, rows = with_late_rows(sums, [record], cuts, [places], as_of)
    check_rows(index, rows)
    return found


def table_of(
    record: Record, every: str, from_: Moment | None, to: Moment | None, confidence: float
) -> TimeTable:
    """The sums over the parts of a range of time.

    Raises:
        QueryError: there is no row in all of it.
    """
    cuts = edges(record.time_index, every, from_, to)
    found = table_between(record, cuts, confidence)
    check_rows(record.time_index, found.rows)
    return found


def table_between(record: Record, cuts: IntArray, confidence: float) -> TimeTable:
    """The sums between these times."""
    places = places_of(record, cuts)
    sums = record.answers(places[:-1], places[1:], confidence, None)
    found, rows = with_late_rows(sums, [record], cuts, [places])
    return TimeTable(found, cuts, record.time_index.clock, rows)


def places_of(record: Record, cuts: IntArray) -> IntArray:
    """The positions between which the record has rows of these times."""
    found: IntArray = np.clip(record.time_index.positions(cuts), record.start, record.end)
    return found


def with_late_rows(
    sums: Answers,
    records: Sequence[Record],
    cuts: IntArray,
    places: Sequence[IntArray],
    as_of: int | None = None,
) -> tuple[Answers, IntArray]:
    """Sums between times, over all these records, with late rows where their own time lies.

    Returns:
        The sums with their notes, and how many rows each has.
    """
    rows, late, notes = sums.end - sums.start, 0, []
    for record, at in zip(records, places, strict=True):
        end = record.end if as_of is None else as_of
        moved = moves(record.time_index, cuts, at, (record.start, end))
        ask = partial(record.answers, confidence=sums.confidence, as_of=as_of)
        sums, won = counted_by_time(sums, moved, ask)
        rows, late = rows + won, late + int((moved.end - moved.start).sum())
    if late:
        notes.append(f"{late:,} late rows count where their own time lies.")
    if len(records) == 1:
        notes.append(reach(records[0].time_index, cuts))
    note = " ".join(filter(None, notes))
    return (replace(sums, note=note) if note else sums), rows
