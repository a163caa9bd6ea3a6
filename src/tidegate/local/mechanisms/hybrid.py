"""The Hybrid Mechanism: stochastic rounding and the Piecewise Mechanism mixed, as one table."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from tidegate.lattice import FloatArray
from tidegate.local.integer_weights import whole_weights
from tidegate.local.mechanisms.piecewise import piecewise_probabilities, piecewise_variance
from tidegate.local.mechanisms.stochastic_rounding import (
    checked_for_rounding,
    rounding_reach,
    stochastic_rounding,
    stochastic_rounding_variance,
)
from tidegate.local.questions import ValueQuestion

# Below, the mixture has no advantage over stochastic rounding alone.
SWITCH = Fraction(61, 100)


def hybrid(threshold: int, epsilon: Fraction) -> ValueQuestion:
    """The value capped at θ, reported by the Hybrid Mechanism (HM): the paper's report.

    For ε ≤ 0.61 it is stochastic rounding. Above, a device uses the Piecewise Mechanism with
    probability 1 − e^(−ε/2) and stochastic rounding otherwise. Both are in one table: the cells of
    the one, then the two reports of the other, first −, then +.

    **Privacy.** Released: the number of a column. Which mechanism was used shows in it; that does
    not depend on the value, and either is ε-locally private. `whole_weights` keeps the largest of
    every column of the mixed table within e^ε of the least, `check` proves it.

    **Accuracy.** Unbiased, and the variance does not depend on the value for ε > 0.61: within 1 %
    of `hybrid_variance` for ε from 0.1 to 5.

    >>> question = hybrid(100, Fraction(1))
    >>> question.check(Fraction(1))
    >>> question.variance(np.array([0.0, 0.5, 1.0])).round(2)
    array([4.3 , 4.3 , 4.29])
    >>> hybrid_variance(np.array([0.0, 0.5, 1.0]), Fraction(1)).round(2)
    array([4.29, 4.29, 4.29])
    """
    if checked_for_rounding(epsilon) <= SWITCH:
        return stochastic_rounding(threshold, epsilon)
    return _hybrid_table(epsilon).at(threshold)


def hybrid_variance(x: FloatArray, epsilon: Fraction) -> FloatArray:
    """The variance of the mixture; for ε > 0.61 the paper's worst case, for every x.

    >>> root = math.exp(0.5)
    >>> paper = (rounding_reach(Fraction(1)) ** 2 + (root + 3) / (3 * (root - 1))) / root
    >>> bool(np.allclose(hybrid_variance(np.linspace(-1, 1, 5), Fraction(1)), paper))
    True
    """
    rounding = stochastic_rounding_variance(x, epsilon)
    if epsilon <= SWITCH:
        return rounding
    share = _piecewise_share_of_hybrid(epsilon)
    return share * piecewise_variance(x, epsilon) + (1 - share) * rounding


def _piecewise_share_of_hybrid(epsilon: Fraction) -> float:
    return -math.expm1(-float(epsilon) / 2)


@lru_cache(maxsize=16)
def _hybrid_table(epsilon: Fraction) -> ValueQuestion:
    inputs, middles, cells = piecewise_probabilities(epsilon)
    share, output = _piecewise_share_of_hybrid(epsilon), rounding_reach(epsilon)
    plus = 0.5 + inputs / (2 * output)
    coin = np.column_stack((1 - plus, plus))
    probabilities = np.hstack((share * cells, (1 - share) * coin))
    weights = whole_weights(probabilities, epsilon)
    return ValueQuestion.fitted(1, weights, [*middles.tolist(), -output, output])
