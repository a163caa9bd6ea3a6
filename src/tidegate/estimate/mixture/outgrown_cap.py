"""`CapWatch`: detect from released sums that a stream outgrew its cap, or fell below its floor.

A released leaf, or blocks in a row, whose mean is above (0.45 + 0.5·h) of the cap, h the share when
θ was chosen, and surely so, says that the cap cuts. What must be feared are false alarms: noise is
Laplace noise, and there are hundreds of leaves. (`docs/research/short-streams.md` has the
measurements behind the constants.)
"""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.estimate.mixture.portable_exp_and_log import expm1
from tidegate.lattice import FloatArray, IntArray
from tidegate.stages import Layout

FULL, GROWN = 0.45, 0.5
# Standard errors of a leaf, and of blocks in a row: there are fewer of these.
SURE, BLOCKS_SURE = 6.0, 3.0
# Values that crowd below the cap hide their growth: above this share the cap is suspect itself.
_CROWDED = 0.8
# A mean that was judged not to be cut is no sign the next time, unless it is this much higher, or
# above this share of the cap: bursts come again.
_HIGHER, _CERTAIN = 1.1, 0.85
# How many times the level of a choice, or which part of what lies between both ends away from it, a
# level is that has moved, surely so (standard errors).
RISEN, MOVED, MOVED_SURE = 1.2, 1 / 16, 3.0


