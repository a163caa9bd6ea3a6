"""The banded square root: correlated Gaussian noise that remembers a band of leaves only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Unpack

import numpy as np

from tidegate import estimate
from tidegate.errors import SettingError
from tidegate.exact_numbers import Number, whole
from tidegate.lattice import FloatArray, IntArray
from tidegate.methods._budget import per_event_gaussian
from tidegate.methods._preset import Concentrated, preset
from tidegate.methods._registration import Method
from tidegate.methods.square_root import (
    HALF,
    PLACES,
    RootNoise,
    SquareRoot,
    coefficients,
    group_by_length,
    running_sums,
)
from tidegate.run.pipeline import Pipeline
from tidegate.settings import Delta, Exact, OptionalWhole, Whole
from tidegate.stages import Estimator

_MOST_WORK = 1 << 26  # leaves times band, of a horizon


@dataclass(frozen=True)
class BandedNoise(RootNoise):
    """`RootNoise` with the coefficients c_k below `band` only; the others are 0."""

    band: int = 1

    @property
    def identity(self) -> str:
        """The facts that determine the noise. Part of its key: never change it."""
        return (
            f"BandedRoot(leaves={self.leaves}, band={self.band}, variance={self.variance}, "
            f"places={PLACES})"
        )

    def combine(self, nodes: list[IntArray], carry: float) -> tuple[IntArray, float]:
        """The noise of the leaves: W_t = Z_t − ⌊Σ_{0<k<band} c_k·W_{t−k}/2^16 + ½⌋."""
        draws, behind = nodes[0].tolist(), self.band - 1
        known = np.ascontiguousarray(coefficients(self.band)[:0:-1])  # c_{band−1} … c_1
        low, high = np.zeros((2, behind + self.leaves), dtype=np.int64)
        found: IntArray = np.empty(self.leaves, dtype=np.int64)
        for at, draw in enumerate(draws):
            total = int(known @ low[at : at + behind]) + (
                int(known @ high[at : at + behind]) << HALF
            )
            value = draw - ((total + (1 << (PLACES - 1))) >> PLACES)
            found[at] = value
            high[behind + at], low[behind + at] = value >> HALF, value & ((1 << HALF) - 1)
        running = (np.cumsum(found) + (1 << (PLACES - 1))) >> PLACES
        return np.diff(running, prepend=0), 0.0

    # -- the law of the noise, for error bars ---------------------------------------------------

    @cached_property
    def _weights(self) -> FloatArray:
        """d_k: the weight of a draw in the running sum k leaves later: Σ_{j≤k} of 1/C(z)."""
        behind = self.band - 1
        known = coefficients(self.band)[:0:-1] / float(1 << PLACES)
        inverse = np.zeros(behind + self.leaves)
        inverse[behind] = 1.0
        for at in range(1, self.leaves):
            inverse[behind + at] = -math.fsum(known * inverse[at : at + behind])
        return np.cumsum(inverse[behind:])

    def _within(self, starts: IntArray, ends: IntArray) -> FloatArray:
        """The variance of Σ over [a, b), with m = b − a:

            Σ_{i<m} d_i² + Σ_{i<a} (d_{i+m} − d_i)²

        The last sum is made once for each m; sequential, so the same on every machine.
        """
        weights = self._weights
        result: FloatArray = running_sums(np.square(weights))[ends - starts]
        for length, group in group_by_length(starts, ends):
            most = int(starts[group].max())
            moved = weights[length : length + most] - weights[:most]
            result[group] += running_sums(np.square(moved))[starts[group]]
        return result * (self.variance / 4.0**PLACES)


@dataclass(frozen=True, kw_only=True, repr=False)
class BandedRoot(SquareRoot):
    """Discrete Gaussian noise, correlated by the band of the square root of running sums.

    **Privacy**: that of `SquareRoot`, with another integer matrix. C has the coefficients c_0 …
    c_{band−1} of the square root and zeros beyond, so a replaced value moves y = C·x by at most Δ,
    Δ² = θ²·Σ_{k<band} c_k², which is less; σ² is an integer with Δ²/(2σ²) ≤ ρ, checked exactly.
    What is published is a function of y by the same feedback, with the same integers: the floor
    moves by exactly Σ c_k·x_{t−k}.

    A band takes less noise for a value, and lets running sums drift over more than a band. For
    random ranges within a horizon a quarter of it has the least variance of the bands that were
    tried: 0.91 of that of the whole square root with 4,096 leaves, at a quarter of the work.

    Args:
        rho: ρ of the stream, for one replaced value.
        delta: the δ at which ρ is stated as (ε, δ).
        horizon: the longest range that should be answered well; new noise begins with each.
        chosen_block: values per measured sum. None: the least power of two with at most 4,096
            leaves in a horizon.
        chosen_band: coefficients that are kept, in leaves. None: a quarter of a horizon's leaves.
    """

    KIND: ClassVar[str] = "methods.BandedRoot"

    rho: Exact = Exact()
    delta: Delta = Delta()
    horizon: Whole = Whole(minimum=1)
    chosen_block: OptionalWhole = OptionalWhole(minimum=1)
    chosen_band: OptionalWhole = OptionalWhole(minimum=1)

    @property
    def band(self) -> int:
        """The number of coefficients that are kept."""
        wanted = -(-self.leaves // 4) if self.chosen_band is None else self.chosen_band
        return min(wanted, self.leaves)

    def noise_law(self, threshold: int) -> BandedNoise:
        """The noise for values truncated at `threshold` units."""
        variance = self.variance_for(self.sensitivity(threshold))
        return BandedNoise(self.leaves, variance, self.band)

    def check(self, ceiling: int) -> int:
        """Refuse settings that could overflow 64-bit integers, or take too long."""
        if self.leaves * self.band > _MOST_WORK:
            raise SettingError(
                "band", f"is too wide for {self.leaves:,} leaves: {_MOST_WORK // self.leaves:,} fit"
            )
        return self.check_sums(ceiling)


@preset
def banded_root(
    epsilon: Number,
    bound: Number,
    *,
    band: int | None = None,
    block: int | None = None,
    estimator: Estimator | None = None,
    **shared: Unpack[Concentrated],
) -> Pipeline:
    """Correlated Gaussian noise from a band of the square root of running sums.

    The banded square root; ρ-zCDP in exact arithmetic. As `square_root`, with a band of its
    coefficients: less noise for random ranges, less work, and running sums that drift where ranges
    are much longer than the band.

    When: ρ-zCDP is wanted for ranges from anywhere: a tenth less variance than `square_root`.
    Reference: Kalinin, Lampert, Banded Square Root Matrix Factorization for Differentially Private
        Model Training, NeurIPS 2024.

    Args:
        block: values per measured sum; None: so that a horizon has at most 4,096.
        band: coefficients that are kept, in measured sums; None: a quarter of a horizon.

    >>> print(banded_root(epsilon=1, bound=50, delta=1e-6, horizon=4096, holdout=0).guarantee)
    ρ = 0.024... (zCDP), which gives ε = 0.99999..., δ = 1e-06 per event (exact ...)
    """
    given = per_event_gaussian(epsilon, bound, shared)
    root = BandedRoot(
        rho=given.rho,
        delta=given.delta,
        horizon=given.horizon,
        chosen_block=None if block is None else whole("block", block, minimum=1),
        chosen_band=None if band is None else whole("band", band, minimum=1),
    )
    return given.pipeline(root, estimator or estimate.Recent())


METHOD = Method(banded_root, stages=(BandedRoot,), example={"delta": "1/1000000", "band": 9})
