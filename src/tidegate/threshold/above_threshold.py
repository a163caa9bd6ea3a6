"""A quantile of the hold-out without a useful bound: AboveThreshold over growing candidates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from tidegate.lattice import IntArray, Lattice
from tidegate.noise import discrete_laplace
from tidegate.randomness import Keystream
from tidegate.settings import Epsilon, Exact, Spec, Whole
from tidegate.threshold.growing_candidates import OverGrowingCandidates, growing_candidates
from tidegate.threshold.percentiles import Percentile


@dataclass(frozen=True, kw_only=True, repr=False)
class AboveThreshold(OverGrowingCandidates, Spec):
    """The first of growing candidates with, after noise, `percentile` of the hold-out below.

    Candidates grow by `ratio` from one step on, so the bound enters by its logarithm only: one that
    is a thousand million times too large costs nothing (Durfee, *Unbounded Differentially Private
    Quantile and Maximum Estimation*, NeurIPS 2023).

    Guarantee: pure ε-DP, exact. Released: the number of the first candidate c whose noisy count
    #{v ≤ c} + ν_c reaches the noisy target ⌈p·m⌉ + ρ; ρ and all ν_c are discrete Laplace of scale
    2/ε. Replacing one value moves no count by more than 1, and all counts in one direction:

    - they rise: with ρ + 1 in place of ρ (a factor e^(ε/2)), every candidate that was passed over
      still is, and the one that stopped needs at most 1 more from its ν (a factor e^(ε/2));
    - they fall: every candidate that was passed over still is, at the same ρ, and the one that
      stopped needs at most 1 more from its ν.

    Both directions cost at most ε, however many candidates were looked at. If none reaches the
    target, θ is the bound.

    Args:
        epsilon: the budget of the choice.
        bound: public upper bound of a value; may be far too large.
        holdout: how many values to spend on the choice.
        percentile: which quantile.
        ratio: of a candidate to the one before.
    """

    KIND: ClassVar[str] = "threshold.AboveThreshold"

    epsilon: Epsilon = Epsilon()
    bound: Exact = Exact()
    holdout: Whole = Whole(minimum=1, default=65_536)
    percentile: Percentile = Percentile(default="99.5")
    ratio: Exact = Exact(default="1.05")

    def choose(self, values: IntArray, lattice: Lattice, keystream: Keystream) -> int:
        """θ in lattice units."""
        grid = growing_candidates(lattice.top, self.ratio)
        scale = Fraction(2) / self.epsilon
        noise = discrete_laplace(keystream.at(), grid.size + 1, scale)
        target = math.ceil(self.percentile * values.size / 100) + noise[0]
        below = np.searchsorted(np.sort(values), grid, side="right")
        reached = np.flatnonzero(below + noise[1:] >= target)
        return int(grid[reached[0]]) if reached.size else lattice.top
