"""How far a sum may exceed its estimate, where too few values chose θ.

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
- A late look found values far above θ (`unseen_by_look`).
- θ *climbs* by released sums (`refinement_level_phases`): all that is not 0 may lie above it.

The upper end of an answer reaches as far as that (`Hidden.reach`). Elsewhere most of the sum is
seen, and the rest is what tails are like (`tidegate.estimate.mixture.truncated_tail`).

Everything here is computed from released sums and public settings: free.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tidegate.record.seen_by_choice import (
    NO_EVIDENCE,
    SeenByChoice,
    held_share,
    paid_by_choice,
    seen_by_choice,
)
from tidegate.record.segments.segment import Segment
from tidegate.record.unseen_by_look import unseen_by_look
from tidegate.record.unseen_share import NOTHING, UnseenValues, unseen_shortfall
from tidegate.threshold.bulk_of_values import LEAST_KNOWN, may_miss_bulk
from tidegate.threshold.least_threshold import HARDLY, STRAYED, threshold_has_fallen
from tidegate.threshold.tail_quantile import WANTED

_TARGET, _PRICE, _CHANCE = 3.0, 3.0, 3.0  # in 1/ε′
# Values below 0 hide how many are large: then nothing is known if more than half could be unseen,
# or if the caps lie within 16 times of where the scale began: zeros keep it there.
_MOST, _NEAR_START = 0.5, 16
# Below this h most values are 0: they hardly count against a θ that chance has lifted (`STRAYED`).
_MOSTLY_ZERO = 0.15
_SAME = 1.5  # another θ that saw enough says that one was right, if it is not this much higher
# A segment whose sum is this part of its caps is cut nearly everywhere, or θ fits it closely.
_FULL = 0.8
_LITTLE = 1e-9  # a share that is not 0


def unseen_values(segments: Sequence[Segment], as_of: int | None = None) -> list[UnseenValues]:
    """What may be hidden in each segment; nothing where the choice of θ had enough values.

    `as_of`: from what was released up to there; nothing is said of segments without a θ then.
    """
    every_segment, until = len(segments), segments[-1].end if as_of is None else as_of
    segments = [one for one in segments if _unseen_begins(one) <= until]
    shares, every, climbs = [], [NO_EVIDENCE], False
    for before, segment in zip([None, *segments[:-1]], segments, strict=True):
        every.append(seen_by_choice(before, segment, every[-1]))
        climbs = before is not None and _unseen_if_climbed(before, segment, climbs)
        # A step of a climb that has just begun has seen nothing: it says nothing about others.
        shares.append(
            max(_LITTLE, sum(held_share(segment, until)))
            if climbs
            else _unseen_values(segment, every[-1], until)
        )
    looked = unseen_by_look(segments, every, until)
    for at in range(len(segments) - 1, 0, -1):
        earlier, later = every[at : at + 2]
        knew_more = later.known > earlier.known and not later.warm_up
        if shares[at] and not shares[at - 1] and knew_more:
            shares[at - 1] = _unseen_values(segments[at - 1], earlier, until, lifted=True)
    caps = [max(one.threshold - one.below, one.below) for one in segments]
    known = zip(segments, caps, shares, strict=True)
    # A θ that saw enough says how large values are, at other times too; without one, the bound.
    highest = max((cap for one, cap, share in known if one.measured and not share), default=0)
    found = []
    for at, (one, cap, share) in enumerate(zip(segments, caps, shares, strict=True)):
        right = not share or (highest and cap * _SAME >= highest)
        short = UnseenValues(share, *unseen_shortfall(one, highest))
        found.append(looked.get(at, NOTHING) if right else short)
    return found + [NOTHING] * (every_segment - len(found))


def _unseen_begins(segment: Segment) -> int:
    """The position at which θ was known: a warm-up chooses it at its end."""
    stage = segment.method.budgets
    if stage is None or not segment.blocks or paid_by_choice(stage, segment) > 0:
        return segment.origin
    return segment.blocks[0].start + segment.blocks[0].layout.length


def _unseen_values(
    segment: Segment, evidence: SeenByChoice, until: int, *, lifted: bool = False
) -> float:
    """The share of a segment's values that may exceed the cap without being seen; 0: hardly any."""
    method, theta = segment.method, max(segment.threshold - segment.below, segment.below)
    stage, bound = method.budgets, max(method.ceiling, method.depth)
    if not segment.blocks or theta >= bound:
        return 0.0
    if stage is None:
        return _unseen_after_hold_out(segment, theta, bound, until)
    if not evidence.known:
        return 0.0  # what chose θ is not part of the record any more
    known = float(evidence.known)
    seen = max(_TARGET, WANTED * known / (float(stage.epsilon) * stage.horizon)) + _CHANCE
    climb = seen + _PRICE * math.log(bound / theta)
    held, error = held_share(segment, until)
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


def _unseen_after_hold_out(segment: Segment, theta: int, bound: int, until: int) -> float:
    method = segment.method
    low = theta <= HARDLY * method.grain and STRAYED * theta <= bound
    # A resolution of 1 and more that was given is the unit of the data: a small θ may be right.
    counts = method.grain == 1 and method.step >= 1
    # Answers speak of capped sums only without a tail, and where noise is not that of trees.
    capped = method.estimator.adds_up or not segment.blocks[-1].layout.variances
    if not low or counts or capped or segment.sizes:  # events that were cut were counted
        return 0.0
    return _MOST if segment.below else max(_LITTLE, min(1.0, sum(held_share(segment, until))))


def _unseen_if_climbed(before: Segment, segment: Segment, climbs: bool) -> bool:
    """Whether released sums raised θ from below the nonzero values: all of them may be capped.

    Nothing chose it, as no window was open before, nor a warm-up; also after a climb, up to the
    next choice.
    """
    stage, bound = segment.method.budgets, segment.method.ceiling
    if stage is None or segment.below or not (segment.blocks and before.blocks):
        return False
    if (
        segment.threshold >= bound
        or paid_by_choice(stage, segment) < 0
        or paid_by_choice(stage, before, -1) < 1
    ):
        return False
    return climbs or before.threshold < segment.threshold
