"""S-P and S-PAK: a high quantile of the hold-out with smooth-sensitivity noise (for comparison)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from tidegate.errors import SettingError
from tidegate.exact_numbers import said
from tidegate.guarantee import Guarantee
from tidegate.lattice import IntArray, Lattice
from tidegate.noise import float_laplace
from tidegate.randomness import Keystream
from tidegate.settings import Delta, Epsilon, Exact, Flag, OptionalExact, Spec, Whole
from tidegate.threshold.percentiles import Percentile
from tidegate.threshold.smooth_sensitivity import noisy_quantile

# Unclipped, θ may still not exceed what noise of e^-64 probability makes of the bound: a public
# number, so that 64-bit sums can be checked beforehand.
_TAIL = 64.0


@dataclass(frozen=True, kw_only=True, repr=False)
class SmoothQuantile(Spec):
    """The p-quantile of the hold-out with Laplace noise Z scaled to its smooth sensitivity SS.

    S-P:    θ = x_p + SS/a·Z
    S-PAK:  θ = x_p + κ·SS/a·(Z + g), g = G⁻¹(1 − failure): rarely below the quantile

    Guarantee: (ε, δ)-DP in real arithmetic; computed in floats (`arithmetic="float"`). Released: θ.

    - SS is the β-smooth sensitivity of the quantile with β = ε/(2 ln(1/δ)), and a = ε/2. Shifting
      by the change of x_p costs e^(ε/2). Stretching by e^λ, |λ| ≤ β, costs e^(ε/2) except where
      |Z| > (ε/2 + λ)/(e^λ − 1); so δ is at most e^(ε/2)·exp(−(ε/2 + β)/(e^β − 1)), and settings
      for which this exceeds `delta` (large ε) are refused.
    - S-PAK releases a shifted statistic, x_p + κ·SS·g/a, that moves by at most SS·(1 + κ·g·(e^β −
      1)/a) between neighbours; κ = (1 − (e^β − 1)·g/a)⁻¹ makes this κ·SS, the scale that is used.
      Settings without a positive κ are refused.
    - Clipping θ to [1 step, bound] is post-processing.

    Args:
        epsilon, delta: the budget of the choice. The paper uses δ = 1/n² for a stream of n values.
        bound: public upper bound of a value.
        holdout: how many values to spend on the choice.
        percentile: which quantile; PAK aims at 99.5 with 99.575.
        failure: S-PAK's probability of falling below the quantile (the paper: 0.3·0.02); None: S-P.
        clip: keep θ within the bound. False: as published, θ may be far above it.
    """

    KIND: ClassVar[str] = "threshold.SmoothQuantile"

    epsilon: Epsilon = Epsilon()
    delta: Delta = Delta()
    bound: Exact = Exact()
    holdout: Whole = Whole(minimum=1, default=65_536)
    percentile: Percentile = Percentile(default="99.575")
    failure: OptionalExact = OptionalExact(default=None)
    clip: Flag = Flag(default=True)

    def __post_init__(self) -> None:
        half, decay = float(self.epsilon) / 2, self.decay
        if decay > 1 or half - (half + decay) / math.expm1(decay) > math.log(self.delta):
            raise SettingError(
                "epsilon", f"is too large for smooth sensitivity: {said(self.epsilon)}"
            )
        if self.failure is not None and self.failure >= Fraction(1, 2):
            raise SettingError("failure", f"must be less than 1/2, not {said(self.failure)}")
        if self._slack <= 0:
            raise SettingError("failure", "is too small for this delta: no finite noise scale")

    @property
    def guarantee(self) -> Guarantee:
        """(ε, δ)-DP up to the rounding of floats."""
        return Guarantee(epsilon=self.epsilon, delta=self.delta, arithmetic="float")

    @property
    def decay(self) -> float:
        """β = ε/(2 ln(1/δ))."""
        return float(self.epsilon) / (2 * -math.log(self.delta))

    @property
    def shift(self) -> float:
        """g = G⁻¹(1 − failure) = ln(1/(2·failure)) for S-PAK, 0 for S-P."""
        return 0.0 if self.failure is None else -math.log(2 * self.failure)

    @property
    def stretch(self) -> float:
        """κ: the factor on the noise."""
        return 1 / self._slack

    @property
    def _slack(self) -> float:
        return 1 - math.expm1(self.decay) * self.shift * 2 / float(self.epsilon)

    def ceiling(self, lattice: Lattice) -> int:
        """The largest possible θ: the bound, plus noise for the largest smooth sensitivity."""
        return lattice.top if self.clip else math.ceil(lattice.top * (1 + self._reach(_TAIL)))

    def choose(self, values: IntArray, lattice: Lattice, keystream: Keystream) -> int:
        """θ in lattice units."""
        noise = float(float_laplace(keystream.at(), 1, 1.0)[0])
        return noisy_quantile(
            values,
            self.percentile,
            self.decay,
            self._reach(noise),
            lattice.top,
            self.ceiling(lattice),
        )

    def _reach(self, noise: float) -> float:
        """The distance from the quantile to θ, in smooth sensitivities."""
        return self.stretch * 2 / float(self.epsilon) * (noise + self.shift)
