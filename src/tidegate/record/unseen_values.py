"""How much larger a sum may be than its estimate, where too few values chose θ.

A choice of θ from few values cannot tell many large values from none. With ε′ its budget and W its
values, a number of them above θ up to (target + 3)/ε′, target ≥ 3, may lie anywhere up to the bound
without θ having been chosen higher. The released sum of a segment, as a share h of what it would be
if all values were cut, says how many values may lie above θ: hardly more than h.

- h·W·ε′ ≤ target + 3: all of the sum may come from values that were cut, and the true one may be
  up to bound/θ times as large. Values that are mostly 0 are of this kind.
- θ has *fallen*: it stayed where it began (`threshold_has_fallen`). A climb costs 3/ε′ values for
each factor
  of e, so it is h·W·ε′ ≤ target + 3 + 3·ln(bound/θ) that says so then. A θ that has climbed was not
  stopped by that price halfway: where it began was cheaper still. A first choice that looked for
  the bulk (`bulk_of_values`) began at one step. Where most values are 0, chance lifts θ further,
  so it has fallen up to 64 times where it began.
- The next choice from the same warm-up knew more, and all of its sum may be cut: chance had lifted
  this θ, wherever it lies, and the limit is that of one that has fallen.
- θ may have *missed the bulk*: a first choice that knew little left it near the bottom by chance,
  below values that make up half of the stream, say (`may_miss_bulk`). The rest are 0.
- Values below 0 hide h: ends that lie where they began are open, as most values may be 0.
- h is 0.8 and more: θ is below nearly all values by chance, or just above them. The same limit.
- A hold-out chose θ, and it stayed where it began (4 grains at most), far below the bound: as if
  it had fallen, unless a given resolution says that values are whole numbers. How much it knew is
  no part of a record, so nothing else is said of it.
- θ *climbs* by released sums (`refinement_level_phases`): all that is not 0 may lie above it.

The upper end of an answer reaches as far as that (`Hidden.reach`). Elsewhere most of the sum is
seen, and the rest is what tails are like (`tidegate.estimate.mixture.truncated_tail`).

Everything here is computed from released sums and public settings: free.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tidegate.lattice import FloatArray, IntArray
from tidegate.record.segments.segment import Segment
from tidegate.stages import BlockBudgets, Excess
from tidegate.threshold.bulk_of_values import LEAST_KNOWN, may_miss_bulk
from tidegate.threshold.least_threshold import HARDLY, STRAYED, threshold_has_fallen
from tidegate.threshold.tail_quantile import WANTED

_TARGET, _PRICE, _CHANCE = 3.0, 3.0, 3.0  # in 1/ε′
# Values below 0 hide how many are large: then all is open if more than this share could be unseen,
# or if the ends lie within so many times of where the scale began: zeros keep it there.
_MOST, _NEAR_START = 0.5, 16
# Below this h most values are 0: they hardly count against a θ that chance has lifted (`STRAYED`).
_MOSTLY_ZERO = 0.15
_SAME = 1.5  # another θ that saw enough says that one was right, if it is not this much higher
_AGAIN = Fraction(1, 2)  # of ε: what a later warm-up pays for its choice; a first one pays more
# A segment whose sum is this part of its caps is cut nearly everywhere, or θ fits it closely.
_FULL = 0.8
_LITTLE = 1e-9  # a share that is not 0
_SURE = 2.0  # standard errors of a released sum, and of a number of large values


class UnseenValues(NamedTuple):
    """The share of values of a segment that may be cut unseen, and what each may be short of."""

    share: float = 0.0
    each: float = 0.0  # in the unit of the data
    beneath: float = 0.0  # the same of values below the lower end

    def reach(
        self, sums: FloatArray, sizes: IntArray, cap: float, each: float | None = None
    ) -> FloatArray:
        """How much larger sums over `sizes` values may be, if each is short of so much.

        A share of a range may be higher than that of its segment, up to its sum in caps; and few
        large values come by chance.
        """
        shares = np.clip(sums / np.maximum(sizes * cap, 1e-300), self.share, 1.0)
        counts = shares * sizes
        found: FloatArray = np.minimum(counts + _SURE * np.sqrt(counts), sizes)
        found *= self.each if each is None else each
        return found

    def added(
        self, excess: Excess, sums: FloatArray, sizes: IntArray, segment: Segment
    ) -> tuple[Excess, FloatArray]:
        """An excess whose ends reach as far, and how far that is."""
        cap, lower = segment.threshold * segment.method.step, excess.lower
        found = self.reach(sums, sizes, cap)
        if segment.below:
            lower = np.maximum(lower, self.reach(sums, sizes, cap, self.beneath))
        return excess._replace(upper=np.maximum(excess.upper, found), lower=lower), found


NOTHING = UnseenValues()


class SeenByChoice(NamedTuple):
    """ε′ × values of a choice of θ (0: not known), and whether a warm-up, or the first, made it."""

    known: Fraction = Fraction(0)
    first: bool = False
    warm_up: bool = False


NO_EVIDENCE = SeenByChoice()


def unseen_values(segments: Sequence[Segment]) -> list[UnseenValues]:
    """What may be hidden in each segment; nothing where the choice of θ saw enough."""
    shares, every, climbs = [], [NO_EVIDENCE], False
    for before, segment in zip([None, *segments[:-1]], segments, strict=True):
        every.append(_seen_by_choice(before, segment, every[-1]))
        climbs = before is not None and _unseen_if_climbed(before, segment, climbs)
        # A step of a climb that has just begun has seen nothing: it says nothing about others.
        shares.append(
            max(_LITTLE, sum(_held_share(segment)))
            if climbs
            else _unseen_values(segment, every[-1])
        )
    for at in range(len(segments) - 1, 0, -1):
        earlier, later = every[at : at + 2]
        knew_more = later.known > earlier.known and not later.warm_up
        if shares[at] and not shares[at - 1] and knew_more:
            shares[at - 1] = _unseen_values(segments[at - 1], earlier, lifted=True)
    caps = [max(one.threshold - one.below, one.below) for one in segments]
    known = zip(segments, caps, shares, strict=True)
    # A θ that saw enough says how large values are, at other times too; without one, the bound.
    highest = max((cap for one, cap, share in known if one.measured and not share), default=0)
    found = []
    for one, cap, share in zip(segments, caps, shares, strict=True):
        right = not share or (highest and cap * _SAME >= highest)
        found.append(NOTHING if right else UnseenValues(share, *_unseen_shortfall(one, highest)))
    return found


def _unseen_shortfall(segment: Segment, highest: int) -> tuple[float, float]:
    """What a value that was cut may be short of, at both ends; `highest`: the θ to believe in."""
    method, below = segment.method, segment.below
    above, beneath = method.ceiling, method.depth
    if highest:
        above, beneath = min(above, highest), min(beneath, highest)
    cap = segment.threshold - below
    return _unseen_gap(above, cap) * method.step, _unseen_gap(beneath, below) * method.step


def _unseen_gap(end: int, cap: int) -> int:
    """How far a value may lie above its cap. A small cap is drowned by noise: it counts as 0."""
    return end if 4 * cap <= end else max(end - cap, 0)


def _unseen_values(segment: Segment, evidence: SeenByChoice, *, lifted: bool = False) -> float:
    """The share of values of a segment that may be cut without having been seen; 0: hardly any."""
    method, theta = segment.method, max(segment.threshold - segment.below, segment.below)
    stage, bound = method.budgets, max(method.ceiling, method.depth)
    if not segment.blocks or theta >= bound:
        return 0.0
    if stage is None:
        return _unseen_after_hold_out(segment, theta, bound)
    if not evidence.known:
        return 0.0  # what chose θ is not part of the record any more
    known = float(evidence.known)
    seen = max(_TARGET, WANTED * known / (float(stage.epsilon) * stage.horizon)) + _CHANCE
    climb = seen + _PRICE * math.log(bound / theta)
    held, error = _held_share(segment)
    times = STRAYED if held < _MOSTLY_ZERO else HARDLY
    times = _NEAR_START if segment.below else times
    places = theta // method.grain, -(-bound // method.grain)  # in grains
    fallen = threshold_has_fallen(*places, evidence.known, times, first=evidence.first)
    if segment.below:
        return _MOST if fallen or lifted or climb >= _MOST * known else 0.0
    share = min(1.0, max(held, 0.0) + error)
    full = held >= _FULL
    unseen = (fallen or lifted or full) and (held - error) * known <= climb
    if evidence.first and known >= LEAST_KNOWN:
        unseen = unseen or may_miss_bulk(*places, known, max(0.0, held - error))
    return max(_LITTLE, share) if unseen else 0.0  # also where nothing was released yet


def _unseen_after_hold_out(segment: Segment, theta: int, bound: int) -> float:
    method = segment.method
    low = theta <= HARDLY * method.grain and STRAYED * theta <= bound
    # A resolution of 1 and more that was given is the unit of the data: a small θ may be right.
    counts = method.grain == 1 and method.step >= 1
    # Answers speak of capped sums only without a tail, and where noise is not that of trees.
    capped = method.estimator.adds_up or not segment.blocks[-1].layout.variances
    if not low or counts or capped or segment.sizes:  # events that were cut were counted
        return 0.0
    return _MOST if segment.below else max(_LITTLE, min(1.0, sum(_held_share(segment))))


def _unseen_if_climbed(before: Segment, segment: Segment, climbs: bool) -> bool:
    """Whether θ was raised by released sums, below values that are not 0: all of them may be cut.

    Nothing chose it, as no window was open before, nor a warm-up; also after a climb, up to the
    next choice.
    """
    stage, bound = segment.method.budgets, segment.method.ceiling
    if stage is None or segment.below or not (segment.blocks and before.blocks):
        return False
    if segment.threshold >= bound or _paid(stage, segment) < 0 or _paid(stage, before, -1) < 1:
        return False
    return climbs or before.threshold < segment.threshold


def _held_share(segment: Segment) -> tuple[float, float]:
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


def _seen_by_choice(before: Segment | None, segment: Segment, known: SeenByChoice) -> SeenByChoice:
    """What chose θ. `known`: of the segment before.

    A phase that a risen level began has the θ of the one before, at whose end no window was open.
    """
    stage = segment.method.budgets
    if stage is None or not segment.blocks:
        return NO_EVIDENCE
    warm_up = _paid(stage, segment)
    if warm_up < 0:
        values = segment.blocks[0].layout.length
        known_by_it = (1 + warm_up) * stage.epsilon * values
        return SeenByChoice(known_by_it, 1 + warm_up > _AGAIN, warm_up=True)
    if before is None or not before.blocks or before.start != before.origin:
        return NO_EVIDENCE
    warm_up = _paid(stage, before)
    opened = before.origin + (before.blocks[0].layout.length if warm_up < 0 else 0)
    share = 1 - _paid(stage, before, -1)
    return SeenByChoice(share * stage.epsilon * (segment.origin - opened)) if share else known


def _paid(stage: BlockBudgets, segment: Segment, number: int = 0) -> Fraction:
    block, ceiling = segment.blocks[number], segment.method.ceiling + segment.below
    return stage.part_of(block.choice, block.layout.length, segment.threshold, ceiling)
