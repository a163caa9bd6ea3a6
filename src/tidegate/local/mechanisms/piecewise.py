"""The Piecewise Mechanism: reports near the value are likelier; and OGPM, its form of least error.

**OGPM as published** (`generalised_piecewise`, for values in [0, 1]; the closed form is the
paper's, the argument here is ours). The report of x has density p on an interval of length C around
x, moved inwards where it would leave [0, 1], and q = p/e^ε elsewhere in [0, 1]. With t = e^(ε/2):

    C = 1/(t + 1),   p = t,   so   p·C + q·(1 − C) = t/(t + 1) + 1/(t + 1) = 1.

Why one plateau: fix x and a least density q. Of all densities between q and e^ε·q, the one that is
as high as it may be near x and as low as it may be elsewhere has the least expected distance. Why
this C: the distance is largest for x at an end, where it is (q + (p − q)·C²)/2 with q = 1/(1 +
C·(e^ε − 1)). Its derivative in C vanishes where C²·(e^ε − 1) + 2C = 1, which is C = 1/(t + 1). (For
squared errors a longer plateau would be better, and so would a least density that is not the same
for all reports: `tests/local/test_generalised_piecewise.py` has both.)

The report is biased near 0 and 1: its mean is that of the moved plateau. Errors of sums do not
average out then. So the builder below makes it unbiased, as every question of a value is: rows of
the table are plateaus, decoded such that their means reach both ends. Plateau and ratio of the
Piecewise Mechanism are the same, so this is the table of `piecewise`, found in another way.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from tidegate.lattice import FloatArray
from tidegate.local.integer_weights import whole_weights
from tidegate.local.mechanisms.stochastic_rounding import checked_for_rounding
from tidegate.local.questions import ValueQuestion

# Rows and columns of the table for ε up to a limit. Mixing two rows that are `gap` apart adds up
# to gap²/4 to the variance, which itself falls with ε; cells as wide as `width` take width²/12
# off. These sizes keep the sum of both below 1 % (benchmarks/local.py measures it).
_PIECEWISE_SIZES = ((1.0, 17), (2.0, 25), (3.0, 37), (4.0, 53), (5.0, 73))
_LARGEST_PIECEWISE_SIZE = 129


def piecewise(threshold: int, epsilon: Fraction) -> ValueQuestion:
    """The value capped at θ, reported by the Piecewise Mechanism (PM) on a fixed grid.

    With t = e^(ε/2) and s = (t + 1)/(t − 1), the report of x in [−1, 1] has density p from
    (t·x − 1)/(t − 1) to (t·x + 1)/(t − 1) and p/e^ε elsewhere in [−s, s]. Here [−s, s] is cut into
    equal cells; a row of the table holds their probabilities for one of as many equidistant x.

    **Privacy.** Released: the number of a cell. Its probability, the integral of a density between
    p/e^ε and p, is between p/e^ε and p times its width in every row; `whole_weights` keeps this
    ratio in integers, and `check` proves it of the weights themselves. The value only decides how
    two rows are mixed. So the report is ε-locally private.

    **Accuracy.** Unbiased; the variance is within 1 % of `piecewise_variance` for ε from 0.1 to 5.

    >>> question = piecewise(100, Fraction(2))
    >>> question.check(Fraction(2))
    >>> question.reports
    25
    >>> question.variance(np.array([0.0, 1.0])).round(3)
    array([0.647, 1.229])
    >>> piecewise_variance(np.array([0.0, 1.0]), Fraction(2)).round(3)
    array([0.646, 1.228])
    """
    return _piecewise_table(checked_for_rounding(epsilon)).at(threshold)


def piecewise_variance(x: FloatArray, epsilon: Fraction) -> FloatArray:
    """The paper's formula, x²/(t − 1) + (t + 3)/(3(t − 1)²) with t = e^(ε/2)."""
    less = math.expm1(float(epsilon) / 2)
    result: FloatArray = np.square(x) / less + (less + 4) / (3 * less**2)
    return result


