"""Square Wave: reports from which the density of the values can be estimated."""

from __future__ import annotations

import math
from fractions import Fraction

from tidegate.errors import SettingError
from tidegate.local.integer_weights import WORDS, least_weight
from tidegate.local.mechanisms.stochastic_rounding import checked_for_rounding
from tidegate.local.questions import WaveQuestion

_SERIES = 1e-3  # below, the closed form of the half-width is lost to cancellation


def square_wave(top: int, epsilon: Fraction, bins: int = 1024) -> WaveQuestion:
    """The bin of the value, reported by Square Wave (SW) on a grid of cells as wide as a bin.

    On [0, 1] the wave around a value is `square_wave_half_width` to either side; here it is the
    bin's own cell and as many cells on either side as make its width nearest to that. A cell in the
    wave has the weight `high`, any other `low`. There are no more bins than steps: every bin can be
    met.

    **Privacy.** Released: the number of a cell. Every bin has the same number of cells in its wave,
    so all rows have one total, and high ≤ e^ε·low in integers: `low` is taken first, `high` is the
    largest that `low` allows. So the report is ε-locally private, as `check` proves of the weights.

    >>> question = square_wave(1657, Fraction(1))
    >>> question.check(Fraction(1))
    >>> question.half, question.reports
    (262, 1548)
    """
    if top < 1 or bins < 1:
        raise SettingError("bins", "top and bins must be at least 1")
    bins = min(bins, top + 1)
    half = max(round(square_wave_half_width(checked_for_rounding(epsilon)) * bins - 0.5), 0)
    plateau = 2 * half + 1
    low = max(int(WORDS / (plateau * math.exp(epsilon) + bins - 1)), 1)
    high = _largest_beside_in_wave(low, epsilon)
    high = min(high, (WORDS - (bins - 1) * low) // plateau)
    return WaveQuestion(top=top, bins=bins, half=half, high=high, low=low)


def square_wave_half_width(epsilon: Fraction) -> float:
    """w = (εe^ε − e^ε + 1)/(2e^ε(e^ε − 1 − ε)), for values on [0, 1]: 1/2 for ε → 0, 0 for ε → ∞.

    >>> round(square_wave_half_width(Fraction(1)), 4)
    0.2561
    """
    cost = float(epsilon)
    if cost < _SERIES:
        return 0.5 - cost / 3
    less = math.expm1(cost)
    return (cost * math.exp(cost) - less) / (2 * math.exp(cost) * (less - cost))


def _largest_beside_in_wave(low: int, epsilon: Fraction) -> int:
    """The largest weight that may share a column with `low`."""
    below, above = low, 2 * low
    while least_weight(above, epsilon) <= low:
        below, above = above, 2 * above
    while above - below > 1:
        middle = (below + above) // 2
        if least_weight(middle, epsilon) <= low:
            below = middle
        else:
            above = middle
    return below
