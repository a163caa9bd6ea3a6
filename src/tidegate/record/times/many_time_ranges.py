"""Sums over many ranges of time at once: `queries` with texts or dates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate.errors import QueryError
from tidegate.record.answer_text import text_with_notes
from tidegate.record.range_queries_and_answers import Answers
from tidegate.record.times.sums_between_times import (
    check_sums_between_times_are_known,
    cuts_between_times,
)
from tidegate.record.times.ticks_cut_by_ranges import cut_ticks
from tidegate.record.times.time_ranges_and_tables import ends_of_time_ranges

if TYPE_CHECKING:
    from tidegate.record.record import Record


def sums_of_many_time_ranges(
    record: Record, starts: Any, ends: Any, confidence: float, as_of: int | None
) -> Answers:
    """The sums over many ranges of time, start ≤ time < end.

    Raises:
        QueryError: a range has no row: 0 would be taken for an answer.
    """
    index = record.time_index
    first, last = (
        ends_of_time_ranges(index.clock, starts, "starts"),
        ends_of_time_ranges(index.clock, ends, "ends"),
    )
    if first.size != last.size:
        raise QueryError("starts and ends must have the same length")
    if (last < first).any():
        raise QueryError("starts must not be after ends")
    if not first.size:
        return record.answers(first, last, confidence, as_of)
    if index.late.places.size:  # each range counts late rows of its own
        pairs = zip(first.tolist(), last.tolist(), strict=True)
        return joined_ranges(
            [cuts_between_times(record, np.array(pair), confidence, as_of) for pair in pairs]
        )
    check_sums_between_times_are_known([record], int(first.min()))
    begin, end = index.positions(first), index.positions(last)
    for number in np.flatnonzero(begin == end)[:1].tolist():
        raise QueryError(f"no row lies in range {number}, counted from 0")
    cuts = np.concatenate((first, last))
    return text_with_notes(record.answers(begin, end, confidence, as_of), cut_ticks([record], cuts))


def joined_ranges(parts: Sequence[Answers]) -> Answers:
    """All ranges as one list, part after part."""
    whole: dict[str, Any] = {}
    for field in fields(Answers):
        each = [getattr(part, field.name) for part in parts]
        if field.name == "unseen" and any(one is not None for one in each):
            known = zip(parts, each, strict=True)
            each = [np.zeros(len(part)) if one is None else one for part, one in known]
        if isinstance(each[0], np.ndarray):
            whole[field.name] = np.concatenate(each)
    whole["threshold"] = min(part.threshold for part in parts)
    whole["capped"] = any(part.capped for part in parts)
    return replace(parts[0], **whole)
