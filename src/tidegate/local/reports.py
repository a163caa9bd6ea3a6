"""Which table a report of the stream is drawn from."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np

from tidegate.lattice import FloatArray
from tidegate.local.loss import coin_weights
from tidegate.local.questions import ValueQuestion

_GRID = 1025


def report_question(epsilon: Fraction, threshold: int) -> ValueQuestion:
    """The question for a value cut at `threshold` steps."""
    lie, truth = coin_weights(epsilon)
    return ValueQuestion.fitted(threshold, [[truth, lie], [lie, truth]], [-1.0, 1.0])


def largest_variance(question: ValueQuestion) -> float:
    """The largest variance of a report, in squared steps, over all values."""
    return float(_variances(question).max()) * (question.threshold / 2) ** 2


def expected_variance(question: ValueQuestion) -> float:
    """The variance on [−1, 1] of a report of typical data: most values far below the threshold.

    Values lie as e^(−6v/θ), except for one in a hundred that lies at the threshold.
    """
    weights = np.exp(-6 * np.linspace(0.0, 1.0, _GRID))
    weights *= 0.99 / weights.sum()
    weights[-1] += 0.01
    return float(weights @ _variances(question))


@cache
def _variances(question: ValueQuestion) -> FloatArray:
    return question.variance(np.linspace(-1.0, 1.0, _GRID))
