"""The price of each candidate of `TailQuantile`: on ln θ, from public settings and facts."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from tidegate.lattice import IntArray, Lattice

if TYPE_CHECKING:
    from tidegate.threshold.tail_quantile import TailQuantile

# The price of the bound, as a part of the hold-out: with more, the smallest candidate, which nearly
# all values exceed, would look cheap beside the right one.
AFFORDABLE = Fraction(1, 2)
# Where it is known how many values lie above 0, the price of a θ that is e times larger is at most
# this many targets: chances of a θ that is f times too high fall as f^−6. The kink at the target is
# then the best place for every tail of index above 2; a heavier one leaves up to twice as many.
STEEP = 2
# And at least this price, in 1/ε: chances of a θ that is f times too high fall as f^−2.
LEAST_PRICE = 2
# Where it is known up to which θ values climb (the present one, mostly), no more than this above
# it, and no less below. The error of a θ that is f times too high grows as f², so 2 would leave the
# mean error to chance; with much more, a second scale of values could not pay for its θ.
FAR_PRICE = 3
# In a late choice the level distinguishes light tails from heavy ones (`late_price`). The price is
# this times r, in 1/ε, and holds up to this many times the present θ.
LATE_STEEP, LATE_REACH = 10, Fraction(3, 2)
_LATE_PARTS = 4  # late prices are multiples of 1/4: streams alike pay the same
SCORE_PARTS = 1 << 20  # scores are integers of this fraction of a value
_DIGITS = 40


@lru_cache(maxsize=1024)  # keys whose choices know as much pay the same
def threshold_penalties(
    stage: TailQuantile,
    top: int,
    climbing_from: int,
    climbing_to: int | None,
    positive: int | None,
    late: Fraction | None = None,
) -> IntArray:
    """The price of each candidate θ, price·ln θ, in fractions of a value; `top` is the bound.

    Above `climbing_to` the price is another; `late`: that of `late_price`, which holds up to half
    as much again. Privacy: no value is looked at.
    """
    least = LEAST_PRICE if climbing_to is None else FAR_PRICE
    known = top if climbing_to is None else min(top, climbing_to)
    reach = known if late is None else min(top, math.floor(LATE_REACH * known))
    with localcontext(Context(prec=_DIGITS)):
        price = _price_of_threshold(stage, positive, (climbing_from, known), least, late)
        each, far = (
            Decimal(one.numerator) / Decimal(one.denominator)
            for one in (price * SCORE_PARTS, min(price, FAR_PRICE / stage.epsilon) * SCORE_PARTS)
        )
        logs = _threshold_logs(
            tuple(stage.candidates(Lattice(Fraction(top), Fraction(1))).tolist())
        )
        last = log_of_threshold(reach)
        near = [each * log for log in logs if log <= last]
        costs = near + [each * last + far * (log - last) for log in logs[len(near) :]]
        found = [int(cost.to_integral_value(ROUND_HALF_EVEN)) for cost in costs]
    return np.array(found, dtype=np.int64)


def _price_of_threshold(
    stage: TailQuantile,
    positive: int | None,
    climb: tuple[int, int],
    least: int,
    late: Fraction | None,
) -> Fraction:
    """The price of a θ that is e times larger, in values."""
    # At least a factor of 2, as if the end were as far.
    length = Fraction(
        max(log_of_threshold(max(climb[1], 2)) - log_of_threshold(climb[0]), log_of_threshold(2))
    )
    many = stage.holdout if positive is None else positive
    affordable = AFFORDABLE * (many - stage.target) / length
    if positive is None:
        return min(stage.target, max(stage.visible / stage.epsilon, affordable))
    most = STEEP * stage.target if late is None else late / stage.epsilon
    return min(most, max(least / stage.epsilon, affordable))


def late_price(stage: TailQuantile, level: float, theta: int) -> Fraction:
    """The largest price of a factor of e in a late choice, in 1/ε: 10·r, between 3 and 10.

    r = level/θ·ln(1/share) for the share of values above θ that is aimed at: 1 for exponential
    values, more for lighter tails, 0.1 to 0.6 for heavy ones. A tail of index κ gains by a larger
    θ as long as κ times the number of values above it exceeds the price. So a steep price keeps
    chance from a θ that is too high, and cuts heavy tails only, which r shows. Privacy: a function
    of settings, θ and a released level.
    """
    with localcontext(Context(prec=_DIGITS)):
        share = stage.target / stage.holdout
        folds = Fraction(log_of_threshold(share.denominator) - log_of_threshold(share.numerator))
    ratio = Fraction(min(1.0, max(0.0, level / theta))) * folds
    asked = Fraction(round(LATE_STEEP * ratio * _LATE_PARTS), _LATE_PARTS)
    return min(Fraction(LATE_STEEP), max(Fraction(FAR_PRICE), asked))


@lru_cache(maxsize=64)
def _threshold_logs(steps: tuple[int, ...]) -> tuple[Decimal, ...]:
    """The logarithms of candidates in growing order."""
    return tuple(map(log_of_threshold, steps))


@lru_cache(maxsize=1024)
def log_of_threshold(step: int) -> Decimal:
    """ln of an integer, with the same digits on every machine."""
    with localcontext(Context(prec=_DIGITS)):
        return Decimal(step).ln()
