"""How much data chose each threshold: the share of values that lie above it.

A release that refines its threshold has a phase, and a segment, for each choice. Everything here is
computed from positions, layouts, thresholds and released sums: public, and free.

A choice for a stretch of N values wants 25/(ε·N) of them above θ. From m values that pay the share
s of ε it sees no fewer than 3/(s·ε·m), and extrapolates. So the share of values above θ lies around
the geometric mean of the two, while the stream stays as it is: far more in the first phases of a
release than in the last one.

Phases that come from one warm-up chose θ for shares that became smaller and smaller. How θ grew
meanwhile says how heavy the tail is: ln θ grows by 1/κ of −ln(share) for a tail of index κ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from tidegate.estimate.mixture.portable_exp_and_log import exp, log
from tidegate.record.segments.segment import Segment
from tidegate.stages import NO_AIM, Aim, Block, BlockBudgets, late_from

# Values above θ that a choice can tell from none, in 1/ε of it, and that it wants of a stretch, in
# 1/ε of the release (`TailQuantile`); never more than this share of the values.
_VISIBLE, _WANTED, _MOST = 3.0, 25.0, 0.25
# A late choice has a price of up to so many 1/ε, and is thought to leave so many times that.
_LATE_STEEP, _LATE_TIMES = 10.0, 1.5
# The stretch is this many times the values since the warm-up (`Refinement`).
_STRETCH = 16
# A window is about this part of the values since the warm-up, and pays at least a quarter of ε.
_WINDOW, _LATE_SHARE = 0.7, 0.25
# A cap that was full is kept if its choice knew this many times as much as that of the warm-up.
_FAR_MORE = 4
# 1/κ above which a tail counts as heavy, how much it widens, and between which limits (logarithms);
# shares that differ by less than the last number tell nothing.
_HEAVY, _WIDER, _LEAST, _HIGHEST, _APART = 0.7, 2.0, -1.1, 1.0, 1.5


def evidence_aims(segments: Sequence[Segment], as_of: int | None) -> list[Aim]:
    """One for each segment; `as_of`: from what was released up to that position."""
    trees = segments[-1].method.budgets
    if trees is None:  # θ is not refined
        return [NO_AIM] * len(segments)
    epsilon = float(trees.epsilon)
    until = segments[-1].end if as_of is None else as_of
    seen: list[float] = []  # shares above θ that the choices could see
    shares: list[float] = []
    lineage: list[int] = []  # where the warm-up began that a phase comes from
    warm: list[bool] = []  # whether a phase begins with a warm-up
    begun, part = 0, _LATE_SHARE
    chosen, opened = True, 0  # whether a window was open at a phase's end; where it opened late
    for number, segment in enumerate(segments):
        visible = share = 0.0
        again = False
        if segment.measured and segment.blocks and segment.start < max(until, 1):
            first = segment.blocks[0]
            sums = _part_for_sums(segment, first, trees)
            again = first.start == segment.origin and sums < 0
            values: float = first.layout.length
            if again:
                visible = _visible((1.0 + sums) * epsilon * values)
            if again and number and _kept(segments[number - 1], segment, seen[-1], visible):
                visible, share = seen[-1], shares[-1]
            elif not again and not chosen and seen:  # the level had risen: a window, and θ stayed
                visible, share, opened = seen[-1], shares[-1], segment.origin
            else:
                if again:
                    begun, part, age = segment.origin, 1.0 + sums, first.layout.length
                else:
                    age = segment.origin - begun
                    values = segment.origin - opened if opened else _WINDOW * age
                    visible = _visible(part * epsilon * values)
                    if segment.origin > late_from(trees.horizon) and number and not opened:
                        visible = min(_MOST, visible * _late_times(segments[number - 1], visible))
                opened = 0
                stretch = max(1, min(trees.horizon, _STRETCH * age))
                share = math.sqrt(visible * min(_MOST, _WANTED / (epsilon * stretch)))
            sums = _part_for_sums(segment, segment.blocks[-1], trees)
            part, chosen = max(_LATE_SHARE, 1.0 - abs(sums)), abs(sums) < 1
        seen.append(visible)
        shares.append(share)
        lineage.append(begun)
        warm.append(again)
    found = []
    for number, share in enumerate(shares):
        same = [at for at, begun in enumerate(lineage) if begun == lineage[number] and seen[at]]
        later = _later(segments, number, warm, until)
        wider = _wider(segments, same, seen) if same and number != same[-1] else 1.0
        found.append(Aim(share, wider, *later) if share else NO_AIM)
    return found


def _visible(evidence: float) -> float:
    """The share above θ that a choice can see, by its ε × values."""
    return min(_MOST, _VISIBLE / max(evidence, 1e-9))


def _late_times(before: Segment, visible: float) -> float:
    """How many times as many values a late choice leaves above θ, for its price (`late_price`)."""
    if before.below or not before.blocks:
        return 1.0
    mean = _mean_by(before, before.end)
    folds = -float(log(np.array([min(1.0, visible)]))[0])
    price = _LATE_STEEP * mean / before.threshold * folds
    return max(1.0, _LATE_TIMES * min(_LATE_STEEP, price) / _VISIBLE)


def _kept(before: Segment, segment: Segment, saw: float, sees: float) -> bool:
    """Whether a warm-up kept the cap that was full, which a choice that knew far more had made."""
    if not (before.measured and before.blocks and saw) or segment.below != before.below:
        return False
    cap = max(before.threshold, before.blocks[-1].layout.cap)
    return segment.threshold in (cap, before.threshold) and sees > _FAR_MORE * saw


def _later(
    segments: Sequence[Segment], number: int, warm: list[bool], until: int
) -> tuple[float, float]:
    """Means of later phases: the highest with a higher cap, and that which a full cap began."""
    cap, highest = segments[number].highest_cap, 0.0
    for at in range(number + 1, len(segments)):
        if warm[at]:  # the level has grown: what is higher from here on was not hidden before
            following = _mean_by(segments[at], until) if at == number + 1 else 0.0
            return highest, following
        if segments[at].measured and segments[at].highest_cap > cap:
            highest = max(highest, _mean_by(segments[at], until))
    return highest, 0.0


def _wider(segments: Sequence[Segment], same: list[int], seen: list[float]) -> float:
    """How far the tail moves the upper end, from the first and the last phase.

    Only that of earlier phases: how far values lie above the highest θ no other θ can tell.
    """
    first, last = same[0], same[-1]
    if seen[first] < _APART * seen[last]:
        return 1.0
    ends = (_scale(segments[at]) for at in (last, first))
    return _heaviness(*ends, seen[first] / seen[last])


def _scale(segment: Segment) -> int:
    """What was chosen by the sizes of values: θ, or the larger of both ends."""
    return max(segment.threshold - segment.below, segment.below)


@lru_cache(maxsize=256)
def _heaviness(last: int, first: int, ratio: float) -> float:
    grown, fewer = log(np.array([last / first, ratio])).tolist()
    wider = min(max(_WIDER * (grown / fewer - _HEAVY), _LEAST), _HIGHEST)
    return float(exp(np.array([wider]))[0])


def _part_for_sums(segment: Segment, block: Block, trees: BlockBudgets) -> float:
    """The part of ε that the sums of a block were measured with; below 0: of a warm-up."""
    ceiling = segment.method.ceiling + segment.below
    return float(trees.part_of(block.choice, block.layout.length, segment.threshold, ceiling))


def _mean_by(segment: Segment, until: int) -> float:
    """The mean of the leaves that were released up to a position, in units; 0: none were."""
    leaves = segment.leaves
    for block in reversed(segment.blocks):
        if block.start < until:
            done = block.layout.leaves_by(min(until, segment.end) - block.start)
            values = block.start + block.layout.edge(done) - segment.start
            last, first = leaves.sums(np.array([block.first + done, leaves.oldest])).tolist()
            return float(last - first) / values if values else 0.0
    return 0.0
