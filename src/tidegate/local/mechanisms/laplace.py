"""Laplace noise on a fixed grid: the baseline of all other mechanisms."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from tidegate.lattice import FloatArray
from tidegate.local.integer_weights import whole_weights
from tidegate.local.mechanisms.stochastic_rounding import checked_for_rounding
from tidegate.local.questions import ValueQuestion

_ROWS, _CELLS = 33, 129
_TAIL = 8  # scales beyond ±1, after which reports are collected in the last cell


def laplace(threshold: int, epsilon: Fraction) -> ValueQuestion:
    """The value capped at θ plus Laplace noise of scale 2/ε on [−1, 1], as the index of a cell.

    **Privacy.** Released: the number of a cell; what lies beyond eight scales counts to the last
    one. The noise has sensitivity 2 and scale 2/ε, and cells are post-processing of it; that the
    largest weight of a column is at most e^ε times its least is kept by `whole_weights` and proven
    of the integers by `check`. So the report is ε-locally private.

    **Accuracy.** Unbiased; the variance is within 1 % of 8/ε² for ε from 0.1 to 5. That is above
    `piecewise` and `hybrid` everywhere: reports far beyond the range waste what bounded ones save.

    >>> question = laplace(100, Fraction(2))
    >>> question.check(Fraction(2))
    >>> question.variance(np.array([0.0, 1.0])).round(2)
    array([2., 2.])
    """
    return _laplace_table(checked_for_rounding(epsilon)).at(threshold)


def laplace_variance(x: FloatArray, epsilon: Fraction) -> FloatArray:
    """8/ε², for every value."""
    return np.full(np.shape(x), 8 / float(epsilon) ** 2)


@lru_cache(maxsize=16)
def _laplace_table(epsilon: Fraction) -> ValueQuestion:
    scale = 2 / float(epsilon)
    inputs = np.linspace(-1.0, 1.0, _ROWS)
    end = 1 + _TAIL * scale
    edges = np.linspace(-end, end, _CELLS + 1)
    middles = (edges[:-1] + edges[1:]) / 2
    edges[0], edges[-1] = -np.inf, np.inf
    distance = (edges - inputs[:, None]) / scale
    below = np.where(distance < 0, np.exp(np.minimum(distance, 0)) / 2, 0.0)
    below += np.where(distance >= 0, 1 - np.exp(-np.maximum(distance, 0)) / 2, 0.0)
    return ValueQuestion.fitted(1, whole_weights(np.diff(below, axis=1), epsilon), middles.tolist())