def piecewise_table_size(epsilon: Fraction) -> int:
    """The numbers of rows and columns."""
    return next(
        (size for limit, size in _PIECEWISE_SIZES if epsilon <= limit), _LARGEST_PIECEWISE_SIZE
    )


def piecewise_probabilities(epsilon: Fraction) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The inputs x of the rows, the midpoints of the cells, and the probability of each cell."""
    size = piecewise_table_size(epsilon)
    inputs = np.linspace(-1.0, 1.0, size)
    root = math.exp(float(epsilon) / 2)
    end = 1 / math.tanh(float(epsilon) / 4)  # s
    edges = np.linspace(-end, end, size + 1)
    first = (root * inputs[:, None] - 1) / math.expm1(float(epsilon) / 2)
    last = first + 2 / math.expm1(float(epsilon) / 2)
    inside = np.diff(np.clip(edges, first, last), axis=1)
    dense = root / 2 / end  # p; 1/s is the paper's z
    outside = np.diff(edges) - inside
    probabilities = dense * (inside + outside / root**2)
    return inputs, (edges[:-1] + edges[1:]) / 2, probabilities


@lru_cache(maxsize=16)
def _piecewise_table(epsilon: Fraction) -> ValueQuestion:
    _, outputs, probabilities = piecewise_probabilities(epsilon)
    return ValueQuestion.fitted(1, whole_weights(probabilities, epsilon), outputs.tolist())


def generalised_piecewise(threshold: int, epsilon: Fraction) -> ValueQuestion:
    """The value capped at θ, reported by the optimal generalised piecewise mechanism, unbiased.

    **Privacy.** Released: the number of a cell. Its probability, the integral of a density between
    p/e^ε and p, is between p/e^ε and p times its width in every row; `whole_weights` keeps this
    ratio in integers, and `check` proves it of the weights themselves. So the report is ε-locally
    private.

    >>> question = generalised_piecewise(100, Fraction(2))
    >>> question.check(Fraction(2))
    >>> question.variance(np.array([0.0, 1.0])).round(2)
    array([0.65, 1.23])
    """
    return _generalised_piecewise_table(checked_for_rounding(epsilon)).at(threshold)


def piecewise_plateau(x: FloatArray, epsilon: Fraction) -> tuple[FloatArray, FloatArray, float]:
    """Beginning, end and density of the plateau for each x in [0, 1], as published."""
    root = math.exp(float(epsilon) / 2)
    length = 1 / (root + 1)
    first = np.clip(x - length / 2, 0.0, 1 - length)
    return first, first + length, root


def published_error(x: FloatArray, epsilon: Fraction) -> FloatArray:
    """E(report − x)² of the biased report within [0, 1], in closed form."""
    first, last, dense = piecewise_plateau(x, epsilon)
    thin = dense * math.exp(-float(epsilon))

    def cubes(low: FloatArray, high: FloatArray) -> FloatArray:
        found: FloatArray = ((high - x) ** 3 - (low - x) ** 3) / 3
        return found

    inside = cubes(first, last)
    return thin * cubes(np.zeros_like(x), np.ones_like(x)) + (dense - thin) * inside


def generalised_piecewise_probabilities(epsilon: Fraction) -> tuple[FloatArray, FloatArray]:
    """The midpoints of the cells on [−1, 1], and each plateau's probability of each cell."""
    size = piecewise_table_size(epsilon)
    root = math.exp(float(epsilon) / 2)
    inner = np.linspace(0.5 / (root + 1), 1 - 0.5 / (root + 1), size)  # plateaus that are not moved
    first, last, dense = piecewise_plateau(inner, epsilon)
    edges = np.linspace(0.0, 1.0, size + 1)
    inside = np.diff(np.clip(edges, first[:, None], last[:, None]), axis=1)
    probabilities = dense * (inside + (np.diff(edges) - inside) / root**2)
    return edges[:-1] + edges[1:] - 1, probabilities


@lru_cache(maxsize=16)
def _generalised_piecewise_table(epsilon: Fraction) -> ValueQuestion:
    outputs, probabilities = generalised_piecewise_probabilities(epsilon)
    return ValueQuestion.fitted(1, whole_weights(probabilities, epsilon), outputs.tolist())
