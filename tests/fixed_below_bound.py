"""A fixed threshold far below the bound: stages must truncate, not the lattice."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import tidegate as tg
from tidegate.lattice import IntArray, Lattice
from tidegate.randomness import Keystream


@dataclass(frozen=True, kw_only=True, repr=False)
class FixedBelowBound(tg.threshold.Fixed):
    """Truncates at `value`, a tenth of the bound."""

    KIND = "tests.fixed_below_bound.FixedBelowBound"

    @property
    def bound(self) -> Fraction:
        return 10 * self.value

    def choose(self, values: IntArray, lattice: Lattice, keystream: Keystream) -> int:
        return int(self.value / lattice.resolution)
