"""Bases of perturbers with noise for the running sums of a horizon, including Gaussian noise.

A new method is a law (`nodes`, `combine`, `_within`) and a stage that scales it (`noise_law`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Protocol

from tidegate.errors import SettingError
from tidegate.guarantee import Guarantee, concentrated
from tidegate.lattice import FloatArray, IntArray
from tidegate.noise.discrete_gaussian import LARGEST_VARIANCE
from tidegate.perturb.forest_geometry import over_horizons
from tidegate.perturb.forest_perturber import ForestLike, ForestRun
from tidegate.perturb.one_layout import OneLayoutStage
from tidegate.randomness import Keystream
from tidegate.stages import Layout, NoiseLaw

_MOST_LEAVES = 1 << 24  # whose noise is made at once, with arrays of 128 MiB
_TAIL = 16  # |Z| exceeds as many standard deviations with probability 2·e^-128
_INT64 = 1 << 62


class RunningSumNoise(ABC):
    """The noise for one horizon of `leaves` leaves."""

    leaves: int

    @property
    def grove_leaves(self) -> int:
        """All leaves of the horizon: their noise is made at once."""
        return self.leaves

    def range_variance(self, starts: IntArray, ends: IntArray) -> FloatArray:
        """Variance of the noise in the sum of leaves [start, end), in units².

        Exact but for the rounding of coefficients and sums, where a law has any: below one part in
        a thousand, and less than one unit in a range.
        """
        return over_horizons(self._within, self.leaves, starts, ends)

    @abstractmethod
    def _within(self, starts: IntArray, ends: IntArray) -> FloatArray:
        """The variances of ranges inside one horizon."""


@dataclass(frozen=True)
class GaussianNoise(RunningSumNoise):
    """Discrete Gaussian draws; `variance` is σ² of each, in steps²."""

    leaves: int
    variance: int

    @property
    def variances(self) -> tuple[float, ...]:
        """Variance of a draw, in units²."""
        return (float(self.variance),)

    @property
    def largest_variance(self) -> float:
        """0: the noise is Gaussian, so intervals need no allowance for a single draw."""
        return 0.0


class _RunningSumLaw(NoiseLaw, Protocol):
    @property
    def variances(self) -> tuple[float, ...]: ...


class _RunningSumStage(Protocol):
    @property
    def block(self) -> int: ...

    @property
    def horizon(self) -> int: ...

    @property
    def leaves(self) -> int: ...

    def noise_law(self, threshold: int) -> _RunningSumLaw: ...


class RunningSumStage(OneLayoutStage):
    """A perturber with one block for each horizon."""

    irregular: ClassVar[bool] = False

    @property
    def block(self) -> int:
        """1: every value is a leaf."""
        return 1

    @property
    def leaves(self: _RunningSumStage) -> int:
        """The number of leaves in a horizon."""
        return -(-self.horizon // self.block)

    def noise_identity(self: _RunningSumStage, threshold: int, ceiling: int) -> str:
        """Every scale, and the addresses of its words."""
        return self.noise_law(threshold).identity

    def lengths(self: _RunningSumStage, chunk: int) -> tuple[int, ...]:
        """The length of the only block: a horizon, rounded up to whole leaves."""
        return (self.leaves * self.block,)

    def layouts(
        self: _RunningSumStage, length: int, threshold: int, ceiling: int
    ) -> tuple[Layout, ...]:
        """One layout, whose noise is not that of a forest: an estimator for trees refuses it."""
        cap = min(threshold, ceiling)
        leaves, variances = -(-length // self.block), self.noise_law(cap).variances
        return (Layout(length, (leaves,), cap, (), variances, consistent=False),)

    def run(self: ForestLike, threshold: int, ceiling: int, keystream: Keystream) -> ForestRun:
        """A new run, or one resumed from `state`."""
        return ForestRun(self, threshold, ceiling, keystream)


class _ConcentratedStage(Protocol):
    @property
    def rho(self) -> Fraction: ...

    @property
    def delta(self) -> Fraction: ...

    @property
    def guarantee(self) -> Guarantee: ...


class GaussianStage(RunningSumStage):
    """A perturber with discrete Gaussian noise and ρ-zCDP, stated as (ε, δ) at `delta`."""

    @property
    def guarantee(self: _ConcentratedStage) -> Guarantee:
        """ρ-zCDP, and the ε that it implies at δ."""
        return concentrated(self.rho, self.delta)

    @property
    def epsilon(self: _ConcentratedStage) -> Fraction:
        """The ε that ρ implies at δ."""
        return Fraction(self.guarantee.epsilon)

    def variance_for(self: _ConcentratedStage, squared: int) -> int:
        """The least integer σ² with Δ²/(2σ²) ≤ ρ, from the square of the 2-norm sensitivity Δ."""
        variance = math.ceil(squared / (2 * self.rho))
        if Fraction(squared, 2 * variance) > self.rho:  # a wrong scale must never go unnoticed
            raise AssertionError("the noise would overspend rho")
        return variance


def check_running_sum_leaves(leaves: int) -> None:
    """Refuse a horizon whose noise, made at once, would fill the memory."""
    if leaves > _MOST_LEAVES:
        raise SettingError(
            "horizon",
            f"is too long for one tree of {leaves:,} values, whose noise is made at once (at most "
            f"{_MOST_LEAVES:,}): choose a shorter one",
        )


def check_gaussian(variance: int, draws: int, sums: int) -> int:
    """The noise scale; refused if `draws` draws plus sums of values might not fit 64 bits.

    Also what its sampler refuses: that would be in the middle of a stream, once θ is known.
    """
    scale = math.isqrt(variance) + 1
    if variance > LARGEST_VARIANCE or draws * _TAIL * scale + sums >= _INT64:
        raise SettingError(
            "resolution",
            "too fine: the noise could overflow 64-bit sums; choose a coarser resolution, a "
            "smaller bound or a shorter horizon",
        )
    return scale
