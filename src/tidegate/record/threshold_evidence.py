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
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tidegate.estimate.mixture.portable_exp_and_log import exp, log
from tidegate.lattice import Lattice
from tidegate.record.levels_that_chose_ends import levels_that_chose
from tidegate.record.segments.segment import Segment
from tidegate.stages import NO_AIM, Aim, Block, BlockBudgets, late_from
from tidegate.stages.late_looks import is_look
from tidegate.threshold.bulk_of_values import MOST, sees_bulk
from tidegate.threshold.tail_quantile import TailQuantile

# Values above θ that a choice can tell from none, in 1/ε of it, and that it wants of a stretch, in
# 1/ε of the release (`TailQuantile`); never more than this share of the values.
_VISIBLE, _WANTED, _MOST = 3.0, 25.0, 0.25
# The highest price of a late choice, in 1/ε; it is expected to leave this many times that above θ.
_LATE_STEEP, _LATE_TIMES = 10.0, 1.5
# The stretch is this many times the values since the warm-up (`Refinement`).
_STRETCH = 16
# A window is about this part of the values since the warm-up, and pays at least a quarter of ε.
_WINDOW, _LATE_SHARE = 0.7, 0.25
# A later warm-up pays this part of ε for its choice, a first one more. If that looked for the bulk
# (`bulk_of_values`), it leaves about this share of the values above θ: what costs it nothing.
_AGAIN, _BULK_LEFT = Fraction(1, 2), float(MOST)
# A cap that was full is kept if its choice knew this many times as much as that of the warm-up.
_FAR_MORE = 4
# 1/κ above which a tail counts as heavy, how much it widens, and between which limits (logarithms);
# shares that differ by less than the last number tell nothing.
_HEAVY, _WIDER, _LEAST, _HIGHEST, _APART = 0.7, 2.0, -1.1, 1.0, 1.5


class _PhaseEvidence(NamedTuple):
    """What the choice of a phase's θ could see."""

    visible: float = 0.0  # the smallest share above θ that it could see
    share: float = 0.0  # the share above θ that it aimed at
    warm_up: int = 0  # where the warm-up that led to the phase began
    warm: bool = False  # whether the phase begins with a warm-up itself
    left: float = 1.0  # the share above θ that the choice leaves, whatever it could see


def evidence_aims(segments: Sequence[Segment], as_of: int | None) -> list[Aim]:
    """The aim of each segment's θ; `as_of`: from what was released up to that position."""
    trees = segments[-1].method.budgets
    if trees is None:  # θ is not refined
        return [NO_AIM] * len(segments)
    until = segments[-1].end if as_of is None else as_of
    phases = _evidence_phases_in_order(segments, trees, until)
    seen, warm = [phase.visible for phase in phases], [phase.warm for phase in phases]
    bands = levels_that_chose(segments, trees, max(until, 1))
    found = []
    for number, phase in enumerate(phases):
        same = [at for at, one in enumerate(phases) if one.warm_up == phase.warm_up and seen[at]]
        later = _later_evidence(segments, number, warm, until)
        wider = _wider_by_evidence(segments, same, seen) if same and number != same[-1] else 1.0
        if not phase.share:
            found.append(NO_AIM)
            continue
        left = min(phase.share, phase.left)
        found.append(Aim(phase.share, wider, *later, *bands[number], left))
    return found


def _evidence_phases_in_order(
    segments: Sequence[Segment], trees: BlockBudgets, until: int
) -> list[_PhaseEvidence]:
    walk, found = _EvidenceWalk(trees), list[_PhaseEvidence]()
    for number, segment in enumerate(segments):
        if segment.measured and segment.blocks and segment.start < max(until, 1):
            earlier = (segments[number - 1], found[-1]) if number else None
            found.append(walk.phase(segment, earlier))
        else:
            found.append(_PhaseEvidence(warm_up=walk.warm_up))
    return found


class _EvidenceWalk:
    """Visits the phases in order: each determines what the next choice could see.

    Attributes:
        warm_up: where the last warm-up began.
    """

    def __init__(self, trees: BlockBudgets) -> None:
        self._trees, self._epsilon = trees, float(trees.epsilon)
        self.warm_up = 0
        self._part = _LATE_SHARE  # share of ε of the next choice
        self._chosen = True  # whether a window was open at the end of the phase
        self._opened = 0  # where a window opened late; 0: it did not

    def phase(
        self, segment: Segment, earlier: tuple[Segment, _PhaseEvidence] | None
    ) -> _PhaseEvidence:
        """What the choice of this segment's θ could see; `earlier` is the segment before."""
        first = segment.blocks[0]
        sums = _part_for_sums(segment, first, self._trees)
        warm = first.start == segment.origin and sums < 0
        if warm:
            visible, share = self._after_warm_up(segment, 1.0 + float(sums), earlier)
        elif earlier is not None and not self._chosen:  # a risen level, or a look: θ stayed
            (visible, share), self._opened = earlier[1][:2], segment.origin
        else:
            visible, share = self._after_window(segment, earlier)
        bulk = warm and _evidence_saw_bulk(segment, self._trees, 1 + sums)
        sums = _part_for_sums(segment, segment.blocks[-1], self._trees)
        self._part = max(_LATE_SHARE, 1.0 - float(abs(sums)))
        self._chosen = abs(sums) < 1 and not is_look(1 - sums)
        return _PhaseEvidence(visible, share, self.warm_up, warm, _BULK_LEFT if bulk else 1.0)

    def _after_warm_up(
        self, segment: Segment, part: float, earlier: tuple[Segment, _PhaseEvidence] | None
    ) -> tuple[float, float]:
        """The evidence of a choice from a warm-up, unless a full cap was kept."""
        values = segment.blocks[0].layout.length
        visible = _visible_evidence(part * self._epsilon * values)
        if earlier is not None and _evidence_kept_cap(
            earlier[0], segment, earlier[1].visible, visible
        ):
            return earlier[1][:2]
        self.warm_up, self._opened = segment.origin, 0
        return visible, self._aimed_at(visible, values)

    def _after_window(
        self, segment: Segment, earlier: tuple[Segment, _PhaseEvidence] | None
    ) -> tuple[float, float]:
        """The evidence of a choice from the window before."""
        age = segment.origin - self.warm_up
        values = segment.origin - self._opened if self._opened else _WINDOW * age
        visible = _visible_evidence(self._part * self._epsilon * values)
        late = segment.origin > late_from(self._trees.horizon)
        if late and earlier is not None and not self._opened:
            visible = min(_MOST, visible * _evidence_of_late_choice(earlier[0], visible))
        self._opened = 0
        return visible, self._aimed_at(visible, age)

    def _aimed_at(self, visible: float, age: int) -> float:
        stretch = max(1, min(self._trees.horizon, _STRETCH * age))
        return math.sqrt(visible * min(_MOST, _WANTED / (self._epsilon * stretch)))


