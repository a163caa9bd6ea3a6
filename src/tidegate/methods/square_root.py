"""The square-root factorisation: correlated Gaussian noise, the least possible for running sums.

The running sums of x are A·x, with A all ones on and below the diagonal. With C = √A (Toeplitz,
coefficients binom(2k, k)/4^k) the mechanism measures C·x + Z and publishes √A·(C·x + Z) = A·x +
√A·Z. The columns of C have a norm of about √(1 + ln(n)/π), so the error grows with ln(n), with the
smallest known constant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar, Unpack

import numpy as np

from tidegate import estimate
from tidegate.errors import SettingError
from tidegate.exact_numbers import Number, whole
from tidegate.lattice import FloatArray, IntArray
from tidegate.methods._budget import per_event_gaussian
from tidegate.methods._preset import Concentrated, preset
from tidegate.methods._registration import Method
from tidegate.noise import discrete_gaussian
from tidegate.perturb.running_sum_and_gaussian_stages import (
    GaussianNoise,
    GaussianStage,
    check_gaussian,
)
from tidegate.randomness import Keystream
from tidegate.run.pipeline import Pipeline
from tidegate.settings import Delta, Exact, OptionalWhole, Spec, Whole
from tidegate.stages import Estimator

PLACES = 16  # binary places of the coefficients
HALF = 24  # sums are made of two halves, so that they fit 64 bits
_USUAL_LEAVES, _MOST_LEAVES = 1 << 12, 1 << 14  # of a horizon: the work grows with their square


@lru_cache(maxsize=16)
def coefficients(leaves: int) -> IntArray:
    """2^16·binom(2k, k)/4^k for k below `leaves`, rounded to integers.

    >>> coefficients(4)
    array([65536, 32768, 24576, 20480])
    """
    exact, found = 1 << (PLACES + 64), []
    for k in range(leaves):
        found.append((exact + (1 << 63)) >> 64)
        exact = exact * (2 * k + 1) // (2 * k + 2)
    return np.array(found, dtype=np.int64)


@dataclass(frozen=True)
class RootNoise(GaussianNoise):
    """One horizon's noise: `variance` is σ² of the draws Z, in (units·2^-16)²."""

    @property
    def identity(self) -> str:
        """The facts that determine the noise. Part of its key: never change it."""
        return f"SquareRoot(leaves={self.leaves}, variance={self.variance}, places={PLACES})"

    def nodes(self, keystream: Keystream, chunk: int, grove: int) -> list[IntArray]:
        """The independent draws Z of a horizon."""
        words = keystream.at(chunk=chunk, tree=grove)
        return [discrete_gaussian(words, self.leaves, Fraction(self.variance))]

    def combine(self, nodes: list[IntArray], carry: float) -> tuple[IntArray, float]:
        """The noise of the leaves: W_t = Z_t − ⌊Σ_k c_k·W_{t−k}/2^16 + ½⌋, rounded on prefixes."""
        draws = nodes[0]
        reverse = np.ascontiguousarray(coefficients(self.leaves)[::-1])
        low, high = np.zeros((2, self.leaves), dtype=np.int64)
        found: IntArray = np.zeros(self.leaves, dtype=np.int64)
        for at in range(self.leaves):
            known = reverse[self.leaves - 1 - at : self.leaves - 1]  # c_at … c_1
            total = int(known @ low[:at]) + (int(known @ high[:at]) << HALF)
            value = int(draws[at]) - ((total + (1 << (PLACES - 1))) >> PLACES)
            found[at] = value
            high[at], low[at] = value >> HALF, value & ((1 << HALF) - 1)
        running = (np.cumsum(found) + (1 << (PLACES - 1))) >> PLACES
        return np.diff(running, prepend=0), 0.0

    # -- the law of the noise, for error bars ---------------------------------------------------

    @property
    def variances(self) -> tuple[float, ...]:
        """The variance of a draw, in units²."""
        return (self.variance / 4.0**PLACES,)

    @cached_property
    def _coefficients(self) -> FloatArray:
        return coefficients(self.leaves) / float(1 << PLACES)

    def _within(self, starts: IntArray, ends: IntArray) -> FloatArray:
        """The variance of (√A·Z)_b − (√A·Z)_a, with m = b − a:

            Σ_{i<b} c_i² + Σ_{i<a} c_i² − 2·Σ_{i<a} c_i·c_{i+m}

        The last sum is made once for each m; sequential, so the same on every machine.
        """
        own = running_sums(np.square(self._coefficients))
        result: FloatArray = own[ends] + own[starts]
        for length, group in group_by_length(starts, ends):
            most = int(starts[group].max())
            shared = self._coefficients[:most] * self._coefficients[length : length + most]
            result[group] -= 2 * running_sums(shared)[starts[group]]
        return np.maximum(result, 0.0) * (self.variance / 4.0**PLACES)


def running_sums(values: FloatArray) -> FloatArray:
    """0, then the running sums of the values."""
    return np.concatenate(([0.0], np.cumsum(values)))


