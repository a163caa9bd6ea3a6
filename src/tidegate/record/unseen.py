"""Warn where too few values chose θ: by how much a sum may exceed its interval.

A choice of θ from few values cannot tell many large values from none. With ε′ its budget and W its
values, a number of them above θ up to

    (target + 3 + price·ln(bound/θ))/ε′,   target ≥ 3 and price in 1/ε′,

may lie anywhere up to the bound without θ having been chosen higher; u is that as a share of W. The
released sum of a segment, as a share h of what it would be if all values were cut, says how many
values may lie above θ: hardly more than h. If h > u then most of the sum is seen, and the rest is
what tails are like (`tidegate.estimate.mixture.truncated_tail`). If h ≤ u, all of the sum may come
from values that were cut: the true one may be up to bound/θ times as large. Values that are mostly
0 are of this kind, and every stream that is too short for its ε.

Everything here is computed from released sums and public settings: free.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from tidegate.perturb.adaptive.refinement_trees import RefinementTrees
from tidegate.record.segment import Segment
from tidegate.threshold.tail_quantile import WANTED

_TARGET, _PRICE, _CHANCE = 3.0, 3.0, 3.0  # in 1/ε′
# Values below 0 hide how many are large: then θ is blind if more than this share could be unseen.
_MOST = 0.5
_SAME = 1.5  # another θ that saw enough says that one was right, if it is not this much higher
_SURE = 2.0  # standard errors of a released sum


def unseen(segments: Sequence[Segment]) -> list[float]:
    """How much a value of each segment may be short of, on average, in the unit of the data.

    0 where the choice of θ saw enough, and where θ was not chosen by a refined release.
    """
    pairs = zip([None, *segments[:-1]], segments, strict=True)
    shares = [_unseen(before, segment) for before, segment in pairs]
    caps = [one.threshold - one.below for one in segments]
    known = zip(segments, caps, shares, strict=True)
    # A θ that saw enough says how large values are, at other times too; without one, the bound.
    highest = max((cap for one, cap, share in known if one.measured and not share), default=0)
    found = []
    for one, cap, share in zip(segments, caps, shares, strict=True):
        top = highest or one.method.ceiling
        right = highest and cap * _SAME >= highest
        found.append(0.0 if right else share * max(top - cap, 0) * one.method.step)
    return found


def _unseen(before: Segment | None, segment: Segment) -> float:
    """The share of values of a segment that may be cut without having been seen; 0: hardly any."""
    method, theta = segment.method, segment.threshold - segment.below
    stage, bound = method.perturber, method.ceiling
    if not isinstance(stage, RefinementTrees) or not segment.blocks or theta >= bound:
        return 0.0
    evidence = float(_evidence(stage, before, segment))
    if not evidence:
        return 0.0  # what chose θ is not part of the record any more
    target = max(_TARGET, WANTED * evidence / (float(stage.epsilon) * stage.horizon))
    share = (target + _CHANCE + _PRICE * math.log(bound / theta)) / evidence
    if segment.below:
        return _MOST if share >= _MOST else 0.0
    held, error = _held(segment)
    return max(held, 0.0) + error if held - error <= share else 0.0


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


def _evidence(stage: RefinementTrees, before: Segment | None, segment: Segment) -> Fraction:
    """ε′ × values of the choice of θ; 0: not known."""
    warm_up = _paid(stage, segment)
    if warm_up < 0:
        return (1 + warm_up) * stage.epsilon * segment.blocks[0].layout.length
    if before is None or not before.blocks or before.start != before.origin:
        return Fraction(0)
    warm_up = _paid(stage, before)
    opened = before.origin + (before.blocks[0].layout.length if warm_up < 0 else 0)
    return (1 - _paid(stage, before, -1)) * stage.epsilon * (segment.origin - opened)


def _paid(stage: RefinementTrees, segment: Segment, number: int = 0) -> Fraction:
    block, ceiling = segment.blocks[number], segment.method.ceiling + segment.below
    return stage.part_of(block.choice, block.layout.length, segment.threshold, ceiling)
