"""Percentiles as settings and as ranks."""

from __future__ import annotations

import math
from fractions import Fraction

from tidegate.errors import SettingError
from tidegate.exact_numbers import Number, said
from tidegate.settings import Exact


class Percentile(Exact):
    """A number above 0, at most 100."""

    def check(self, value: Number) -> Fraction:
        """Require at most 100."""
        percentile = super().check(value)
        if percentile > 100:
            raise SettingError(self.name, f"must be at most 100, not {said(percentile)}")
        return percentile


def rank_of(percentile: Fraction, count: int) -> int:
    """The rank, counted from 1, of a percentile among `count` sorted values.

    >>> rank_of(Fraction(50), 5), rank_of(Fraction(100), 5), rank_of(Fraction(1, 10), 5)
    (3, 5, 1)
    """
    return min(max(math.ceil(percentile * count / 100), 1), count)
