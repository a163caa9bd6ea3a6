"""From a budget to noise scales, in exact fractions.

A value lies in one node per level and moves each of them by at most θ when it is replaced. A level
with discrete Laplace noise of scale τ therefore costs θ/τ, and all levels together Σ θ/τ_l.
"""

from __future__ import annotations

from fractions import Fraction

from tidegate.errors import SettingError

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
    scales = tuple(_rounded_up(threshold / (epsilon * share)) for share in shares)
    spent = sum(threshold / scale for scale in scales)
    if spent > epsilon:  # cannot happen; a wrong scale must never go unnoticed
        raise AssertionError("noise scales would overspend epsilon")
    return scales


def check_headroom(
    ceiling: int, epsilon: Fraction, shares: tuple[Fraction, ...], draws: int, values: int
) -> None:
    """Refuse settings for which a sum of `draws` noise draws and values might not fit 64 bits."""
    largest = max(level_scales(ceiling, epsilon, shares))
    if draws * _TAIL * largest + values * ceiling >= _INT64:
        raise SettingError(
            "resolution",
            f"too fine: thresholds up to {ceiling} steps with noise of scale {float(largest):.3g} "
            "steps could overflow 64-bit sums; choose a coarser resolution, a "
            "smaller bound or a shorter horizon",
        )


def _rounded_up(scale: Fraction) -> Fraction:
    above, below, denominator = scale.numerator, scale.denominator, 1
    while above * denominator < _GRAIN * below and denominator < _GRAIN:
        denominator *= 2
    return Fraction(-(-above * denominator // below), denominator)
