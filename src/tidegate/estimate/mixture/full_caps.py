"""Whether a stream has outgrown its cap, seen from released sums alone: free.

A released leaf, or blocks in a row, whose mean is above (0.45 + 0.5·h) of the cap, h the share when
θ was chosen, and surely so, says that the cap cuts. What must be feared are false alarms: noise is
Laplace noise, and there are hundreds of leaves. (`docs/research/short-streams.md` has the
measurements behind the constants.)
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from tidegate.estimate.mixture.portable_math import expm1

FULL, GROWN = 0.45, 0.5
# Standard errors of a leaf, and of blocks in a row: there are fewer of these.
SURE, BLOCKS_SURE = 6.0, 3.0
# Values that crowd below the cap hide their growth: above this share the cap is suspect itself.
_CROWDED = 0.8


class CapWatch:
    """The share of the cap at home, blocks in a row that were full, and the last full leaf."""

    STATE: ClassVar[tuple[str, ...]] = (
        "home", "threshold", "excess", "variance", "cap", "mean", "old", "length"
    )  # fmt: skip

    def __init__(self) -> None:
        self.home = 0.0  # the level when θ was chosen, as a share of it
        self.threshold = 1
        self.excess, self.variance = 0.0, 0.0  # of full blocks in a row, in caps
        self.cap = 0  # of the last leaf that was full; 0: none was
        self.mean, self.old, self.length = 0.0, 0.0, 0  # its mean, the level before, its values

    def settle(self, level: float, threshold: int) -> None:
        """θ was chosen when the level was this, in units; upwards by what it may be wrong by."""
        self.home, self.threshold = max(0.0, level) / threshold, threshold
        self.excess = self.variance = 0.0

    def leaf(self, mean: float, doubt: float, cap: int, old: float, length: int) -> bool:
        """A leaf had this mean, with this standard error; the level before was `old`."""
        if not self._full(mean, doubt * SURE, cap):
            return False
        self._keep(mean, cap, old, length)
        return True

    def block(self, mean: float, doubt: float, cap: int, old: float, length: int) -> bool:
        """A block had this mean. Blocks that are full, but none surely, are sure together."""
        if not self._full(mean, 0.0, cap):
            self.excess = self.variance = 0.0
            return False
        # In shares of the cap, which may have moved in between.
        self.excess += mean / cap - self._home(cap)
        self.variance += (doubt / cap) ** 2
        if self.excess <= BLOCKS_SURE * math.sqrt(self.variance):
            return False
        self._keep(mean, cap, old, length)
        return True

    def missing(self, level: float, doubt: float) -> float:
        """What the full leaf hid, if it was like what came after it, in units.

        An exponential tail, unless the leaf itself says that more of it lay at the cap.
        """
        cap = self.cap
        if not cap or level <= cap * 0.5:
            return 0.0
        kept = -level * float(expm1(np.array([-cap / level]))[0])
        capped = max(kept, min(self.mean, float(cap)))
        part = (self.mean - self.old) / max(capped - self.old, 0.05 * cap)
        trust = level * level / (level * level + 4 * doubt * doubt)
        return trust * min(1.0, max(0.0, part)) * (level - capped) * self.length

    def _full(self, mean: float, margin: float, cap: int) -> bool:
        home = self._home(cap)
        return mean - margin > home * cap and mean > (FULL + GROWN * home) * cap

    def _home(self, cap: int) -> float:
        return min(_CROWDED, self.home * self.threshold / cap)

    def _keep(self, mean: float, cap: int, old: float, length: int) -> None:
        self.cap, self.mean, self.length = cap, mean, length
        self.old = min(old, mean)
