"""Second: how fast does the tail fall from there? A posterior over a family of tails."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tidegate.lattice import FloatArray
from tidegate.local.tail.bits import Bits, normalised

_CURVATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.3, 1.7, 2.2, 3.0, 4.0)
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
        return np.exp(_log_shares(self.log_share, self.slope, self.curvature, levels / self.anchor))

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


def posterior(bits: Bits, anchor: float, top_share: float, best_share: float) -> Tails:
    """The tails that the bits and the prior speak for.

    Prior: ln(S0/top_share) ~ N(0, 1.2), since the anchor was found by bits too; s ~ N(0.6) with sd
    0.4 below and 1.0 above; ln h ~ Cauchy(ln 2, 0.5); and where the threshold will lie, at the
    share s*, the slope k* = h + s·ln(S0/s*) has ln k* ~ N(ln 3, 0.5).
    """
    log_share, slope, curvature, prior = _grid(top_share, best_share)
    shares = np.exp(_log_shares(log_share, slope, curvature, bits.level / anchor))
    log_weights = prior + bits.log_likelihood(shares)
    best = np.argsort(-log_weights, kind="stable")[:_KEPT]
    best = best[log_weights[best] > log_weights[best[0]] - _NEGLIGIBLE]
    return Tails(
        anchor, log_share[best], slope[best], curvature[best], normalised(log_weights[best])
    )


@lru_cache(maxsize=4)
def _grid(
    top_share: float, best_share: float
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """All tails of the family, and the logarithm of the prior."""
    offset, slope, curvature = (
        grid.ravel()
        for grid in np.meshgrid(
            np.linspace(-3.2, 3.2, 27), np.geomspace(0.06, 12.0, 30), _CURVATURES, indexing="ij"
        )
    )
    log_share = math.log(top_share) + offset
    at_best = np.maximum(slope + curvature * (log_share - math.log(best_share)), 1e-3)
    prior = (
        -((offset / _ANCHOR_SD) ** 2) / 2
        - np.where(curvature < 0.6, ((curvature - 0.6) / 0.4) ** 2, (curvature - 0.6) ** 2) / 2
        - np.log1p(((np.log(slope) - math.log(2)) / 0.5) ** 2)
        - ((np.log(at_best) - math.log(3)) / 0.5) ** 2 / 2
    )
    return log_share, slope, curvature, prior
