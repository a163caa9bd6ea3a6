"""Percentiles: as settings, as ranks, and the settings of rules that aim at one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from tidegate.errors import SettingError
from tidegate.exact_numbers import Number, said
from tidegate.settings import Epsilon, Exact, Whole


class Percentile(Exact):
    """A number above 0, at most 100."""

    def check(self, value: Number) -> Fraction:
        """Refuse what lies beyond 100."""
        percentile = super().check(value)
        if percentile > 100:
            raise SettingError(self.name, f"must be at most 100, not {said(percentile)}")
        return percentile


def rank_of(percentile: Fraction, count: int) -> int:
    """The place, counted from 1, of a percentile among `count` values in order.

    >>> rank_of(Fraction(50), 5), rank_of(Fraction(100), 5), rank_of(Fraction(1, 10), 5)
    (3, 5, 1)
    """
    return min(max(math.ceil(percentile * count / 100), 1), count)


@dataclass(frozen=True, kw_only=True, repr=False)
class QuantileRule:
    """The settings of rules that release a noisy quantile of the hold-out.

    Attributes:
        epsilon: the budget of the choice.
        bound: public upper bound of a value.
        holdout: how many values to spend on the choice.
        percentile: which quantile.
    """

    epsilon: Epsilon = Epsilon()
    bound: Exact = Exact()
    holdout: Whole = Whole(minimum=1, default=65_536)
    percentile: Percentile = Percentile(default="99.5")
