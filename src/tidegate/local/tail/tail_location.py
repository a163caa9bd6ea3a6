"""First: where, in orders of magnitude, does the tail begin?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tidegate.lattice import FloatArray
from tidegate.local.tail.tail_posterior import Bits, normalised, weighted_quantiles

_PER_OCTAVE = 12
# ln κ ~ N(ln 2.5, 0.4): how fast the tails of real streams fall.
_LOG_SLOPE, _LOG_SLOPE_SD = math.log(2.5), 0.4
_SLOPES = 25
# Of all values, how many may lie on one side of 0, if both sides are asked about.
_MASSES = (1.0, 0.7, 0.5, 0.3, 0.15, 0.06, 0.02, 0.005)
_HIGHEST = 0.6  # of the values of a side lie above its first rung, at most


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
        mass: the share of the values that lie on this side of 0, by the posterior mean.
        scale: by this the given shares were multiplied: fewer than `mass` are above any level.
    """

    levels: tuple[float, ...]
    span: float
    mass: float = 1.0
    scale: float = 1.0


def located(bits: Bits, top: int, shares: tuple[float, ...], *, partial: bool = False) -> Location:
    """The posterior of the first round: levels of these shares.

    The family is log-logistic, S(x) = p/(1 + (x/μ)^κ): a body of any scale and a power tail. p is
    1; if only a part of the values lies on this side of 0 (`partial`), any of `_MASSES`.
    """
    medians = np.geomspace(0.25, top, math.ceil(_PER_OCTAVE * math.log2(4 * top)) + 1)
    deviations = np.linspace(-3.0, 3.0, _SLOPES)
    slopes = np.exp(_LOG_SLOPE + _LOG_SLOPE_SD * deviations)
    masses = np.array(_MASSES if partial else (1.0,))
    mass, slope, median = (
        grid.ravel() for grid in np.meshgrid(masses, slopes, medians, indexing="ij")
    )
    prior = np.tile(np.repeat(-(deviations**2) / 2, medians.size), masses.size)

    def shares_above(levels: FloatArray) -> FloatArray:
        ratio = np.log(levels[None, :] / median[:, None]) * slope[:, None]
        above: FloatArray = mass[:, None] / (1 + np.exp(np.minimum(ratio, 700.0)))
        return above

    weights = normalised(prior + bits.log_likelihood(shares_above(bits.level)))
    kept = weights > 1e-9  # of the posterior; what is left out moves no level
    mass, median, slope, weights = mass[kept], median[kept], slope[kept], weights[kept]
    levels = np.geomspace(0.25, top, medians.size).clip(max=top)
    whole = float(weights @ mass / weights.sum())
    scale = min(1.0, _HIGHEST * whole / shares[0]) if partial else 1.0
    wanted = tuple(scale * share for share in shares)
    ratio = np.maximum(mass / wanted[0] - 1, 1e-6)  # of a side with fewer values: next to 0
    own = np.minimum(median * ratio ** (1 / slope), top)
    low, high = weighted_quantiles(own[:, None], weights, (0.05, 0.95))[:, 0]
    found = crossings(levels, weights @ shares_above(levels), wanted)
    return Location(found, float(high / low), whole, scale)


def crossings(
    levels: FloatArray, falling: FloatArray, shares: tuple[float, ...]
) -> tuple[float, ...]:
    """Where a falling curve over `levels` takes the values `shares`, in logarithms."""
    found = np.interp(-np.log(shares), -np.log(np.maximum(falling, 1e-300)), np.log(levels))
    # exp(log(x)) may be more than x, and devices refuse a level above the bound.
    return tuple(min(float(level), float(levels[-1])) for level in np.exp(found))
