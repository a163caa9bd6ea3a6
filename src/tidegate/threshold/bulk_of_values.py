"""Scores for a first choice of θ that has too few values to see a tail: where most values lie.

A choice that climbs from 1 unit to a tail quantile pays 3/ε values for each factor of e
(`price_of_thresholds`), and 20/ε values cannot pay for the climb to a bound of 200,000. Here a
value that lies far below θ counts against it, as one above it does, so θ need not be dear to be
kept from being far too high, and neither a near nor a loose bound decides:

    cost of θ for a value     1 ┤▔▔▔▔▔▔▔ above θ (all but a target number of values)
                            1/3 ┤                   ▁▁▂▂▃▃ 32 times below θ and further
                              0 ┤        ▁▁▁▁ near θ
                                        θ    θ/10    θ/100

Guarantee: pure ε-DP, with permute-and-flip at the rate ε/(1 + h), h = 1/3. Released: θ. The score
of a candidate θ_j is −max(A_j, target) − B_j − price_j; target and prices are public. A value v
adds a_j(v) to A_j (`TailQuantile.above`: 0 up to θ_j, then up to 1) and b_j(v) to B_j, the mean of
h·q_j(i), 0 ≤ q ≤ 1, over the cells i ≤ j that it belongs to; so 0 ≤ b_j ≤ h·(1 − a_j). Replace v by
w > v. A_j rises by a_j(w) − a_j(v) ≥ 0, max(A_j, target) by no more than that and not below 0, and
B_j changes by b_j(w) − b_j(v). Hence the cost of every candidate changes by

    at most   a_j(w) + h·(1 − a_j(w)) ≤ 1,     and at least   −b_j(v) ≥ −h.

For w < v it is between −1 and h. So scores go up by at most x and down by at most y, x + y ≤ 1 + h;
two monotone steps of x and of y (`permute_and_flip`) cost rate·(x + y) ≤ ε. The number of values is
public here; where it is noisy (events), an added event of size w changes costs like a 0 that became
w. Exact: scores are integers, weights and prices are rounded before they meet a value.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tidegate.lattice import COARSE, IntArray, Lattice
from tidegate.threshold.price_of_thresholds import SCORE_PARTS, log_of_threshold

if TYPE_CHECKING:
    from tidegate.threshold.tail_quantile import TailQuantile

# h: what a value far below θ costs, as a part of one above it; it is far this many times below.
FAR_BELOW, WIDE = Fraction(1, 3), 32
# The same for values of at most one unit, as a part of that: most of them are 0.
ZERO = Fraction(1, 5)
# This share of the values above θ costs nothing more, if the target allows it.
MOST = Fraction(1, 16)
# A climb must be possible if only this share of the values is not 0: the real share is unknown.
LEAST_POSITIVE = Fraction(1, 4)
# ε × values below which not even the bulk can be seen.
LEAST_KNOWN = 10
# The price of a θ that is e times larger, in 1/ε. A higher one keeps θ from being a little high,
# and leaves it at the bottom where half of the values are 0: the others must pay for the climb.
PRICE = Fraction(4, 5)
# Where there are more steps than a default resolution makes of a bound, they are a unit of the
# data: the first ones have no price.
ARTIFICIAL, FREE = 10 * COARSE, 16
# For answers: how many times as high as where prices begin chance may leave θ (the second limit if
# the released share is below the third number), and how far below the bound; what part of the
# values counts as gathered near one candidate; what noise makes up for, in 1/ε.
_ASTRAY, _FAR_ASTRAY, _MOSTLY_ZERO = 4, 64, 0.1
_FAR_BOUND, _GATHERED, _LUCK = 1000, 0.9, 2.5
_PART_ASTRAY, _PART_FAR = 64, 300  # the same where steps are few, or a part of the bound
_WEIGHT = 1 << 12  # weights are multiples of this fraction
_FAR_BELOW = int(FAR_BELOW * _WEIGHT)  # rounded down; h is the rest
_LOG = 1 << 20  # and logarithms of this one
_DIGITS = 40


def sees_bulk(stage: TailQuantile, lattice: Lattice) -> bool:
    """Whether a first choice uses these scores: it cannot climb to the bound, but knows enough.

    Most values may be 0, and those cannot climb: a quarter must be able to. Public settings decide.
    """
    if stage.epsilon * stage.holdout < LEAST_KNOWN:
        return False
    positive = math.floor(LEAST_POSITIVE * stage.holdout)
    return _bulk_cannot_climb(lattice.grains, stage.reach(positive, stage.visible))


@lru_cache(maxsize=256)
def _bulk_cannot_climb(top: int, reach: Fraction) -> bool:
    return reach < Fraction(log_of_threshold(top))


def may_miss_bulk(theta: int, top: int, known: float, share: float) -> bool:
    """Whether a first choice may have put θ far below this share of values by chance.

    From public facts (θ and the bound `top` in grains) and a released sum: `known` is ε × values of
    the choice, `share` the sum as a part of what it would be if all values were cut at θ. The
    candidate near those values costs them nothing, but pays for the climb, for zeros, and for how
    values scatter (a tenth, say). Where it
    is cheaper by less than 2.5/ε, noise leaves θ at the bottom in one choice of 7 and more, mostly
    up to 4 times as high as where prices begin, and up to 64 times if nearly all others are 0. Only
    where the bound lies 1,000 times higher still: a θ that fits its bound is mostly right. Where
    steps are a part of the bound, or few, prices begin at one step: up to 64 steps then, and 300
    times. Free: a function of public facts.
    """
    start, astray, far = FREE, FREE * _ASTRAY, _FAR_BOUND
    if share < _MOSTLY_ZERO:
        astray = FREE * _FAR_ASTRAY
    if top <= ARTIFICIAL:
        start, astray, far = 1, _PART_ASTRAY, _PART_FAR
    if theta > astray or theta * far > top:
        return False
    zeros = float(FAR_BELOW * ZERO) * (1 - share) * known
    climb = float(PRICE) * math.log(top / start)
    return _GATHERED * share * known <= float(MOST) * known + zeros + climb + _LUCK


def bulk_scores(
    stage: TailQuantile, above: IntArray, lattice: Lattice, allowed: NDArray[np.bool_]
) -> tuple[IntArray, int]:
    """Integer scores of the allowed candidates (of one stream, or in rows), and their denominator.

    The latter has the factor 1 + h: a choice at the rate ε/denominator costs ε.
    """
    steps = tuple(stage.ladder(lattice).tolist())
    whole = SCORE_PARTS // _WEIGHT  # what `above` counts a value as
    first = np.full((*above.shape[:-1], 1), stage.holdout * whole)
    cells = -np.diff(above, axis=-1, prepend=first)
    target = round(min(stage.target, MOST * stage.holdout) * SCORE_PARTS)
    cut = np.maximum(above * _WEIGHT, target)
    public = _bulk_prices(steps, stage.epsilon)
    scores: IntArray = -(cut + cells @ _bulk_weights(steps) + public)
    return scores[..., allowed], SCORE_PARTS + _FAR_BELOW * whole


@lru_cache(maxsize=64)
def _bulk_weights(steps: tuple[int, ...]) -> IntArray:
    """h·q: the cost of a value in each cell (row) for candidates above it (columns), in 4096ths.

    Cell i has the values above candidate i − 1 up to candidate i.
    """
    logs = np.array(
        [_rounded_bulk(log_of_threshold(step) * _LOG) for step in steps], dtype=np.int64
    )
    wide = _rounded_bulk(log_of_threshold(WIDE) * _LOG)
    below = np.clip(logs - logs[:, np.newaxis], 0, wide)
    most = np.full(logs.size, _FAR_BELOW, dtype=np.int64)
    most[0] = int(_FAR_BELOW * ZERO)
    found: IntArray = below * most[:, np.newaxis] // wide
    found.flags.writeable = False  # everyone gets this one
    return found


@lru_cache(maxsize=256)
def _bulk_prices(steps: tuple[int, ...], epsilon: Fraction) -> IntArray:
    """The price of each candidate itself, in fractions of a value."""
    start, price = (
        log_of_threshold(FREE if steps[-1] > ARTIFICIAL else 1),
        PRICE / epsilon * SCORE_PARTS,
    )
    with localcontext(Context(prec=_DIGITS)):
        each = Decimal(price.numerator) / Decimal(price.denominator)
        costs = [
            _rounded_bulk(each * max(log_of_threshold(step) - start, Decimal(0))) for step in steps
        ]
    return np.array(costs, dtype=np.int64)


def _rounded_bulk(number: Decimal) -> int:
    return int(number.to_integral_value(ROUND_HALF_EVEN))
