"""The posterior of the tail given answers: where it begins, and how it decays.

First: where, in orders of magnitude, does the tail begin (`located_tail`)? Second: how fast does it
fall from there? A posterior over a family of tails (`tail_posterior`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from tidegate.lattice import FloatArray, IntArray
from tidegate.local.tail.second_scales import (
    SECOND_CHANCE,
    tails_of_two_scales,
    visible_second_scales,
    with_second_scale,
)
from tidegate.local.tail.tail_bits import TailBits, normalised_tail_weights, weighted_tail_quantiles

_SLOPES = np.geomspace(0.004, 40.0, 42)
_CURVATURES = np.array([0, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.3, 1.7, 2.2, 3, 4, 6, 9])
_LEAST_CURVATURE = 0.1  # what a power law counts as in logarithms: as good as straight
# Median of slope and curvature, and the scale of their logarithms (see `tail_posterior`).
_SLOPE, _SLOPE_SCALE = 1.8, 0.6
_CURVATURE, _CURVATURE_SD = 0.8, 0.8
_TAIL, _BULK = 0.12, 0.7  # up to this share above the anchor; the largest there is
_KEPT = 2000  # tails of each kind, at most; and none that is e^15 times less likely than the best
_NEGLIGIBLE = 15.0
_OFFSETS = 27  # of the share at the anchor, from −3.2 to 3.2
_ANCHOR_SD = 1.2  # of ln S at the anchor
# Levels below this part of the top rung belong to the body, of which the family says nothing. (At
# 0.6, one busy hour that was asked about the body made tails look steep.)
BODY = 0.9


@dataclass(frozen=True)
class Tails:
    """Weighted tails: S(x) = S0·exp(−h·((x/x0)^s − 1)/s) + p·exp(−(x/(k·x0))^1.5).

    s → 0 is a power law (Pareto), 1 an exponential tail, 2 one like the normal distribution's; h is
    the slope −d ln S/d ln x at x0. p is 0, or the share of values of a second, larger scale, k
    times as far out.
    """

    anchor: float
    log_share: FloatArray
    slope: FloatArray
    curvature: FloatArray
    weights: FloatArray
    second: FloatArray = field(default_factory=lambda: np.zeros(1))
    reach: FloatArray = field(default_factory=lambda: np.ones(1))

    def of_one_scale(self) -> Tails:
        """The tails without a second scale; all tails, if none is left."""
        kept = self.second == 0
        if kept.all() or not kept.any():
            return self
        columns = ("log_share", "slope", "curvature", "weights", "second", "reach")
        found = {name: getattr(self, name)[kept] for name in columns}
        return replace(self, **{**found, "weights": found["weights"] / found["weights"].sum()})

    @property
    def unknown_anchor(self) -> float:
        """The share of the prior variance of ln S0 that the bits have left, from 0 to 1."""
        mean = self.weights @ self.log_share
        left = float(self.weights @ np.square(self.log_share - mean))
        return min(left / _ANCHOR_SD**2, 1.0)

    def shares_above(self, levels: FloatArray) -> FloatArray:
        """S(level): a row for each tail, a column for each level."""
        ratios = levels / self.anchor
        first = np.exp(_log_shares_of_tail(self.log_share, self.slope, self.curvature, ratios))
        if not self.second.any():
            return first
        return with_second_scale(first, self.second[:, None], ratios / self.reach[:, None])

    def mean_shares(self, levels: FloatArray) -> FloatArray:
        """The posterior mean of S at each level."""
        mean: FloatArray = self.weights @ self.shares_above(levels)
        return mean


def _log_shares_of_tail(
    log_share: FloatArray, slope: FloatArray, curvature: FloatArray, ratios: FloatArray
) -> FloatArray:
    logs = np.log(ratios)
    shape = np.empty((curvature.size, ratios.size))
    for value in np.unique(curvature):  # few: the powers are computed once for each
        power = logs if value == 0 else np.expm1(value * logs) / value
        shape[curvature == value] = power
    return np.minimum(0.0, log_share[:, None] - slope[:, None] * shape)


def tail_posterior(bits: TailBits, anchor: float, top_share: float, mass: float = 1.0) -> Tails:
    """The posterior over tails, given the bits and the prior.

    Prior: ln(S0/top_share) ~ N(0, 1.2), since the anchor was found by bits too; h is around 1.8,
    and ln s ~ N(ln 0.8, 0.8): what the tails of counts, amounts and durations have (an exponential
    distribution has h = 2.1 and s = 1 where the share above is 0.12). The logarithm of h follows
    Student's distribution with 3 degrees of freedom and scale 0.6: between a body of small values
    (say, nine zeros in ten) and a tail of large ones the slope may be next to nothing.

    That is all: one more prior, on the slope where the threshold will lie, was worth 5 nats against
    the cliff in which many streams end, more than some ten thousand bits say.

    A second scale has a chance of 0.2, but only if answers can show it: its share is 3 or 6
    standard deviations of a share, by the answers about the upper half of the levels, and below
    0.4 of `top_share`. Smaller ones would be left to the prior, which would push every threshold
    out; with few answers (ε = 0.5 and 30,000 of them) there is none that they could show.

    `mass` is the share of the values on this side of 0: what counts for the slope is the share
    above the anchor among them.
    """
    log_share, slope, curvature, prior = _grid_of_tails(top_share, min(top_share / mass, _BULK))
    ratios = bits.level / anchor
    shares = np.exp(_log_shares_of_tail(log_share, slope, curvature, ratios))
    likely = prior + bits.log_likelihood(shares)
    which = _likeliest_tails(likely)
    second, reach, likely = np.zeros(which.size), np.ones(which.size), likely[which]
    if parts := visible_second_scales(bits, top_share):
        grid = _OFFSETS, _SLOPES.size, _CURVATURES.size
        two = tails_of_two_scales(bits, ratios, shares, prior.reshape(grid), parts)
        kept = _likeliest_tails(two.log_weights)
        which = np.concatenate((which, two.first[kept]))
        second = np.concatenate((second, two.share[kept]))
        reach = np.concatenate((reach, two.reach[kept]))
        likely = np.concatenate((likely + math.log(1 - SECOND_CHANCE), two.log_weights[kept]))
    weights = normalised_tail_weights(likely)
    return Tails(anchor, log_share[which], slope[which], curvature[which], weights, second, reach)


def _likeliest_tails(log_weights: FloatArray) -> IntArray:
    """The indices of the tails that are kept, the likeliest first."""
    best: IntArray = np.argsort(-log_weights, kind="stable")[:_KEPT]
    kept: IntArray = best[log_weights[best] > log_weights[best[0]] - _NEGLIGIBLE]
    return kept


@lru_cache(maxsize=4)
def _grid_of_tails(
    top_share: float, relative: float
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """All tails of the family, and their log priors."""
    straight = np.log(np.maximum(_CURVATURES, _LEAST_CURVATURE))
    # The grid is uneven: a curvature stands for all that are nearest to it.
    width = np.log(np.gradient(np.log(_CURVATURES + _LEAST_CURVATURE)))
    # Above the body of the data all tails are flatter: an exponential one has the slope −ln S0.
    expected = _SLOPE * min(1.0, math.log(relative) / math.log(_TAIL))
    slope_deviations = (np.log(_SLOPES) - math.log(expected)) / _SLOPE_SCALE
    slope_prior = -2 * np.log1p(np.square(slope_deviations) / 3)
    curvature_prior = (
        _normal_tail_density((straight - math.log(_CURVATURE)) / _CURVATURE_SD) + width
    )
    offsets = np.linspace(-3.2, 3.2, _OFFSETS)
    offset, slope, curvature = (
        grid.ravel() for grid in np.meshgrid(offsets, _SLOPES, _CURVATURES, indexing="ij")
    )
    anchor_prior = _normal_tail_density(offsets / _ANCHOR_SD)
    prior = anchor_prior[:, None, None] + slope_prior[:, None] + curvature_prior
    return math.log(top_share) + offset, slope, curvature, prior.ravel()


def _normal_tail_density(deviations: FloatArray) -> FloatArray:
    """The log density of a normal distribution, up to a constant."""
    density: FloatArray = -np.square(deviations) / 2
    return density


_PER_OCTAVE = 12
# ln κ ~ N(ln 2.5, 0.4): how fast the tails of real streams fall.
_LOG_SLOPE, _LOG_SLOPE_SD = math.log(2.5), 0.4
_LOCATED_SLOPES = 25
# Possible shares of the values on one side of 0, if both sides are asked about.
_MASSES = (1.0, 0.7, 0.5, 0.3, 0.15, 0.06, 0.02, 0.005)
_HIGHEST = 0.6  # of the values of a side lie above its first rung, at most


def location_levels(top: int) -> tuple[float, ...]:
    """B/2, B/4, … down to at most one step.

    >>> location_levels(20)
    (10.0, 5.0, 2.5, 1.25, 0.625)
    """
    return tuple(top / 2**j for j in range(1, max(1, math.ceil(math.log2(top))) + 1))


@dataclass(frozen=True)
class TailLocation:
    """The range in which a ladder of levels may begin.

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


