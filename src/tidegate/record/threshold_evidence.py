"""How much data chose each threshold, and what a low threshold may hide.

A release that refines its threshold has a phase, and a segment, for each choice. Everything here is
computed from positions, layouts, thresholds and released sums: public, and free.

A choice for a stretch of N values wants 25/(ε·N) of them above θ. From m values that pay the share
s of ε it sees no fewer than 3/(s·ε·m), and extrapolates. So the share of values above θ lies around
the geometric mean of the two, while the stream stays as it is: far more in the first phases of a
release than in the last one.

Phases that come from one warm-up chose θ for shares that became smaller and smaller. How θ grew
meanwhile says how heavy the tail is: ln θ grows by 1/κ of −ln(share) for a tail of index κ.

How much larger a sum may be than its estimate, where too few values chose θ.

A choice of θ from few values cannot tell many large values from none. With ε′ its budget and W its
values, a number of them above θ up to (target + 3)/ε′, target ≥ 3, may lie anywhere up to the bound
without θ having been chosen higher. The released sum of a segment, as a share h of what it would be
if all values were cut, says how many values may lie above θ: hardly more than h.

- h·W·ε′ ≤ target + 3: all of the sum may come from values that were cut, and the true one may be
  up to bound/θ times as large. Values that are mostly 0 are of this kind.
- θ has *fallen*: it stayed where it began (`has_fallen`). A climb costs 3/ε′ values for each factor
  of e, so it is h·W·ε′ ≤ target + 3 + 3·ln(bound/θ) that says so then. A θ that has climbed was not
  stopped by that price halfway: where it began was cheaper still.

The upper end of an answer reaches as far as that (`Hidden.reach`). Elsewhere most of the sum is
seen, and the rest is what tails are like (`tidegate.estimate.mixture.truncated_tail`).

Everything here is computed from released sums and public settings: free.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tidegate.estimate.mixture.portable_math import exp, log
from tidegate.lattice import FloatArray, IntArray
from tidegate.record.segments.segment import Segment
from tidegate.stages import NO_AIM, Aim, Block, BlockBudgets, Excess
from tidegate.threshold.least_threshold import has_fallen
from tidegate.threshold.tail_quantile import WANTED

# Values above θ that a choice can tell from none, in 1/ε of it, and that it wants of a stretch, in
# 1/ε of the release (`TailQuantile`); never more than this share of the values.
_VISIBLE, _WANTED, _MOST = 3.0, 25.0, 0.25
# The stretch is this many times the values since the warm-up (`Refinement`).
_STRETCH = 16
# A window is about this part of the values since the warm-up, and pays at least a quarter of ε.
_WINDOW, _LATE_SHARE = 0.7, 0.25
# 1/κ above which a tail counts as heavy, how much it widens, and between which limits (logarithms);
# shares that differ by less than the last number tell nothing.
_HEAVY, _WIDER, _LEAST, _HIGHEST, _APART = 0.7, 2.0, -1.1, 1.0, 1.5


def aims(segments: Sequence[Segment], as_of: int | None) -> list[Aim]:
    """One for each segment; `as_of`: from what was released up to that position."""
    trees = segments[-1].method.budgets
    if trees is None:  # θ is not refined
        return [NO_AIM] * len(segments)
    epsilon = float(trees.epsilon)
    until = segments[-1].end if as_of is None else as_of
    seen: list[float] = []  # shares above θ that the choices could see
    shares: list[float] = []
    lineage: list[int] = []  # where the warm-up began that a phase comes from
    begun, part = 0, _LATE_SHARE
    chosen, opened = True, 0  # whether a window was open at a phase's end; where it opened late
    for segment in segments:
        visible = share = 0.0
        if segment.measured and segment.blocks and segment.start < max(until, 1):
            first = segment.blocks[0]
            age = segment.origin - begun
            values = _WINDOW * age
            sums = _part_for_sums(segment, first, trees)
            if first.start == segment.origin and sums < 0:  # a warm-up
                begun, part = segment.origin, 1.0 + sums
                values = age = first.layout.length
                chosen, opened = True, 0
            elif opened:
                values = segment.origin - opened
            if chosen or not seen:
                visible = min(_MOST, _VISIBLE / (part * epsilon * max(values, 1)))
                stretch = max(1, min(trees.horizon, _STRETCH * age))
                share = math.sqrt(visible * min(_MOST, _WANTED / (epsilon * stretch)))
            else:  # the level had risen: a window opened, and θ stayed
                visible, share = seen[-1], shares[-1]
            opened = 0 if chosen else segment.origin
            sums = _part_for_sums(segment, segment.blocks[-1], trees)
            part, chosen = max(_LATE_SHARE, 1.0 - abs(sums)), abs(sums) < 1
        seen.append(visible)
        shares.append(share)
        lineage.append(begun)
    found = []
    for number, share in enumerate(shares):
        same = [at for at, begun in enumerate(lineage) if begun == lineage[number] and seen[at]]
        later = _later(segments, number, same, lineage, until)
        wider = _wider(segments, same, seen) if same and number != same[-1] else 1.0
        found.append(Aim(share, wider, *later) if share else NO_AIM)
    return found


def _later(
    segments: Sequence[Segment], number: int, same: list[int], lineage: list[int], until: int
) -> tuple[float, float]:
    """Means of later phases: the highest with a higher cap, and that which a full cap began."""
    cap, highest = segments[number].highest_cap, 0.0
    for at in same:
        if at > number and segments[at].highest_cap > cap:
            highest = max(highest, _mean_by(segments[at], until))
    after = number + 1
    if after < len(segments) and lineage[after] != lineage[number] and segments[after].measured:
        return highest, _mean_by(segments[after], until)
    return highest, 0.0


def _wider(segments: Sequence[Segment], same: list[int], seen: list[float]) -> float:
    """By how much the tail moves the upper end, from the first and the last phase.

    Only that of earlier phases: how far values lie above the highest θ no other θ can tell.
    """
    first, last = same[0], same[-1]
    if seen[first] < _APART * seen[last]:
        return 1.0
    ends = (segments[at].threshold - segments[at].below for at in (last, first))
    return _heaviness(*ends, seen[first] / seen[last])


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


_TARGET, _PRICE, _CHANCE = 3.0, 3.0, 3.0  # in 1/ε′
# Values below 0 hide how many are large: then all is open if more than this share could be unseen.
_MOST = 0.5
_SAME = 1.5  # another θ that saw enough says that one was right, if it is not this much higher
# A θ that cannot climb lies this far above where it began in one choice of 250: chances fall as
# f^−2 at least.
_NEAR_START = 16
_SURE = 2.0  # standard errors of a released sum, and of a number of large values


class Hidden(NamedTuple):
    """The share of values of a segment that may be cut unseen, and what each may be short of."""

    share: float = 0.0
    each: float = 0.0  # in the unit of the data

    def reach(self, sums: FloatArray, sizes: IntArray, cap: float) -> FloatArray:
        """How much larger sums over `sizes` values may be.

        A share of a range may be higher than that of its segment, up to its sum in caps; and few
        large values come by chance.
        """
        shares = np.clip(sums / np.maximum(sizes * cap, 1e-300), self.share, 1.0)
        counts = shares * sizes
        found: FloatArray = np.minimum(counts + _SURE * np.sqrt(counts), sizes) * self.each
        return found

    def added(
        self, excess: Excess, sums: FloatArray, sizes: IntArray, segment: Segment
    ) -> tuple[Excess, FloatArray]:
        """An excess whose ends reach as far, and how far that is."""
        found = self.reach(sums, sizes, segment.threshold * segment.method.step)
        lower = np.maximum(excess.lower, found) if segment.below else excess.lower
        return excess._replace(upper=np.maximum(excess.upper, found), lower=lower), found


NOTHING = Hidden()


def unseen(segments: Sequence[Segment]) -> list[Hidden]:
    """What may be hidden in each segment.

    Nothing where the choice of θ saw enough, and where θ was not chosen by a refined release.
    """
    shares, evidence = [], Fraction(0)
    for before, segment in zip([None, *segments[:-1]], segments, strict=True):
        evidence = _evidence(before, segment, evidence)
        shares.append(_unseen(segment, evidence))
    caps = [one.threshold - one.below for one in segments]
    known = zip(segments, caps, shares, strict=True)
    # A θ that saw enough says how large values are, at other times too; without one, the bound.
    highest = max((cap for one, cap, share in known if one.measured and not share), default=0)
    found = []
    for one, cap, share in zip(segments, caps, shares, strict=True):
        top = highest or one.method.ceiling
        right = not share or (highest and cap * _SAME >= highest)
        found.append(NOTHING if right else Hidden(share, max(top - cap, 0) * one.method.step))
    return found


def _unseen(segment: Segment, evidence: Fraction) -> float:
    """The share of values of a segment that may be cut without having been seen; 0: hardly any."""
    method, theta = segment.method, segment.threshold - segment.below
    stage, bound = method.budgets, method.ceiling
    if stage is None or not segment.blocks or theta >= bound:
        return 0.0
    if not evidence:
        return 0.0  # what chose θ is not part of the record any more
    known = float(evidence)
    seen = max(_TARGET, WANTED * known / (float(stage.epsilon) * stage.horizon)) + _CHANCE
    climb = seen + _PRICE * math.log(bound / theta)
    if segment.below:
        return _MOST if climb >= _MOST * known else 0.0
    held, error = _held(segment)
    limit = climb if has_fallen(theta, bound, evidence, _NEAR_START) else seen
    return min(1.0, max(held, 0.0) + error) if (held - error) * known <= limit else 0.0


def _held(segment: Segment) -> tuple[float, float]:
    """The released sum as a share of what it would be if all values were cut, and its doubt."""
    *blocks, last = (block.layout for block in segment.blocks)
    done = segment.leaves.closed - segment.blocks[-1].first
    measured = segment.blocks[-1].start + last.edge(done) - segment.start
    if done == last.leaves:
        blocks.append(last)
        done = 0
    variance = sum(tree.nodes[0] * tree.variances[0] for tree in blocks)
    variance += done * last.variances[-1]  # of an open tree, leaf by leaf
    full = max(measured, 1) * segment.threshold
    return segment.leaves.total / full, _SURE * math.sqrt(variance) / full


def _evidence(before: Segment | None, segment: Segment, known: Fraction) -> Fraction:
    """ε′ × values of the choice of θ; 0: not known. `known`: of the segment before.

    A phase that a risen level began has the θ of the one before, at whose end no window was open.
    """
    stage = segment.method.budgets
    if stage is None or not segment.blocks:
        return Fraction(0)
    warm_up = _paid(stage, segment)
    if warm_up < 0:
        return (1 + warm_up) * stage.epsilon * segment.blocks[0].layout.length
    if before is None or not before.blocks or before.start != before.origin:
        return Fraction(0)
    warm_up = _paid(stage, before)
    opened = before.origin + (before.blocks[0].layout.length if warm_up < 0 else 0)
    share = 1 - _paid(stage, before, -1)
    return share * stage.epsilon * (segment.origin - opened) if share else known


def _paid(stage: BlockBudgets, segment: Segment, number: int = 0) -> Fraction:
    block, ceiling = segment.blocks[number], segment.method.ceiling + segment.below
    return stage.part_of(block.choice, block.layout.length, segment.threshold, ceiling)
