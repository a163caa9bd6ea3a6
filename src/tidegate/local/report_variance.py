"""Choose the table for the stream's reports; the noise of a table."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np

from tidegate.lattice import FloatArray
from tidegate.local.mechanisms import (
    generalised_piecewise,
    hybrid,
    laplace,
    optimal,
    piecewise,
    stochastic_rounding,
)
from tidegate.local.questions import ValueQuestion

MECHANISMS: dict[str, Callable[[int, Fraction], ValueQuestion]] = {
    "optimal": optimal,
    "hybrid": hybrid,
    "piecewise": piecewise,
    "stochastic-rounding": stochastic_rounding,
    "laplace": laplace,
    "generalised-piecewise": generalised_piecewise,
}
_GRID = 1025


def largest_report_variance(question: ValueQuestion) -> float:
    """The largest variance of a report, in squared steps, over all values."""
    return float(_report_variances(question).max()) * (question.span / 2) ** 2


def worst_report_variance(question: ValueQuestion) -> FloatArray:
    """The largest variance of a report, and of capped values: half of them at either cap."""
    return np.array([largest_report_variance(question), (question.span / 2) ** 2])


def expected_variance(question: ValueQuestion, *, both_sides: bool = False) -> float:
    """The variance on [−1, 1] of a report of typical data, most of it far below the threshold.

    Values thin out as e^(−6v/θ), except for one in a hundred that is cut at θ. If values lie on
    `both_sides` of 0, they thin out to both.
    """
    distances = np.abs(np.linspace(-1.0, 1.0, _GRID)) if both_sides else np.linspace(0, 1, _GRID)
    weights = np.exp(-6 * distances)
    weights *= 0.99 / weights.sum()
    weights[-1] += 0.01
    return float(weights @ _report_variances(question))


@lru_cache(maxsize=16)
def _report_variances(question: ValueQuestion) -> FloatArray:
    return question.variance(np.linspace(-1.0, 1.0, _GRID))
