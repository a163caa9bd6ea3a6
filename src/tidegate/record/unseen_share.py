"""`UnseenValues`: which share of values may be cut unseen, and what each may be short of."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.lattice import FloatArray, IntArray
from tidegate.record.seen_by_choice import SURE
from tidegate.record.segments.segment import Segment
from tidegate.stages import Excess


class UnseenValues(NamedTuple):
    """The share of a segment's values that may exceed the cap unseen, and by how much each."""

    share: float = 0.0
    each: float = 0.0  # in the unit of the data
    beneath: float = 0.0  # the same for values below the lower cap
    most: float = 1.0  # the largest share that a range may have
    expected: float = 0.0  # what a value is short of on average, as later sums show

    def reach(
        self, sums: FloatArray, sizes: IntArray, cap: float, each: float | None = None
    ) -> FloatArray:
        """How far sums over `sizes` values may exceed estimates, if unseen values lose `each`.

        A share of a range may be higher than that of its segment, up to its sum in caps; and few
        large values come by chance.
        """
        shares = np.clip(sums / np.maximum(sizes * cap, 1e-300), self.share, self.most)
        counts = shares * sizes
        found: FloatArray = np.minimum(counts + SURE * np.sqrt(counts), sizes)
        found *= self.each if each is None else each
        return found

    def added(
        self, excess: Excess, sums: FloatArray, sizes: IntArray, segment: Segment
    ) -> tuple[Excess, FloatArray]:
        """The excess extended by this reach, and the reach."""
        cap, lower = segment.threshold * segment.method.step, excess.lower
        found = self.reach(sums, sizes, cap)
        if segment.below:
            lower = np.maximum(lower, self.reach(sums, sizes, cap, self.beneath))
        # One rule for all ranges of a segment, so that estimates of parts add up.
        expected: FloatArray = (
            sizes * np.float64(self.expected) if self.expected else excess.expected
        )
        upper = np.maximum(np.maximum(excess.upper, found), expected)
        return excess._replace(expected=expected, upper=upper, lower=lower), found


NOTHING = UnseenValues()


def unseen_shortfall(segment: Segment, highest: int) -> tuple[float, float]:
    """The most that a capped value may lose at both ends; `highest`: the largest credible θ."""
    method, below = segment.method, segment.below
    above, beneath = method.ceiling, method.depth
    if highest:
        above, beneath = min(above, highest), min(beneath, highest)
    cap = segment.threshold - below
    return _unseen_gap(above, cap) * method.step, _unseen_gap(beneath, below) * method.step


def _unseen_gap(end: int, cap: int) -> int:
    """How far a value may lie above its cap. A small cap is drowned by noise: it counts as 0."""
    return end if 4 * cap <= end else max(end - cap, 0)
