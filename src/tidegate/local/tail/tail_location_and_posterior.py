"""Answers to one-bit questions: how likely a tail makes them, and where the tail begins.

First: where, in orders of magnitude, does the tail begin (`located_tail`)? Second: how fast does it
fall from there? A posterior over a family of tails (`posterior`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tidegate.lattice import FloatArray
from tidegate.local.integer_weights import WORDS
from tidegate.local.questions import TailQuestion
from tidegate.local.survey import SurveyTally

# Relative standard deviation of the share above a level, between rounds.
_DRIFT = 0.3


@dataclass(frozen=True)
class TailBits:
    """`ones` of `count` devices that were asked about `level` said that they were above it.

    A device lies with the probability `lie`, so P(1) = lie + (1 − 2·lie)·S(level), where S(x) is
    the share of values above x.
    """

    level: FloatArray
    ones: FloatArray
    count: FloatArray
    lie: FloatArray

    @classmethod
    def of(cls, tallies: Sequence[SurveyTally]) -> TailBits:
        """All of them, in the order in which they were asked."""
        rows = [
            (question.level, counts[1], sum(counts), question.lie / WORDS)
            for tally in tallies
            for question, counts in zip(tally.questions, tally.counts, strict=True)
            if isinstance(question, TailQuestion) and sum(counts) > 0
        ]
        level, ones, count, lie = np.array(rows, dtype=np.float64).reshape(-1, 4).T
        return cls(level, ones, count, lie)

    def above(self, level: float) -> TailBits:
        """The questions about `level` or more."""
        kept = self.level >= level
        return TailBits(self.level[kept], self.ones[kept], self.count[kept], self.lie[kept])

    def log_likelihood(self, shares: FloatArray) -> FloatArray:
        """ln P(bits) up to a constant, for each row of shares S(level).

        Normal, not binomial, with more variance than coins have: streams have days and seasons, so
        that the share above a level differs between rounds. By how much is in proportion to the
        share. So a round that met a busy hour cannot outvote the others, least of all on levels in
        the body of the data.
        """
        signal = 1 - 2 * self.lie
        chance = self.lie + signal * shares
        variance = chance * (1 - chance) / self.count + np.square(_DRIFT * signal * shares)
        misses = np.square(self.ones / self.count - chance)
        likelihood: FloatArray = -(np.log(variance) + misses / variance).sum(axis=-1) / 2
        return likelihood


def normalised(log_weights: FloatArray) -> FloatArray:
    """Weights that add up to 1, from logarithms up to a constant."""
    weights = np.exp(log_weights - log_weights.max())
    result: FloatArray = weights / weights.sum()
    return result


def weighted_quantiles(
    columns: FloatArray, weights: FloatArray, quantiles: tuple[float, ...]
) -> FloatArray:
    """For each column the least value below which such a part of the weights lies."""
    order = np.argsort(columns, axis=0)
    cumulative = np.cumsum(weights[order], axis=0)
    found = np.empty((len(quantiles), columns.shape[1]))
    for row, quantile in enumerate(quantiles):
        index = np.minimum((cumulative < quantile).sum(axis=0), len(columns) - 1)
        found[row] = np.take_along_axis(columns, order, axis=0)[index, np.arange(columns.shape[1])]
    return found


_SLOPES = np.geomspace(0.004, 40.0, 42)
_CURVATURES = np.array([0, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.3, 1.7, 2.2, 3, 4, 6, 9])
_LEAST_CURVATURE = 0.1  # what a power law counts as in logarithms: as good as straight
# Median of slope and curvature, and the scale of their logarithms (see `posterior`).
_SLOPE, _SLOPE_SCALE = 1.8, 0.6
_CURVATURE, _CURVATURE_SD = 0.8, 0.8
_TAIL, _BULK = 0.12, 0.7  # up to this share above the anchor; the largest there is
_KEPT = 2000  # tails, at most; and none that is e^15 times less likely than the likeliest
_NEGLIGIBLE = 15.0
_ANCHOR_SD = 1.2  # of ln S at the anchor
# Levels below this part of the top rung belong to the body, of which the family says nothing. (At
# 0.6, one busy hour that was asked about the body made tails look steep.)
BODY = 0.9


@dataclass(frozen=True)
class Tails:
    """Weighted tails: ln S(x) = ln S0 − h·((x/x0)^s − 1)/s.

    s → 0 is a power law (Pareto), 1 an exponential tail, 2 one like the normal distribution's; h is
    the slope −d ln S/d ln x at x0.
    """

    anchor: float
    log_share: FloatArray
    slope: FloatArray
    curvature: FloatArray
    weights: FloatArray

    @property
    def unknown_anchor(self) -> float:
        """How much of the prior variance of ln S0 the bits have left, from 0 to 1."""
        mean = self.weights @ self.log_share
        left = float(self.weights @ np.square(self.log_share - mean))
        return min(left / _ANCHOR_SD**2, 1.0)

    def shares_above(self, levels: FloatArray) -> FloatArray:
        """S(level): a row for each tail, a column for each level."""
        return np.exp(
            _log_shares_of_tail(self.log_share, self.slope, self.curvature, levels / self.anchor)
        )

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


def posterior(bits: TailBits, anchor: float, top_share: float, mass: float = 1.0) -> Tails:
    """The posterior over tails, given the bits and the prior.

    Prior: ln(S0/top_share) ~ N(0, 1.2), since the anchor was found by bits too; h is around 1.8,
    and ln s ~ N(ln 0.8, 0.8): what the tails of counts, amounts and durations have (an exponential
    distribution has h = 2.1 and s = 1 where the share above is 0.12). The logarithm of h follows
    Student's distribution with 3 degrees of freedom and scale 0.6: between a body of small values
    (say, nine zeros in ten) and a tail of large ones the slope may be next to nothing.

    That is all: one more prior, on the slope where the threshold will lie, was worth 5 nats against
    the cliff in which many streams end, more than some ten thousand bits say.

    `mass` is the share of the values on this side of 0: what counts for the slope is the share
    above the anchor among them.
    """
    log_share, slope, curvature, prior = _grid_of_tails(top_share, min(top_share / mass, _BULK))
    shares = np.exp(_log_shares_of_tail(log_share, slope, curvature, bits.level / anchor))
    log_weights = prior + bits.log_likelihood(shares)
    best = np.argsort(-log_weights, kind="stable")[:_KEPT]
    best = best[log_weights[best] > log_weights[best[0]] - _NEGLIGIBLE]
    return Tails(
        anchor, log_share[best], slope[best], curvature[best], normalised(log_weights[best])
    )


@lru_cache(maxsize=4)
def _grid_of_tails(
    top_share: float, relative: float
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """All tails of the family, and the logarithm of the prior."""
    straight = np.log(np.maximum(_CURVATURES, _LEAST_CURVATURE))
    # The grid is uneven: a curvature stands for all that are nearest to it.
    width = np.log(np.gradient(np.log(_CURVATURES + _LEAST_CURVATURE)))
    # Above the body of the data all tails are flatter: an exponential one has the slope −ln S0.
    expected = _SLOPE * min(1.0, math.log(relative) / math.log(_TAIL))
    slope_deviations = (np.log(_SLOPES) - math.log(expected)) / _SLOPE_SCALE
    slope_prior = -2 * np.log1p(np.square(slope_deviations) / 3)
    curvature_prior = _normal((straight - math.log(_CURVATURE)) / _CURVATURE_SD) + width
    offsets = np.linspace(-3.2, 3.2, 27)
    offset, slope, curvature = (
        grid.ravel() for grid in np.meshgrid(offsets, _SLOPES, _CURVATURES, indexing="ij")
    )
    anchor_prior = _normal(offsets / _ANCHOR_SD)
    prior = anchor_prior[:, None, None] + slope_prior[:, None] + curvature_prior
    return math.log(top_share) + offset, slope, curvature, prior.ravel()


def _normal(deviations: FloatArray) -> FloatArray:
    """ln of the normal density, up to a constant."""
    density: FloatArray = -np.square(deviations) / 2
    return density


_PER_OCTAVE = 12
# ln κ ~ N(ln 2.5, 0.4): how fast the tails of real streams fall.
_LOG_SLOPE, _LOG_SLOPE_SD = math.log(2.5), 0.4
_LOCATED_SLOPES = 25
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
class TailLocation:
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


def located_tail(
    bits: TailBits, top: int, shares: tuple[float, ...], *, partial: bool = False
) -> TailLocation:
    """The posterior of the first round: levels of these shares.

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
    return TailLocation(found, float(high / low), whole, scale)


def crossings(
    levels: FloatArray, falling: FloatArray, shares: tuple[float, ...]
) -> tuple[float, ...]:
    """Where a falling curve over `levels` takes the values `shares`, in logarithms."""
    found = np.interp(-np.log(shares), -np.log(np.maximum(falling, 1e-300)), np.log(levels))
    # exp(log(x)) may be more than x, and devices refuse a level above the bound.
    return tuple(min(float(level), float(levels[-1])) for level in np.exp(found))
