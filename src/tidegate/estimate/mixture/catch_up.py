"""How fast published sums catch up with what is known: at once, or a part with every cell.

A leaf's noisy sum says how far the published running sum is off. Published with the last value of
the leaf, all of that is one jump: right for every range that begins before the leaf, and wrong for
the short ranges around it, by all of the leaf's noise. Where a part of it is published at the end
of every cell, a sum of n cells between two jumps is off by less, and running sums are off a little
longer. How much is still owed is part of the filters' state, as the error of the running sum.
Post-processing: forecasts, trees, what is released of the data and all answers stay the same.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import SettingError
from tidegate.exact_numbers import Number, exact, said
from tidegate.lattice import FloatArray
from tidegate.settings import Setting

# Trees of so many leaves measure a calm block. A finer one was chosen since the level moves by more
# than the noise: what its leaves say is news, and is published at once.
CALM_LEAVES = 4
# With the budget ε of a value, the noise of a sixteenth of the horizon is about 1/(ε·horizon) of
# what θ could add up to there. From so large a product on, corrections are small; below, the share
# is the cube root of what is there of it: 1/8, 1/4 and 1/2 at 125, 1,000 and 8,000.
_AT_ONCE_FROM = 64_000
_PARTS = 64  # a share is so many parts: the same on every machine


class CatchUpShare(Setting[Fraction | None, Number | None]):
    """A share above 0 and up to 1, which is all at once, as None is."""

    def check(self, value: Number | None) -> Fraction | None:
        """None, or a share."""
        if value is None:
            return None
        share = exact(self.name, value)
        if not 0 < share <= 1:
            raise SettingError(self.name, f"must be above 0 and at most 1, not {said(value)}")
        return share


def catch_up_share(epsilon: Fraction, horizon: int) -> Fraction | None:
    """The share for a budget of a value and a horizon, both public; None: all at once."""
    information = epsilon * horizon / _AT_ONCE_FROM
    parts = 1
    while parts < _PARTS and Fraction(parts + 1, _PARTS) ** 3 <= information:
        parts += 1
    return None if parts == _PARTS else Fraction(parts, _PARTS)


Sum = TypeVar("Sum", float, FloatArray)


def caught_up(known: Sum, forecast: Sum, share: float) -> Sum:
    """What a cell adds to the running sum if a share of the correction is published with it."""
    return forecast + share * (known - forecast)


class CatchUp(NamedTuple):
    """The same for cells of many streams, those in fine trees at once."""

    forecasts: FloatArray  # of the sums of the cells, as they were published so far
    calm: NDArray[np.bool_]
    share: float

    def of(self, known: FloatArray) -> FloatArray:
        """What each cell adds to the running sum."""
        return np.where(self.calm, caught_up(known, self.forecasts, self.share), known)
