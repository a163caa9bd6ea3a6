"""Events that have grown since θ was chosen: what their released number tells of the part cut off.

θ is chosen from the events of a warm-up or a window. A sum of later ticks does not tell larger
events from more of them; with their number N it does: h = sum/(θ·N) is the mean of a truncated
event in θ. Where h has surely risen since θ was chosen, and is a half and more, values lie above θ
that the choice has not seen. The upper end of a sum then reaches further by, for each event,

    h from 0.5 to 0.9:  x − h caps, where x·(1 − e^(−1/x)) = h: as if values were exponential
    h above 0.9:        up to the bound: nearly all events are cut, and nothing tells how much

Where events are counted by size (`run.event_sizes`) that tells more, and none of this is done.
Post-processing of two released records: free. Estimates stay.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tidegate.estimate.mixture.portable_exp_and_log import exp
from tidegate.lattice import FloatArray, IntArray
from tidegate.record.answer_text import text_with_notes
from tidegate.record.range_queries_and_answers import Answers
from tidegate.record.record import Record
from tidegate.record.segments.segment import Segment

NOTE = (
    "Events have grown since the cap was chosen: the upper end allows for what it may cut off. "
    "Released again, with a new budget, the cap would be chosen from the present ones."
)
_CONFIDENCE = 0.95  # any: only estimates and standard errors are used
# A segment is looked at in so many pieces, and in twos, fours, … of them.
_PIECES = 32
# Standard errors by which h must have risen: noise has heavier tails than normal errors, and 63
# pieces are looked at. And how large it must be; from where on nearly all events are cut.
_SURE, _LARGE, _FULL = 5.0, 0.5, 0.9
# A part whose h is lower, or has risen by less than half as much as that of the whole, by so many
# standard errors, has not grown.
_BELOW = 2.0


class GrownEvents(NamedTuple):
    """How much more than its estimate a sum may be, for events that have grown.

    Attributes:
        edges: positions of ticks.
        before: the same of all ticks before each of them, in the unit of the data.
    """

    edges: IntArray
    before: FloatArray

    @classmethod
    def of(cls, sums: Record, counts: Record) -> GrownEvents | None:
        """What both records tell; None: no event has grown."""
        edges, parts = [np.zeros(1, dtype=np.int64)], [np.zeros(1)]
        chosen: tuple[int, int] | None = None
        for before, segment in zip([None, *sums.segments[:-1]], sums.segments, strict=True):
            if before is None or before.threshold != segment.threshold:
                chosen = _ticks_that_chose(before, segment)
            pieces, excess = _excess_of_segment(sums, counts, chosen, segment)
            edges += [pieces[:1], pieces[1:]]
            parts += [np.zeros(1), excess]
        together = np.concatenate(parts)
        if not together.any():
            return None
        return cls(np.concatenate(edges), np.cumsum(together))

    def added(self, answers: Answers) -> Answers:
        """The answers, whose upper ends allow for it."""
        above, below = (
            np.interp(at, self.edges, self.before) for at in (answers.end, answers.start)
        )
        more = above - below
        if not more.any():
            return answers
        high = answers.high + more
        limit = None if answers.limit is None else np.maximum(answers.limit, high)
        return text_with_notes(replace(answers, high=high, limit=limit), NOTE)


def _excess_of_segment(
    sums: Record, counts: Record, chosen: tuple[int, int] | None, segment: Segment
) -> tuple[IntArray, FloatArray]:
    """Edges of pieces of a segment, and what each may lack."""
    start, end = max(segment.start, counts.start), min(segment.end, counts.end)
    nothing = np.array([start, max(start, end)]), np.zeros(1)
    theta, method = segment.threshold_value, segment.method
    room = method.ceiling * method.step / theta if theta > 0 else 1.0
    if end - start < 2 or room <= 1 or segment.below or chosen is None:
        return nothing
    if getattr(method.perturber, "sizes", False):  # cut events are counted: answers allow for them
        return nothing
    if not counts.start <= chosen[0] <= chosen[1] <= counts.end:  # of a run that was cut short
        return nothing
    edges = np.unique(np.linspace(start, end, _PIECES + 1).astype(np.int64))
    then, then_error, _ = _shares_of_cap(sums, counts, theta, *np.array(chosen)[:, np.newaxis])
    # From the whole to its parts: what each piece lacks, and h where that was seen.
    count = edges.size - 1
    each, seen, number = (np.zeros(count) for _ in range(3))
    for step in (1 << level for level in range((count - 1).bit_length(), -1, -1)):
        firsts = np.arange(0, count, step)
        lasts = np.minimum(firsts + step, count)
        share, error, number = _shares_of_cap(sums, counts, theta, edges[firsts], edges[lasts])
        risen = share - then[0] > _SURE * np.hypot(error, then_error[0])
        lacks = np.where(risen & (share >= _LARGE), _lacking(share, room), 0.0)
        wide = np.repeat(np.arange(firsts.size), lasts - firsts)
        low = (share + _BELOW * error)[wide] < np.maximum(_LARGE, (seen + then[0]) / 2)
        each[low], seen[low] = 0.0, 0.0
        more = lacks[wide] > each
        each[more], seen[more] = lacks[wide[more]], share[wide[more]]
    return edges, theta * each * np.maximum(number, 0.0)


def _ticks_that_chose(before: Segment | None, segment: Segment) -> tuple[int, int] | None:
    """The ticks from whose events θ was chosen; None: they are forgotten.

    A warm-up is the first block. A window lies in the later half of the segment before, or begins
    before that.
    """
    if before is not None:
        return (before.start + before.end) // 2, before.end
    if not segment.blocks or segment.blocks[0].start:
        return None
    return 0, segment.blocks[0].layout.length


def _shares_of_cap(
    sums: Record, counts: Record, theta: float, starts: IntArray, ends: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """h of ranges and its standard error, infinite where there may be no event; and numbers."""
    total = sums.answers(starts, ends, _CONFIDENCE, None)
    number = counts.answers(starts, ends, _CONFIDENCE, None)
    errors = [np.hypot(one.noise_error, one.prediction_error) for one in (total, number)]
    some = number.low > 0
    counted = np.where(some, number.estimate, 1.0)
    share = total.estimate / (theta * counted)
    error = np.hypot(errors[0] / (theta * counted), share * errors[1] / counted)
    return share, np.where(some, error, math.inf), number.estimate


def _lacking(shares: FloatArray, room: float) -> FloatArray:
    """What an event may lack, in caps, by h; `room`: the bound in caps."""
    known = np.clip(shares, _LARGE, _FULL)
    low, high = known.copy(), np.full(known.size, 1 / (1 - _FULL))
    for _ in range(40):  # x·(1 − e^(−1/x)) rises from 0 to 1
        middle = (low + high) / 2
        below = middle * (1 - exp(-1 / middle)) < known
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    most = np.maximum(room - shares, 0.0)
    found: FloatArray = np.where(shares >= _FULL, most, np.minimum(low - known, most))
    return found
