"""A quantile of the hold-out with Gaussian noise by smooth sensitivity: (ε, δ) (for comparison)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import ClassVar

from tidegate.errors import SettingError
from tidegate.guarantee import Guarantee
from tidegate.lattice import IntArray, Lattice
from tidegate.randomness import Keystream, WordSource
from tidegate.settings import Delta, Epsilon, Exact, Spec, Whole
from tidegate.threshold.percentiles import Percentile
from tidegate.threshold.smooth_sensitivity import noisy_quantile

_NORMAL = NormalDist()
_HALVINGS = 60
_LARGEST_EPSILON = 20  # the rule is for comparison: nobody needs it beyond
_SMALLEST_DELTA = 1e-20  # noise ends at 13.1 standard deviations: see `gaussian_draw`
_ROUNDING = 1e-12  # relative, of a tail: its argument is rounded, and e^(−x²/2) squares that


@dataclass(frozen=True, kw_only=True, repr=False)
class GaussianQuantile(Spec):
    """θ = x_p + SS/a·Z with a standard normal Z, clipped to [1 step, bound].

    Guarantee: (ε, δ)-DP in real arithmetic; computed in floats (`arithmetic="float"`). Released: θ.
    SS is the β-smooth sensitivity of the quantile. Both changes get ε/2:

    - x_p moves by at most SS, so Z by at most a: (ε/2, δ₁) with
      δ₁ = Φ(a/2 − ε/(2a)) − e^(ε/2)·Φ(−a/2 − ε/(2a)), the exact δ of a Gaussian shift;
    - SS changes by a factor e^λ, |λ| ≤ β: the log-ratio of the two densities at z is at most β ≤
      ε/2 where the noise widens; where it narrows, z²·(e^(2β) − 1)/2 − β, which is above ε/2 only
      if z² > (ε + 2β)/(e^(2β) − 1), with probability δ₂.

    One after the other: (ε, δ₁ + e^(ε/2)·δ₂)-DP. `decay` and `shift` are the largest β and a (to a
    search) for which both parts are at most δ/2. Against NRS 2007 (a = ε/(5√(2 ln(2/δ)))), noise is
    several times smaller.

    Args:
        epsilon, delta: the budget of the choice.
        bound: public upper bound of a value.
        holdout: how many values to spend on the choice.
        percentile: which quantile.
    """

    KIND: ClassVar[str] = "threshold.GaussianQuantile"

    epsilon: Epsilon = Epsilon()
    delta: Delta = Delta()
    bound: Exact = Exact()
    holdout: Whole = Whole(minimum=1, default=65_536)
    percentile: Percentile = Percentile(default="99.5")

    def __post_init__(self) -> None:
        if self.epsilon > _LARGEST_EPSILON:
            raise SettingError("epsilon", f"must be at most {_LARGEST_EPSILON} for this rule")
        if self.delta < _SMALLEST_DELTA:
            raise SettingError("delta", f"must be at least {_SMALLEST_DELTA:g} for this rule")

    @property
    def guarantee(self) -> Guarantee:
        """(ε, δ)-DP up to the rounding of floats."""
        return Guarantee(epsilon=self.epsilon, delta=self.delta, arithmetic="float")

    @property
    def shift(self) -> float:
        """a: the largest shift of the noise by x_p, in standard deviations."""
        return _largest(gaussian_shift_failure, float(self.epsilon) / 2, float(self.delta) / 2)

    @property
    def decay(self) -> float:
        """β: the decay of the smooth sensitivity."""
        half = float(self.epsilon) / 2
        return min(
            half, _largest(gaussian_stretch_failure, half, float(self.delta) / 2 * math.exp(-half))
        )

    def ceiling(self, lattice: Lattice) -> int:
        """The bound."""
        return lattice.top

    def choose(self, values: IntArray, lattice: Lattice, keystream: Keystream) -> int:
        """θ in lattice units."""
        noise = gaussian_draw(keystream.at())
        return noisy_quantile(
            values, self.percentile, self.decay, noise / self.shift, lattice.top, lattice.top
        )


def gaussian_draw(words: WordSource) -> float:
    """A standard normal draw; its tails end at 13.1, beyond which 2^-128 of them lie.

    A sign, and P(Z < −|z|) from two words. (One float between 0 and 1 ends at 8.2. At ε = 20 noise
    is shifted by 1.3: what lies beyond 6.9, 2.6e-12 of all, would be impossible for a neighbour.)
    """
    first, second = map(int, words.take(2))
    share = ((first >> 1) + (second + 0.5) * 2.0**-words.bits) * 2.0**-words.bits
    return math.copysign(_NORMAL.inv_cdf(share), -0.5 + (first & 1))


def gaussian_shift_failure(epsilon: float, shift: float) -> float:
    """The δ with which a standard normal shifted by `shift` is (ε, δ)-indistinguishable.

    >>> round(gaussian_shift_failure(1.0, 1.0), 6)
    0.126937
    """
    above = gaussian_tail(epsilon / shift - shift / 2)
    return (
        above - math.exp(epsilon) * gaussian_tail(epsilon / shift + shift / 2) + _ROUNDING * above
    )


def gaussian_stretch_failure(epsilon: float, decay: float) -> float:
    """The probability that stretching a standard normal by e^±decay costs more than ε.

    >>> round(gaussian_stretch_failure(1.0, 0.1), 6)
    0.00162
    """
    limit = math.sqrt(2 * (epsilon + decay) / math.expm1(2 * decay))
    return 2 * gaussian_tail(limit) * (1 + _ROUNDING)


def gaussian_tail(limit: float) -> float:
    """P(Z > limit) of a standard normal Z, to 15 digits however small it is.

    (`NormalDist.cdf` is ½ + ½·erf: off by 1e-16 whatever its value, so a δ of 1e-17 counts as 0.)

    >>> f"{gaussian_tail(10.0):.4g}"
    '7.62e-24'
    """
    return math.erfc(limit / math.sqrt(2)) / 2


@lru_cache(maxsize=64)
def _largest(failure: Callable[[float, float], float], epsilon: float, allowed: float) -> float:
    """The largest number, by bisection, whose failure probability is allowed."""
    low, high = 1e-12, 40.0
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if failure(epsilon, middle) <= allowed else (low, middle)
    return low
