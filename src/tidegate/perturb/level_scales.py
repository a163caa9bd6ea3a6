"""Noise scales from a budget, as exact fractions.

A value lies in one node per level and moves each of them by at most θ when it is replaced. A level
with discrete Laplace noise of scale τ therefore costs θ/τ, and all levels together Σ θ/τ_l.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from tidegate.errors import SettingError
from tidegate.exact_numbers import roughly

# Scales are multiples of 2^-k with a numerator of about this size: overspending is impossible
# (they are rounded up) and underspending is below one part in a million.
_GRAIN = 1 << 20

# |noise| exceeds this many scales with probability e^-64 per draw; sums of fewer draws fit easily.
_TAIL = 64
_INT64 = 1 << 62


def level_scales(
    threshold: int, epsilon: Fraction, shares: tuple[Fraction, ...]
) -> tuple[Fraction, ...]:
    """Noise scales, leaves first, that spend at most `epsilon`, split by `shares`.

    >>> level_scales(21, Fraction(1, 10), (Fraction(1, 2), Fraction(1, 2)))
    (Fraction(420, 1), Fraction(420, 1))
    """
    return tuple(level_scale(threshold, budget) for budget in level_budgets(epsilon, shares))


@lru_cache(maxsize=256)
def level_budgets(epsilon: Fraction, shares: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    """The budget of each level: its share of `epsilon`."""
    if sum(shares) > 1:
        raise AssertionError("the levels' shares would overspend epsilon")
    return tuple(epsilon * share for share in shares)


def check_headroom(
    ceiling: int, epsilon: Fraction, shares: tuple[Fraction, ...], draws: int, values: int
) -> Fraction:
    """Refuse settings with which a sum of `draws` noise draws and values might not fit 64 bits.

    The largest scale.
    """
    largest = max(level_scales(ceiling, epsilon, shares))
    if draws * _TAIL * largest + values * ceiling >= _INT64:
        raise SettingError(
            "resolution",
            f"too fine: thresholds up to {ceiling} steps with noise of scale {roughly(largest)} "
            "steps could overflow 64-bit sums; choose a coarser resolution, a "
            "smaller bound or a shorter horizon",
        )
    return largest


def level_scale(threshold: int, budget: Fraction) -> Fraction:
    """The noise scale of a level: at least threshold/budget, so it costs at most its budget.

    In integers: a threshold has hundreds of scales, and exact fractions would take a tenth of a
    second for them.
    """
    above, below, denominator = threshold * budget.denominator, budget.numerator, 1
    while above * denominator < _GRAIN * below and denominator < _GRAIN:
        denominator *= 2
    scale = Fraction(-(-above * denominator // below), denominator)
    # threshold/scale ≤ budget. It cannot be otherwise; a wrong scale must never go unnoticed.
    if above * scale.denominator > below * scale.numerator:
        raise AssertionError("a noise scale would overspend epsilon")
    return scale
