"""Third: the threshold with the least expected error, and what to add to reports cut at it."""

from __future__ import annotations

import math

import numpy as np

from tidegate.lattice import FloatArray
from tidegate.local.survey import Decision
from tidegate.local.tail.bits import weighted_quantiles
from tidegate.local.tail.family import Tails

_PER_OCTAVE = 16


def decide(
    tails: Tails, top: int, *, horizon: int, variance: float, location_span: float = 1.0
) -> Decision:
    """The threshold θ that minimises the posterior mean of the root mean squared error.

    A range sum over up to r values cut at θ misses Σ excess: ex(θ) = ∫_θ^B S(x) dx a value, of
    which d = half its posterior median is added back. Its mean squared error is
    (r/3)·V·θ²/4 + (r²/6)·[(ex − d)² + (0.3·median)²]; the last term is what the family of tails
    does not know of itself. Its root is averaged: in the mean of the square the farthest tails of
    the prior would rule.

    The range of the best threshold is that of each tail's own best one. As far as the bits left the
    share at the anchor open, the anchor itself is no better known than the first round knew it:
    the range is widened by that part of `location_span`.
    """
    levels = candidates(tails, top)
    excess = excesses(tails, levels)
    median = weighted_quantiles(excess, tails.weights, (0.5,))[0]
    offset = median / 2
    noise = horizon / 3 * variance * levels**2 / 4
    unknown = np.square(excess - offset) + np.square(0.3 * median)
    errors = tails.weights @ np.sqrt(noise + horizon**2 / 6 * unknown)
    chosen = int(np.argmin(errors))
    own = np.argmin(noise + horizon**2 / 6 * np.square(excess), axis=1)
    low, high = weighted_quantiles(levels[own][:, None], tails.weights, (0.05, 0.95))[:, 0]
    widened = location_span ** (tails.unknown_anchor / 2)
    return Decision(
        threshold=max(1, round(levels[chosen])),
        offset=float(offset[chosen]),
        low=float(low / widened),
        high=min(float(high * widened), float(top)),
    )


def candidates(tails: Tails, top: int) -> FloatArray:
    """16 an octave, from half the level where the tail begins to the bound."""
    lowest = min(max(1.0, tails.anchor / 2), float(top))
    octaves = math.log2(top / lowest)
    return np.geomspace(lowest, top, math.ceil(_PER_OCTAVE * octaves) + 1).clip(max=top)


def excesses(tails: Tails, levels: FloatArray) -> FloatArray:
    """∫_level^B S for each tail and level, by trapezoids between the levels."""
    shares = tails.shares_above(levels)
    cells = (shares[:, 1:] + shares[:, :-1]) / 2 * np.diff(levels)
    beyond = np.cumsum(cells[:, ::-1], axis=1)[:, ::-1]
    return np.hstack((beyond, np.zeros((len(shares), 1))))