def located_tail(
    bits: TailBits, top: int, shares: tuple[float, ...], *, partial: bool = False
) -> TailLocation:
    """The posterior of the first round: the levels with these shares.

    The family is log-logistic, S(x) = p/(1 + (x/μ)^κ): a body of any scale and a power tail. p is
    1; if only a part of the values lies on this side of 0 (`partial`), any of `_MASSES`.
    """
    medians = np.geomspace(0.25, top, math.ceil(_PER_OCTAVE * math.log2(4 * top)) + 1)
    deviations = np.linspace(-3.0, 3.0, _LOCATED_SLOPES)
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

    weights = normalised_tail_weights(prior + bits.log_likelihood(shares_above(bits.level)))
    kept = weights > 1e-9  # of the posterior; what is left out moves no level
    mass, median, slope, weights = mass[kept], median[kept], slope[kept], weights[kept]
    levels = np.geomspace(0.25, top, medians.size).clip(max=top)
    whole = float(weights @ mass / weights.sum())
    scale = min(1.0, _HIGHEST * whole / shares[0]) if partial else 1.0
    wanted = tuple(scale * share for share in shares)
    ratio = np.maximum(mass / wanted[0] - 1, 1e-6)  # of a side with fewer values: next to 0
    own = np.minimum(median * ratio ** (1 / slope), top)
    low, high = weighted_tail_quantiles(own[:, None], weights, (0.05, 0.95))[:, 0]
    found = crossings_of_tail(levels, weights @ shares_above(levels), wanted)
    return TailLocation(found, float(high / low), whole, scale)


def crossings_of_tail(
    levels: FloatArray, falling: FloatArray, shares: tuple[float, ...]
) -> tuple[float, ...]:
    """Where a decreasing curve over `levels` takes the values `shares`, in logarithms."""
    found = np.interp(-np.log(shares), -np.log(np.maximum(falling, 1e-300)), np.log(levels))
    # exp(log(x)) may be more than x, and devices refuse a level above the bound.
    return tuple(min(float(level), float(levels[-1])) for level in np.exp(found))
