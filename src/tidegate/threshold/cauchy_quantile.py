"""A quantile of the hold-out with Cauchy noise by smooth sensitivity: pure ε (for comparison)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tidegate.guarantee import Guarantee
from tidegate.lattice import IntArray, Lattice
from tidegate.randomness import Keystream
from tidegate.settings import Epsilon, Exact, Spec, Whole
from tidegate.threshold.percentiles import Percentile
from tidegate.threshold.smooth_sensitivity import noisy_quantile, open_uniform


@dataclass(frozen=True, kw_only=True, repr=False)
class CauchyQuantile(Spec):
    """θ = x_p + SS/a·Z with a standard Cauchy Z, clipped to [1 step, bound].

    Guarantee: pure ε-DP in real arithmetic; computed in floats (`arithmetic="float"`). Released: θ.
    SS is the β-smooth sensitivity of the quantile; a = β = ε/2. With h(z) = 1/(π(1 + z²)):

    - |d/dz ln h(z)| = 2|z|/(1 + z²) ≤ 1, so the change of x_p, at most SS and so a shift of at most
      a, costs at most e^a;
    - d/dλ ln(e^λ·h(e^λ·z)) = 1 − 2u²/(1 + u²) with u = e^λ·z lies in [−1, 1], so the change of SS,
      a stretch by e^λ with |λ| ≤ β, costs at most e^β.

    Together e^(a+β) = e^ε. (Nissim, Raskhodnikova and Smith, STOC 2007, state ε/6 for both: the
    derivatives above allow three times as much, that is a third of the noise.) The price of pure ε
    are tails: Z exceeds 100 once in 157 draws.

    Args:
        epsilon: the budget of the choice.
        bound: public upper bound of a value.
        holdout: how many values to spend on the choice.
        percentile: which quantile.
    """

    KIND: ClassVar[str] = "threshold.CauchyQuantile"

    epsilon: Epsilon = Epsilon()
    bound: Exact = Exact()
    holdout: Whole = Whole(minimum=1, default=65_536)
    percentile: Percentile = Percentile(default="99.5")

    @property
    def guarantee(self) -> Guarantee:
        """ε-DP up to the rounding of floats."""
        return Guarantee(epsilon=self.epsilon, arithmetic="float")

    @property
    def decay(self) -> float:
        """β = ε/2; a has the same value."""
        return float(self.epsilon) / 2

    def ceiling(self, lattice: Lattice) -> int:
        """The bound."""
        return lattice.top

    def choose(self, values: IntArray, lattice: Lattice, keystream: Keystream) -> int:
        """θ in lattice units."""
        noise = math.tan(math.pi * (open_uniform(keystream.at()) - 0.5))
        return noisy_quantile(
            values, self.percentile, self.decay, noise / self.decay, lattice.top, lattice.top
        )
