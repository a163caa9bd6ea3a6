"""The answers to one-bit questions, and how likely a tail makes them.

Second: how fast does the tail fall from there? A posterior over a family of tails.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from tidegate.lattice import FloatArray, IntArray
from tidegate.local.privacy_loss import WORDS
from tidegate.local.questions import TailQuestion
from tidegate.local.survey import Tally

# Relative standard deviation of the share above a level, between rounds.
_DRIFT = 0.3


@dataclass(frozen=True)
class Bits:
    """`ones` of `count` devices that were asked about `level` said that they were above it.

    A device lies with the probability `lie`, so P(1) = lie + (1 − 2·lie)·S(level), where S(x) is
    the share of values above x.
    """

    level: FloatArray
    ones: FloatArray
    count: FloatArray
    lie: FloatArray

    @classmethod
    def of(cls, tallies: Sequence[Tally]) -> Bits:
        """All of them, in the order in which they were asked."""
        rows = [
            (question.level, counts[1], sum(counts), question.lie / WORDS)
            for tally in tallies
            for question, counts in zip(tally.questions, tally.counts, strict=True)
            if isinstance(question, TailQuestion) and sum(counts) > 0
        ]
        level, ones, count, lie = np.array(rows, dtype=np.float64).reshape(-1, 4).T
        return cls(level, ones, count, lie)

    def above(self, level: float) -> Bits:
        """The questions about `level` or more."""
        kept = self.level >= level
        return Bits(self.level[kept], self.ones[kept], self.count[kept], self.lie[kept])

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
# A second scale: its chance, standard deviations that its share has, its most, how far it lies.
_SECOND_CHANCE, _VISIBLE, _LARGEST_SECOND, _REACHES = (
    0.3,
    (2.0, 4.0, 8.0, 16.0),
    0.6,
    (4.0, 10.0, 25.0),
)
_SECOND_FALL = 1.5  # how it falls: between an exponential and a normal distribution
_UNLIKELY = 7.0  # nats below the likeliest, by the prior
_OFFSETS = 27  # of the share at the anchor, from −3.2 to 3.2
_KEPT = 4000  # tails, at most; and none that is e^12 times less likely than the likeliest
_NEGLIGIBLE = 12.0
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

    @property
    def unknown_anchor(self) -> float:
        """How much of the prior variance of ln S0 the bits have left, from 0 to 1."""
        mean = self.weights @ self.log_share
        left = float(self.weights @ np.square(self.log_share - mean))
        return min(left / _ANCHOR_SD**2, 1.0)

    def shares_above(self, levels: FloatArray) -> FloatArray:
        """S(level): a row for each tail, a column for each level."""
        ratios = levels / self.anchor
        first = np.exp(_log_shares(self.log_share, self.slope, self.curvature, ratios))
        beyond = np.exp(-((ratios / self.reach[:, None]) ** _SECOND_FALL))
        return np.minimum(1.0, first + self.second[:, None] * beyond)

    def mean_shares(self, levels: FloatArray) -> FloatArray:
        """The posterior mean of S at each level."""
        mean: FloatArray = self.weights @ self.shares_above(levels)
        return mean


def _log_shares(
    log_share: FloatArray, slope: FloatArray, curvature: FloatArray, ratios: FloatArray
) -> FloatArray:
    logs = np.log(ratios)
    shape = np.empty((curvature.size, ratios.size))
    for value in np.unique(curvature):  # few: the powers are computed once for each
        power = logs if value == 0 else np.expm1(value * logs) / value
        shape[curvature == value] = power
    return np.minimum(0.0, log_share[:, None] - slope[:, None] * shape)


def posterior(bits: Bits, anchor: float, top_share: float, mass: float = 1.0) -> Tails:
    """The posterior over tails, given the bits and the prior.

    Prior: ln(S0/top_share) ~ N(0, 1.2), since the anchor was found by bits too; h is around 1.8,
    and ln s ~ N(ln 0.8, 0.8): what the tails of counts, amounts and durations have (an exponential
    distribution has h = 2.1 and s = 1 where the share above is 0.12). The logarithm of h follows
    Student's distribution with 3 degrees of freedom and scale 0.6: between a body of small values
    (say, nine zeros in ten) and a tail of large ones the slope may be next to nothing.

    That is all: one more prior, on the slope where the threshold will lie, was worth 5 nats against
    the cliff in which many streams end, more than some ten thousand bits say.

    A second scale has a chance of 0.3, but only if answers can show it: its share is 2, 4, 8 or
    16 standard deviations of a share, by the answers about the upper half of the levels, and below
    0.6 of `top_share`. Smaller ones would be left to the prior, which would push every threshold
    out.

    `mass` is the share of the values on this side of 0: what counts for the slope is the share
    above the anchor among them.
    """
    log_share, slope, curvature, prior = _grid(top_share, min(top_share / mass, _BULK))
    ratios = bits.level / anchor
    shares = np.exp(_log_shares(log_share, slope, curvature, ratios))
    parts = [part for part in _visible(bits) if part < _LARGEST_SECOND * top_share]
    chance = _SECOND_CHANCE if parts else 0.0
    every = np.arange(log_share.size)
    tails = [(every, 0.0, 1.0, prior + bits.log_likelihood(shares) + math.log(1 - chance))]
    some = _coarse(prior)
    # Those stand for all of them.
    width = math.log(np.exp(prior[some]).sum() / np.exp(prior).sum())
    each = math.log(chance / (len(parts) * len(_REACHES))) - width if parts else 0.0
    for part in parts:
        for reach in _REACHES:
            both = np.minimum(
                1.0, shares[some] + part * np.exp(-((ratios / reach) ** _SECOND_FALL))
            )
            tails.append((some, part, reach, prior[some] + bits.log_likelihood(both) + each))
    which, log_weights = (np.concatenate([row[column] for row in tails]) for column in (0, 3))
    sizes = [row[0].size for row in tails]
    second, reaches = (np.repeat([row[column] for row in tails], sizes) for column in (1, 2))
    best = np.argsort(-log_weights, kind="stable")[:_KEPT]
    best = best[log_weights[best] > log_weights[best[0]] - _NEGLIGIBLE]
    kept = which[best]
    return Tails(
        anchor,
        log_share[kept],
        slope[kept],
        curvature[kept],
        normalised(log_weights[best]),
        second[best],
        reaches[best],
    )


def _visible(bits: Bits) -> list[float]:
    """Shares that the answers about the upper half of the levels can tell from none."""
    upper = np.argsort(bits.level, kind="stable")[bits.level.size // 2 :]
    told = float((4 * bits.count[upper] * np.square(1 - 2 * bits.lie[upper])).sum())
    return [times / math.sqrt(told) for times in _VISIBLE] if told else []


def _coarse(prior: FloatArray) -> IntArray:
    """Every second tail of the family in each direction, without the least likely."""
    chosen = np.zeros((_OFFSETS, _SLOPES.size, _CURVATURES.size), dtype=np.bool_)
    chosen[::2, ::2, ::2] = True
    return np.flatnonzero(chosen.ravel() & (prior > prior.max() - _UNLIKELY))


@lru_cache(maxsize=4)
def _grid(
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
    offsets = np.linspace(-3.2, 3.2, _OFFSETS)
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
