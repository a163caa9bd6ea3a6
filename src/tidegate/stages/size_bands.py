"""Bands of event sizes around θ, and what an event gives to its tick where its band is counted.

band      0        1        2          3                   4             5        6  …
   0 ──────── θ/8 ──── θ/4 ──── θ/2 ──────── 5θ/6 ── θ ──────────── 2θ ──────── 4θ ───── …
sum                 v                  v         v        5θ/6           θ/2      θ/2
number             1/2                1/6        –        1/6            1/2      1/2
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from tidegate.lattice import IntArray

SIZE_FACTS = 3  # of a piece, before its numbers in a record: start, end, part of ε in quarters
QUARTERS = 4
# By what the estimates of what truncation takes grow, as an event above θ gives up a part of θ for
# its number (a sixth; half of it above 2θ): answers count with half of θ for each, published rows
# with an eighth.
GIVEN_UP, GIVEN_UP_IN_ROWS = 1.4, 2.0
# A θ of at most so many grains, the top so many times higher, is where a choice began: values may
# lie anywhere above it.
FALLEN, FAR_BELOW = 4, 64
STRAYED = 64  # the same where chance may have lifted it, as it does if most values are 0
_SMALL = 4  # bands below θ
_NEAR, _FAR = Fraction(1, 6), Fraction(1, 2)  # of its ε, that an event has for its band


@dataclass(frozen=True)
class SizeBands:
    """Octaves of sizes, four below θ and the others above it; the last one ends at `top`.

    Noise of sums is scaled to θ, so an event that gives less than θ to its tick has not spent all
    of its ε. An event in a band spends the rest, a part w of ε, on the number of events in that
    band: it gives at most (1 − w)·θ to the sum. So sums have the noise that they have without any
    numbers. The price: an event above θ gives less than θ, but it is counted. (An event between
    5θ/6 and θ has hardly anything left, and is not.)

    Attributes:
        theta: θ, in lattice units.
        top: the largest size, in lattice units.
        signed: whether events above θ are counted apart if their value lies below 0.
        fallen: whether θ lies where a choice begins, far below the top: most values may be 0.
        strayed: whether it lies so near to that, that chance may have lifted it.

    >>> bands = SizeBands(16, 100, signed=False)
    >>> bands.edges, bands.kept(np.array([3, -15, 16, 17, -32, 33]))
    ([0, 2, 4, 8, 13, 16, 32, 64, 100], array([  3, -15,  16,  13, -13,   8]))
    >>> bands.counted(np.array([0, 3, 15, 17, 100, 64]))
    array([1, 1, 0, 0, 1, 1, 1])
    """

    theta: int
    top: int
    signed: bool
    fallen: bool = False
    strayed: bool = False

    @cached_property
    def _near(self) -> int:
        return self.theta - -(-self.theta // _NEAR.denominator)

    @cached_property
    def octaves(self) -> int:
        """How many bands lie above θ, on one side of 0."""
        return max(0, (-(-self.top // self.theta) - 1).bit_length())

    @cached_property
    def edges(self) -> list[int]:
        """Where bands end, from 0 to the top; between the fourth and θ there is none."""
        theta, count = self.theta, self.octaves
        above = [min(theta << step, self.top) for step in range(1, count + 1)]
        return [0, theta >> 3, theta >> 2, theta >> 1, self._near, theta, *above]

    @property
    def number(self) -> int:
        """How many bands there are."""
        return _SMALL + self.octaves * (1 + self.signed)

    @cached_property
    def weights(self) -> list[Fraction]:
        """The part of its ε that an event of each band spends on the number."""
        above = [_NEAR, *[_FAR] * self.octaves][: self.octaves]
        return [*[_FAR] * (_SMALL - 1), _NEAR, *above * (1 + self.signed)]

    def kept(self, units: IntArray) -> IntArray:
        """What each event gives to the sum of its tick: its value, less if that is above θ."""
        sizes = np.abs(units)
        above = np.where(sizes > 2 * self.theta, self.kept_far, self._near)
        found: IntArray = np.where(sizes > self.theta, np.sign(units) * above, units)
        return found

    @property
    def kept_far(self) -> int:
        """What an event above 2θ gives to the sum."""
        return self.theta // _FAR.denominator

    @property
    def kept_near(self) -> int:
        """What an event between θ and 2θ gives to the sum."""
        return self._near

    def counted(self, units: IntArray) -> IntArray:
        """How many of these events lie in each band."""
        sizes, edges = np.abs(units), np.array(self.edges)
        below = np.searchsorted(edges[1 : _SMALL + 1], sizes)
        above = np.searchsorted(edges[_SMALL + 2 :], sizes) + _SMALL
        if self.signed:
            above += np.where(units < 0, self.octaves, 0)
        bands = np.where(sizes > self.theta, above, below)
        counted = bands[(sizes <= self._near) | (sizes > self.theta)]
        found: IntArray = np.bincount(counted, minlength=self.number)[: self.number]
        return found

    @property
    def below(self) -> range:
        """Which bands lie below θ."""
        return range(_SMALL)

    def above(self, side: int = 0) -> range:
        """Which bands lie above θ; `side` 1: those of values below 0, if they are apart."""
        first = _SMALL + side * self.octaves
        return range(first, first + self.octaves)


@lru_cache(maxsize=256)
def size_bands(theta: int, top: int, grain: int, *, signed: bool) -> SizeBands:
    """The bands around θ, which is a multiple of `grain`; the same ones for all who ask."""
    fallen = theta <= FALLEN * grain and FAR_BELOW * theta <= top
    strayed = theta <= STRAYED * grain and FAR_BELOW * theta <= top
    return SizeBands(theta, top, signed, fallen, strayed)
