"""Candidates for a threshold that grow by a ratio: few, however large the bound is."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from tidegate.errors import SettingError
from tidegate.guarantee import Guarantee
from tidegate.lattice import IntArray, Lattice

_LEAST = Fraction(1001, 1000)  # 36,000 candidates up to the largest bound there can be


@lru_cache(maxsize=64)
def growing_candidates(top: int, ratio: Fraction) -> IntArray:
    """1, …, `top`: each at least one step and at most `ratio` times above the one before.

    >>> growing_candidates(20, Fraction(2))
    array([ 1,  2,  4,  8, 16, 20])
    """
    if ratio < _LEAST:
        raise SettingError("ratio", f"must be at least {float(_LEAST)}")
    found = [1]
    while found[-1] < top:
        found.append(min(top, max(found[-1] + 1, int(found[-1] * ratio))))
    grid = np.array(found, dtype=np.int64)
    grid.flags.writeable = False
    return grid


class OverGrowingCandidates:
    """The shared part of stages that choose among growing candidates with pure ε."""

    epsilon: Fraction
    ratio: Fraction

    def __post_init__(self) -> None:
        growing_candidates(1, self.ratio)  # refuses a ratio that does not grow

    @property
    def guarantee(self) -> Guarantee:
        """ε-DP for the held-out values; no other value is read."""
        return Guarantee(epsilon=self.epsilon)

    def ceiling(self, lattice: Lattice) -> int:
        """The bound."""
        return lattice.top