def _visible_evidence(evidence: float) -> float:
    """The smallest share above θ that a choice can see, from its ε × values."""
    return min(_MOST, _VISIBLE / max(evidence, 1e-9))


def _evidence_of_late_choice(before: Segment, visible: float) -> float:
    """The factor by which the price of a late choice leaves more values above θ (`late_price`)."""
    if before.below or not before.blocks:
        return 1.0
    mean = _mean_as_evidence(before, before.end)
    folds = -float(log(np.array([min(1.0, visible)]))[0])
    price = _LATE_STEEP * mean / before.threshold * folds
    return max(1.0, _LATE_TIMES * min(_LATE_STEEP, price) / _VISIBLE)


def _evidence_kept_cap(before: Segment, segment: Segment, saw: float, sees: float) -> bool:
    """Whether a warm-up kept the full cap, which a choice with far more evidence had made."""
    if not (before.measured and before.blocks and saw) or segment.below != before.below:
        return False
    cap = max(before.threshold, before.blocks[-1].layout.cap)
    return segment.threshold in (cap, before.threshold) and sees > _FAR_MORE * saw


def _later_evidence(
    segments: Sequence[Segment], number: int, warm: list[bool], until: int
) -> tuple[float, float]:
    """Means of later phases: the highest one with a higher cap, and that after a full cap."""
    cap, highest = segments[number].highest_cap, 0.0
    for at in range(number + 1, len(segments)):
        if warm[at]:  # the level has grown: what is higher from here on was not hidden before
            following = _mean_as_evidence(segments[at], until) if at == number + 1 else 0.0
            return highest, following
        if segments[at].measured and segments[at].highest_cap > cap:
            highest = max(highest, _mean_as_evidence(segments[at], until))
    return highest, 0.0


def _wider_by_evidence(segments: Sequence[Segment], same: list[int], seen: list[float]) -> float:
    """The factor by which the tail widens the upper end, from the first and the last phase.

    For earlier phases only: no other θ shows how far values lie above the highest θ.
    """
    first, last = same[0], same[-1]
    if seen[first] < _APART * seen[last]:
        return 1.0
    ends = (_evidence_scale(segments[at]) for at in (last, first))
    return _evidence_heaviness(*ends, seen[first] / seen[last])


def _evidence_scale(segment: Segment) -> int:
    """The number that was chosen: θ, or the larger of both caps."""
    return max(segment.threshold - segment.below, segment.below)


@lru_cache(maxsize=256)
def _evidence_heaviness(last: int, first: int, ratio: float) -> float:
    grown, fewer = log(np.array([last / first, ratio])).tolist()
    wider = min(max(_WIDER * (grown / fewer - _HEAVY), _LEAST), _HIGHEST)
    return float(exp(np.array([wider]))[0])


def _evidence_saw_bulk(segment: Segment, trees: BlockBudgets, part: Fraction) -> bool:
    """Whether a warm-up with this share of ε chose θ by where most values lie."""
    if segment.below or part <= _AGAIN:
        return False
    values = segment.blocks[0].layout.length
    places = -(-segment.method.ceiling // segment.method.grain)
    return _evidence_sees_bulk(part * trees.epsilon, values, trees.horizon, places)


@lru_cache(maxsize=256)
def _evidence_sees_bulk(epsilon: Fraction, values: int, horizon: int, top: int) -> bool:
    lattice = Lattice(Fraction(top), Fraction(1))
    stretch = max(1, min(horizon, _STRETCH * values))
    stage = TailQuantile(epsilon=epsilon, bound=top, holdout=values, horizon=stretch)
    return sees_bulk(stage, lattice)


def _part_for_sums(segment: Segment, block: Block, trees: BlockBudgets) -> Fraction:
    """The share of ε for the sums of a block; below 0: the block is a warm-up."""
    ceiling = segment.method.ceiling + segment.below
    return trees.part_of(block.choice, block.layout.length, segment.threshold, ceiling)


def _mean_as_evidence(segment: Segment, until: int) -> float:
    """The mean of the leaves released up to a position, in units; 0: none were."""
    leaves = segment.leaves
    for block in reversed(segment.blocks):
        if block.start < until:
            done = block.layout.leaves_by(min(until, segment.end) - block.start)
            values = block.start + block.layout.edge(done) - segment.start
            known = leaves.between(*np.array([[leaves.oldest], [block.first + done]]))
            return known.item() / values if values else 0.0
    return 0.0
