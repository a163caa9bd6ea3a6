"""What a late look of a refined release (`tidegate.run.refinement_looks`) says about answers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tidegate.record.seen_by_choice import SURE, SeenByChoice, held_share, paid_by_choice
from tidegate.record.segments.segment import Segment
from tidegate.record.unseen_share import UnseenValues, unseen_shortfall
from tidegate.stages import FAR_SHARE
from tidegate.stages.late_looks import FAR

# What a choice can miss, in 1/ε′: so many values, and more for each factor of e that they lie up.
_SEEN, _PRICE = 6.0, 3.0


def unseen_by_look(
    segments: Sequence[Segment], every: Sequence[SeenByChoice], until: int
) -> dict[int, UnseenValues]:
    """Segments whose θ lies far below values that a late look has found.

    The window that follows one says so, by its share of ε. θ had come from the warm-up before it,
    and did not see a share of values that could pay for a θ as high as they are. How high that is
    the next choices say, if they led far above it; else it may be the bound.
    """
    found: dict[int, UnseenValues] = {}
    for at, segment in enumerate(segments):
        stage, theta, known = segment.method.budgets, segment.threshold, float(every[at].known)
        if stage is None or not segment.blocks or paid_by_choice(stage, segment) != 1 - FAR_SHARE:
            continue
        first, end = at, at + 1
        while first and not _unseen_if_warm_up(segments[first]):
            first -= 1
        while end < len(segments) and not _unseen_if_warm_up(segments[end]):
            end += 1
        higher = max(one.threshold for one in segments[at:end])
        highest = higher if higher >= FAR * theta else segment.method.ceiling
        climb = _SEEN + _PRICE * math.log(highest / theta)
        share = min(1.0, climb / max(known, 1e-9))
        later = segments[at + 1] if at + 1 < end else segment
        expected = _unseen_by_mean(segment, later, until) if later.threshold >= FAR * theta else 0.0
        for one in range(first, end):
            if segments[one].threshold < FAR * theta:
                each, beneath = unseen_shortfall(segments[one], highest)
                found[one] = UnseenValues(share, each, beneath, share, expected)
    return found


def _unseen_by_mean(segment: Segment, later: Segment, until: int) -> float:
    """What a value was short of on average, as sums with a far higher cap show; shrunk by doubt.

    Few large values make up the difference: each adds a cap at most.
    """
    (held, doubt), (more, doubt_of_more) = (held_share(one, until) for one in (segment, later))
    gap = more * later.threshold - held * segment.threshold
    if gap <= 0:
        return 0.0
    noise = math.hypot(doubt * segment.threshold, doubt_of_more * later.threshold) / SURE
    chance = gap * later.threshold / max(1, min(later.end, until) - later.start)
    return max(0.0, 1.0 - (noise * noise + chance) / gap**2) * gap * segment.method.step


def _unseen_if_warm_up(segment: Segment) -> bool:
    stage = segment.method.budgets
    return stage is not None and bool(segment.blocks) and paid_by_choice(stage, segment) < 0
