"""Where most values lie: the scores of a first choice of θ that knows too little for a tail.

A choice that climbs from 1 unit pays for every factor of e (`price_of_thresholds`). Where few
values choose, they cannot pay for the climb up to the bound, and θ would stay where it began.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tidegate.lattice import COARSE, IntArray, Lattice
from tidegate.threshold.price_of_thresholds import SCORE_PARTS, log_of

if TYPE_CHECKING:
    from tidegate.threshold.tail_quantile import TailQuantile

# What a value far below θ costs, as a part of one above it, and how far below: this many times.
FAR_BELOW, WIDE = Fraction(1, 3), 128
# The same for values of at most one unit, as a part of that: most of them are 0.
ZERO = Fraction(2, 5)
# Never more than this part of the values may lie above θ without being counted.
MOST = Fraction(1, 8)
FREE, ARTIFICIAL = 16, 10 * COARSE
# ε × values below which not even the bulk can be seen.
LEAST_KNOWN = 10
# The price of a θ that is e times larger, in 1/ε, at least and at most; and what the bulk is ahead
# by where the price is in between.
CHEAP, DEAR, PAYERS, AHEAD = Fraction(6, 5), Fraction(9, 2), Fraction(2, 3), 5
_WEIGHT = 1 << 12  # weights are multiples of this fraction
_LOG = 1 << 20
_DIGITS = 40


def sees_bulk(stage: TailQuantile, lattice: Lattice) -> bool:
    """Whether a first choice looks for the bulk: it could not climb to the bound, but sees some."""
    if stage.epsilon * stage.holdout < LEAST_KNOWN:
        return False
    return _cannot_climb(lattice.top, stage.reach(stage.holdout, stage.visible))


@lru_cache(maxsize=256)
def _cannot_climb(top: int, reach: Fraction) -> bool:
    return reach < Fraction(log_of(top))


def bulk_scores(
    stage: TailQuantile, above: IntArray, lattice: Lattice, allowed: NDArray[np.bool_]
) -> tuple[IntArray, int]:
    """Scores of allowed candidates as integers (of one stream, or in rows), and the denominator."""
    counts = np.concatenate((np.full((*above.shape[:-1], 1), stage.holdout << 8), above), axis=-1)
    cells = counts[..., :-1] - counts[..., 1:]
    steps = tuple(stage.candidates(lattice).tolist())
    known = Fraction(stage.epsilon * stage.holdout)
    public = _prices(steps, stage.epsilon, known)
    target = round(min(stage.target, MOST * stage.holdout) * SCORE_PARTS)
    cut = np.maximum(above * _WEIGHT, target)
    scores: IntArray = -(cut + cells @ _weights(steps) + public)
    return scores[..., allowed], int(SCORE_PARTS * (1 + FAR_BELOW))


@lru_cache(maxsize=64)
def _weights(steps: tuple[int, ...]) -> IntArray:
    """What a value of each cell (row) costs each candidate (column), in 4096ths."""
    logs = np.array([_rounded(log_of(step) * _LOG) for step in steps], dtype=np.int64)
    wide = _rounded(log_of(WIDE) * _LOG)
    far = np.minimum(np.maximum(logs[np.newaxis, :] - logs[:, np.newaxis], 0), wide)
    part = np.full(len(steps), int(FAR_BELOW * _WEIGHT), dtype=np.int64)
    part[0] = int(FAR_BELOW * ZERO * _WEIGHT)
    found = far * part[:, np.newaxis] // wide
    found.flags.writeable = False
    return found


@lru_cache(maxsize=64)
def _prices(steps: tuple[int, ...], epsilon: Fraction, known: Fraction) -> IntArray:
    start = log_of(FREE if steps[-1] > ARTIFICIAL else 1)
    length = Fraction(max(log_of(steps[-1]) - start, log_of(2)))
    price = min(max(CHEAP, (PAYERS * known - AHEAD) / length), DEAR) / epsilon
    with localcontext(Context(prec=_DIGITS)):
        each = Decimal(price.numerator) / Decimal(price.denominator) * SCORE_PARTS
        return np.array([_rounded(each * max(log_of(step) - start, 0)) for step in steps], dtype=np.int64)


def _rounded(number: Decimal) -> int:
    return int(number.to_integral_value(ROUND_HALF_EVEN))
