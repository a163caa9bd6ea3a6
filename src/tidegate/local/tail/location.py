"""First: where, in orders of magnitude, does the tail begin?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tidegate.lattice import FloatArray
from tidegate.local.tail.bits import Bits, normalised, weighted_quantiles

_PER_OCTAVE = 12
# ln κ ~ N(ln 2.5, 0.4): how fast the tails of real streams fall.
_LOG_SLOPE, _LOG_SLOPE_SD = math.log(2.5), 0.4
_SLOPES = 25


def location_levels(top: int) -> tuple[float, ...]:
    """B/2, B/4, … down to at most one step.

    >>> location_levels(20)
    (10.0, 5.0, 2.5, 1.25, 0.625)
    """
    return tuple(top / 2**j for j in range(1, max(1, math.ceil(math.log2(top))) + 1))


@dataclass(frozen=True)
class Location:
    """Where a ladder may begin.

    Attributes:
        levels: above which, by the posterior mean, the given shares of the values lie.
        span: the 90 % posterior range of the first of them, largest over least.
    """

    levels: tuple[float, ...]
    span: float


def located(bits: Bits, top: int, shares: tuple[float, ...]) -> Location:
    """The posterior of the first round: levels of these shares.

    The family is log-logistic, S(x) = 1/(1 + (x/μ)^κ): a body of any scale and a power tail.
    """
    medians = np.geomspace(0.25, top, math.ceil(_PER_OCTAVE * math.log2(4 * top)) + 1)
    deviations = np.linspace(-3.0, 3.0, _SLOPES)
    slopes = np.exp(_LOG_SLOPE + _LOG_SLOPE_SD * deviations)
    median, slope = (grid.ravel() for grid in np.meshgrid(medians, slopes))
    prior = np.repeat(-(deviations**2) / 2, medians.size)

    def shares_above(levels: FloatArray) -> FloatArray:
        ratio = np.log(levels[None, :] / median[:, None]) * slope[:, None]
        return 1 / (1 + np.exp(np.minimum(ratio, 700.0)))

    weights = normalised(prior + bits.log_likelihood(shares_above(bits.level)))
    kept = weights > 1e-9  # of the posterior; what is left out moves no level
    median, slope = median[kept], slope[kept]
    levels = np.geomspace(0.25, top, medians.size).clip(max=top)
    own = np.minimum(median * (1 / shares[0] - 1) ** (1 / slope), top)
    low, high = weighted_quantiles(own[:, None], weights[kept], (0.05, 0.95))[:, 0]
    found = crossings(levels, weights[kept] @ shares_above(levels), shares)
    return Location(found, float(high / low))


def crossings(
    levels: FloatArray, falling: FloatArray, shares: tuple[float, ...]
) -> tuple[float, ...]:
    """Where a falling curve over `levels` takes the values `shares`, in logarithms."""
    found = np.interp(-np.log(shares), -np.log(np.maximum(falling, 1e-300)), np.log(levels))
    # exp(log(x)) may be more than x, and devices refuse a level above the bound.
    return tuple(min(float(level), float(levels[-1])) for level in np.exp(found))
