"""Stochastic rounding: one bit a value."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from tidegate.errors import SettingError
from tidegate.lattice import FloatArray
from tidegate.local.integer_weights import coin_weights
from tidegate.local.questions import ValueQuestion

SMALLEST = Fraction(1, 1_000_000)  # below, weights of 32 bits do not tell two rows apart
LARGEST = Fraction(10)  # above, the grids are too coarse for the little noise that is left


def stochastic_rounding(threshold: int, epsilon: Fraction) -> ValueQuestion:
    """The value capped at θ, rounded to 0 or θ by a coin, then randomized response (SR).

    **Privacy.** Released: one bit. Its two rows are (truth, lie) and (lie, truth), with
    truth + lie = 2**32 and truth ≤ e^ε·lie in integers (`coin_weights`); the value only decides
    how the two rows are mixed. So the report is ε-locally private.

    **Accuracy.** Unbiased; on [−1, 1] the variance is reach² − x², where reach is
    2**32/(truth − lie) ≈ (e^ε + 1)/(e^ε − 1): the least of all mechanisms for ε ≤ 0.61.

    >>> question = stochastic_rounding(100, Fraction(1))
    >>> question.check(Fraction(1))
    >>> question.decoded.round(2)  # a report of 0 or 1 is worth
    array([-58.2, 158.2])
    >>> question.variance(np.array([0.0, 1.0])).round(3)
    array([4.683, 3.683])
    """
    return _rounding_table(checked_for_rounding(epsilon)).at(threshold)


def stochastic_rounding_variance(x: FloatArray, epsilon: Fraction) -> FloatArray:
    """The paper's formula, ((e^ε + 1)/(e^ε − 1))² − x².

    >>> stochastic_rounding_variance(np.array([0.0, 1.0]), Fraction(1)).round(3)
    array([4.683, 3.683])
    """
    result: FloatArray = rounding_reach(epsilon) ** 2 - np.square(x)
    return result


def rounding_reach(epsilon: Fraction) -> float:
    """The decoded value of a report of stochastic rounding on [−1, 1]: (e^ε + 1)/(e^ε − 1)."""
    return 1 / math.tanh(float(epsilon) / 2)


def checked_for_rounding(epsilon: Fraction) -> Fraction:
    """Check that ε is one that the tables of this package support."""
    if not SMALLEST <= epsilon <= LARGEST:
        raise SettingError("epsilon", f"must be from {float(SMALLEST):g} to {float(LARGEST):g}")
    return epsilon


@lru_cache(maxsize=16)
def _rounding_table(epsilon: Fraction) -> ValueQuestion:
    lie, truth = coin_weights(epsilon)
    return ValueQuestion.fitted(1, [[truth, lie], [lie, truth]], [-1.0, 1.0])