class CapWatch:
    """The level when the cap was chosen, in caps; full blocks in a row; the last full leaf."""

    STATE: ClassVar[tuple[str, ...]] = (
        "home", "threshold", "excess", "variance", "cap", "mean", "old", "length", "fair", "highest"
    )  # fmt: skip

    sure, blocks_sure = SURE, BLOCKS_SURE

    def __init__(self) -> None:
        self.home = 0.0  # the level when θ was chosen, as a share of it
        self.threshold = 1
        self.excess, self.variance = 0.0, 0.0  # of full blocks in a row, in caps
        self.cap = 0  # of the last leaf that was full; 0: none was
        self.mean, self.old, self.length = 0.0, 0.0, 0  # its mean, the level before, its values
        self.fair = 0.0  # the highest mean that filled a cap which turned out to be right
        self.highest = 0  # the highest θ that a full cap led to in this horizon

    def settle(self, level: float, threshold: int) -> None:
        """θ was chosen at this level, in units, plus its possible error."""
        self.home, self.threshold = max(0.0, level) / threshold, threshold
        self.excess = self.variance = 0.0

    def full_leaf(self, mean: float, doubt: float, cap: int) -> bool:
        """Whether a leaf with this mean and standard error significantly fills the cap."""
        return self._full(mean, doubt * self.sure, cap)

    def block(self, mean: float, doubt: float, cap: int, old: float, length: int) -> bool:
        """Take the mean of a block: full blocks that are not significant alone may be together."""
        if not self._full(mean, 0.0, cap):
            self.excess = self.variance = 0.0
            return False
        # In shares of the cap, which may have moved in between.
        self.excess += mean / cap - self._home(cap)
        self.variance += (doubt / cap) ** 2
        if self.excess <= self.blocks_sure * math.sqrt(self.variance):
            return False
        self.keep(mean, cap, old, length)
        return True

    def climbed(self, count: float, doubt: float, length: int) -> None:
        """Take a block of a climb (`refinement_level_phases`): how many values were above θ.

        No leaf is full then, so its places are free: `old` for the values of the phase, `length`
        for those that `home` was seen in; and what blocks say together, each weighted by what it
        knows about the share: a short one has as much noise as a long one.
        """
        known = length / (doubt * doubt)
        self.excess += count * known
        self.variance += length * known
        self.old += length

    @property
    def share_and_doubt(self) -> tuple[float, float]:
        """The share of values above θ in the blocks of a climb, and its standard error."""
        return self.excess / self.variance, 1 / math.sqrt(self.variance)

    def judge(self, *, right: bool) -> None:
        """Note whether the cap of the last full leaf turned out to be right after all."""
        self.fair = max(self.fair, self.mean) if right else 0.0

    def least_after(self, theta: int) -> int:
        """The least that later choices may return after a full cap led to this θ; 1: no limit.

        If an earlier full cap led above the one that was full now, choices have lowered θ in
        between: they were made between bursts, which come again. The higher θ stays then: with one
        halfway bursts are cut and no leaf is full, so nothing released says so.
        """
        least = max(self.highest, theta) if self.highest > self.cap else 1
        self.highest = max(self.highest, theta)
        return least

    def missing(self, level: float, doubt: float) -> float:
        """What capping is estimated to have taken from the full leaf, in units.

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

    # `outgrown_cap_rows` is the same for many streams.
    def _full(self, mean: float, margin: float, cap: int) -> bool:
        home = self._home(cap)
        least = max((FULL + GROWN * home) * cap, min(_CERTAIN * cap, _HIGHER * self.fair))
        return mean - margin > home * cap and mean > least

    def _home(self, cap: int) -> float:
        return min(_CROWDED, self.home * self.threshold / cap)

    def keep(self, mean: float, cap: int, old: float, length: int) -> None:
        """Note that a leaf or block of `length` values filled its cap, and the level before."""
        self.cap, self.mean, self.length = cap, mean, length
        self.old = min(old, mean)


def outgrown_cap_rows(
    home: FloatArray, fair: FloatArray, threshold: IntArray, cap: IntArray, mean: FloatArray
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """`CapWatch` of many streams: the limit for significance, and whether a mean looks full."""
    at_home = np.minimum(_CROWDED, home * threshold / cap)
    least = np.maximum((FULL + GROWN * at_home) * cap, np.minimum(_CERTAIN * cap, _HIGHER * fair))
    return at_home * cap, mean > least


class FloorWatch(CapWatch):
    """Watches the lower cap: takes negated means, and the cap's distance below 0.

    A floor often lies so close below 0 that noise alone takes means there: it must be surer.
    """

    STATE: ClassVar[tuple[str, ...]] = CapWatch.STATE[:-1]  # the lower end has no `highest`

    sure, blocks_sure = 8.0, 5.0


def level_has_moved(watch: CapWatch, floor: FloorWatch | None, level: float, doubt: float) -> bool:
    """Whether a released level differs significantly from that when the caps were chosen.

    Tails grow with levels: if it has risen, θ may be too low by now. Where values below 0 count
    (`floor`), a level near 0 may be the difference of two large ones, so what counts is how far it
    has moved to either side, as a part of what lies between both ends.
    """
    doubt *= MOVED_SURE
    if floor is None:
        return level - doubt > RISEN * watch.home * watch.threshold
    highest, lowest = watch.home * watch.threshold, -floor.home * floor.threshold
    highest, lowest = highest or lowest, lowest or highest  # 0: the level was on the other side
    far = MOVED * (watch.threshold + floor.threshold)
    return level - doubt > highest + far or level + doubt < lowest - far


class WatchedEnd(NamedTuple):
    """One cap, and whether released sums have outgrown it."""

    watch: CapWatch
    cap: int  # how far from 0 it lies, in units
    sign: int  # 1: the upper end; −1: the lower one

    def first_full(self, tree: Layout, leaf: int, sums: list[int]) -> int | None:
        """The first of these sums, of leaves from `leaf` on, that significantly fills the cap."""
        deviation = math.sqrt(tree.variances[-1])
        for index, total in enumerate(sums):
            width = tree.edge(leaf + index + 1) - tree.edge(leaf + index)
            if self.watch.full_leaf(self.sign * total / width, deviation / width, self.cap):
                return index
        return None

    def block(self, mean: float, doubt: float, old: float, length: int) -> bool:
        """Take the mean of a block: full blocks that are not significant alone may be together."""
        return self.watch.block(self.sign * mean, doubt, self.cap, self.sign * old, length)

    def keep(self, mean: float, old: float, length: int) -> None:
        """Note that a leaf of `length` values outgrew this cap, and the level before."""
        self.watch.keep(self.sign * mean, self.cap, self.sign * old, length)