def group_by_length(starts: IntArray, ends: IntArray) -> Iterator[tuple[int, IntArray]]:
    """The distinct lengths of ranges, and which ranges have each."""
    lengths, places = np.unique(ends - starts, return_inverse=True)
    order = np.argsort(places, kind="stable")
    yield from zip(
        lengths.tolist(), np.split(order, np.cumsum(np.bincount(places))[:-1]), strict=True
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class SquareRoot(GaussianStage, Spec):
    """Discrete Gaussian noise, correlated by the square root of the matrix of running sums.

    **Privacy.** Let c be the integers `coefficients` (c_0 = 2^16) and C their lower-triangular
    Toeplitz matrix over the n leaves of a horizon. The mechanism measures y = C·x + Z: integers,
    with Z independent exact discrete Gaussian of variance σ². A replaced value moves one leaf by at
    most θ, so it moves C·x by at most Δ in the 2-norm, Δ² = θ²·Σ c_k², an integer. σ² is an integer
    with Δ²/(2σ²) ≤ ρ, checked exactly: y is ρ-zCDP. Given the measurements before it, each y_t
    costs its own share (c_k·θ)²/(2σ²), so this also holds where values depend on what was released.
    Horizons are disjoint: parallel composition.

    Published is post-processing of y. Define o_t = y_t − ⌊Σ_{k≥1} c_k·o_{t−k}/2^16 + ½⌋. By
    induction o_t = 2^16·x_t + W_t with W as in `RootNoise.combine`: the floor moves by exactly
    Σ c_k·x_{t−k} when each o_{t−k} holds 2^16·x_{t−k}. The running sum of o, divided by 2^16 and
    rounded, is the true one plus the rounded running sum of W/2^16: exact integers throughout, so W
    can be made before any value arrives. No float touches the noise or a value.

    Args:
        rho: ρ of the stream, for one replaced value.
        delta: the δ at which ρ is stated as (ε, δ).
        horizon: the longest range that should be answered well; new noise begins with each.
        chosen_block: values per measured sum. None: the least power of two with at most 4,096
            leaves in a horizon (a horizon's noise takes time that grows with their square).
    """

    KIND: ClassVar[str] = "methods.SquareRoot"

    rho: Exact = Exact()
    delta: Delta = Delta()
    horizon: Whole = Whole(minimum=1)
    chosen_block: OptionalWhole = OptionalWhole(minimum=1)

    @cached_property
    def block(self) -> int:
        """The number of values per measured sum."""
        if self.chosen_block is not None:
            return self.chosen_block
        return 1 << max(0, (-(-self.horizon // _USUAL_LEAVES) - 1).bit_length())

    @property
    def band(self) -> int:
        """The number of coefficients in use: all of them."""
        return self.leaves

    def sensitivity(self, threshold: int) -> int:
        """Δ²: the square of how far one replaced value moves C·x."""
        return threshold**2 * sum(int(c) ** 2 for c in coefficients(self.band))

    def noise_law(self, threshold: int) -> RootNoise:
        """The noise for values truncated at `threshold` units."""
        return RootNoise(self.leaves, self.variance_for(self.sensitivity(threshold)))

    def check(self, ceiling: int) -> int:
        """Refuse settings that could overflow 64-bit integers, or take too long."""
        if self.leaves > _MOST_LEAVES:
            raise SettingError(
                "block",
                f"is too small: {self.leaves:,} leaves in a horizon (at most {_MOST_LEAVES:,})",
            )
        return self.check_sums(ceiling)

    def check_sums(self, ceiling: int) -> int:
        """Refuse noise whose running sums, added to those of values, could exceed 64 bits."""
        # |W| < 4·max |Z|: the coefficients of C⁻¹ sum to less than 2, of a band of C to less than
        # 2.5.
        sums = self.horizon * ceiling << PLACES
        return check_gaussian(self.noise_law(ceiling).variance, 4 * self.leaves, sums)


@preset
def square_root(
    epsilon: Number,
    bound: Number,
    *,
    block: int | None = None,
    estimator: Estimator | None = None,
    **shared: Unpack[Concentrated],
) -> Pipeline:
    """Correlated Gaussian noise from the square root of the matrix of running sums.

    The square-root factorisation; ρ-zCDP in exact arithmetic. ρ is the largest (to six digits) that
    implies (`epsilon`, `delta`)-DP for the unit. The threshold is chosen with pure √(2ρ)-DP, which
    is worth the same ρ.

    When: ρ-zCDP is wanted, or a δ of 1e-6 is no matter: the least noise for running sums.
    Reference: Fichtenberger, Henzinger, Upadhyay, Constant Matters, ICML 2023; Henzinger, Upadhyay,
        Upadhyay, Almost Tight Error Bounds, SODA 2023.

    Args:
        block: values per measured sum; None: so that a horizon has at most 4,096.

    >>> print(square_root(epsilon=1, bound=50, delta=1e-6, horizon=4096, holdout=0).guarantee)
    ρ = 0.024... (zCDP), which gives ε = 0.99999..., δ = 1e-06 per event (exact ...)
    """
    block = None if block is None else whole("block", block, minimum=1)
    given = per_event_gaussian(epsilon, bound, shared)
    root = SquareRoot(rho=given.rho, delta=given.delta, horizon=given.horizon, chosen_block=block)
    return given.pipeline(root, estimator or estimate.Recent())


METHOD = Method(square_root, stages=(SquareRoot,), example={"delta": "1/1000000"})
