"""The public bounds of values: what sums cannot exceed, and what values beyond them count as.

Every row counts as a number from `lower` to `bound`, whatever it is: rows × lower ≤ sum ≤ rows ×
bound holds for sure. An end of an interval that lies outside says nothing, so it is put there. That
removes only sums that are impossible: an interval that held the true sum still does. The estimate
stays as it is, even outside: the estimates of parts then add up to that of the whole.

Bounds and numbers of rows are public, and intervals are computed from released data: it is free.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tidegate.lattice import IntArray
    from tidegate.record.answer import Answer
    from tidegate.record.range_queries_and_answers import Answers


def within_bounds(answers: Answers, rows: IntArray) -> Answers:
    """The same answers, with no end of an interval beyond what their rows can add up to.

    `low` ≤ `estimate` ≤ `high` stays. A tick of events has no largest sum: of these, only lower
    ends are moved, and only where no event counts below 0.
    """
    if answers.bound is None:
        return answers
    summed = answers.caps is not None and bool(np.isinf(answers.caps[:, 2]).any())  # events
    low, high, limit = answers.low, answers.high, answers.limit
    if not summed or not answers.lower:
        low = np.maximum(low, np.minimum(rows * answers.lower, answers.estimate))
    if not summed:
        most = np.maximum(rows * answers.bound, answers.estimate)
        high = np.minimum(high, most)
        limit = None if limit is None else np.minimum(limit, most)
    return replace(answers, low=low, high=high, limit=limit)


def beyond_bound(answers: Answer | Answers) -> str:
    """Where the cap has reached a bound, no interval can speak of what lies beyond it."""
    bound, lower = answers.bound, answers.lower
    if bound is None or (bound == 1 and _counts_events(answers)):
        return ""
    ends = []
    highest = answers.threshold if answers.highest is None else answers.highest
    if highest >= bound:
        ends.append(f"above the bound, {bound:g}")
    lowest = answers.floor if answers.lowest_floor is None else answers.lowest_floor
    if lower and lowest <= lower:
        ends.append(f"below the lower bound, {lower:g}")
    if not ends:
        return ""
    return f"Values {' or '.join(ends)}, count as the bound: intervals leave out what that cuts."


def _counts_events(answers: Answer | Answers) -> bool:
    """Whether ticks of events were released: there is no level at which all of one are cut."""
    caps, full = getattr(answers, "caps", None), getattr(answers, "full", None)
    return full == math.inf or (caps is not None and bool(np.isinf(caps[:, 2]).any()))
