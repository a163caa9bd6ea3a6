"""The trees that can measure a block: their shapes, caps and scales, with the reasons."""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from tidegate.perturb.level_scales import level_budgets, level_scale
from tidegate.stages import Layout

# Nodes per level, and the error that the tree leaves in ranges over a horizon whose sixteenths are
# all measured by it, in (θ/ε)²: 16·V/3 for the prefix error at block ends, which walks by V a
# block, plus twice the mean variance of the bridge inside a block. Other shapes and level budgets
# came within 5 % of these.
RANGE_ERROR: dict[tuple[int, ...], float] = {
    (1,): 10.7,
    (1, 4): 12.1,
    (2,): 21.3,
    (4,): 42.7,
    (1, 8): 56.6,
    (1, 16): 80.2,
    (1, 8, 64): 163.6,
    (1, 16, 128): 211.4,
}
# How a tree's levels share ε: equally, but for the watchful tree (1, 4). It measures a block almost
# as well as a single node would, and sees with what is left if the level jumps inside.
SHARES: dict[tuple[int, ...], tuple[Fraction, ...]] = {(1, 4): (Fraction(15, 16), Fraction(1, 16))}
# A single node is blind for a sixteenth of the horizon: only where a block has no room for more.
BLIND = (1,)
# The best number of truncated values grows as the square root of the noise variance, so for a tail
# of index κ the best cap goes as T^(−1/2κ): κ = 12, a light tail, since a heavy one loses little by
# a cap that is a little too high, and a light one much by one that is too low; and 40 the error of
# the tree for which the hold-out's θ is about right.
_TYPICAL_ERROR = 40.0
_CAP_EXPONENT = 1 / 24
# Caps are θ times a whole number of these, so that they are the same on every machine.
_CAP_GRAIN = 1024
# Caps can be raised up to √2^16 = 256 times θ (`estimate.mixture.cap_steps` says when they are).
_CAP_STEPS = 18
_DIGITS = 60  # of decimals; scales may be as large as 2**40, and 1 − q loses as many digits twice


@lru_cache(maxsize=256)
def all_trees(
    shapes: tuple[tuple[int, ...], ...],
    epsilon: Fraction,
    length: int,
    threshold: int,
    ceiling: int,
) -> tuple[Layout, ...]:
    """The layouts of these shapes for blocks of `length` values and cap steps up to `ceiling`."""
    return tuple(
        Layout(length, shape, cap, scales, variances, cap_step=cap_step)
        for shape, cap, scales, variances, cap_step in laws_of_all_shapes(
            shapes, epsilon, threshold, ceiling
        )
    )


@lru_cache(maxsize=256)
def laws_of_all_shapes(
    shapes: tuple[tuple[int, ...], ...], epsilon: Fraction, threshold: int, ceiling: int
) -> list[tuple[tuple[int, ...], int, tuple[Fraction, ...], tuple[float, ...], int]]:
    """Shape, cap, scales, variances and cap step of every tree: the same for all block lengths.

    Where θ is the ceiling no value is cut: values may crowd there (yes or no, full marks), and a
    cap that lies a little lower would take as much from each of them.
    """
    found = []
    least = ceiling if threshold >= ceiling else 1
    budgets = [level_budgets(epsilon, shares_of_tree_levels(shape)) for shape in shapes]
    for cap_step in range(_CAP_STEPS):
        caps = [
            min(ceiling, max(least, _scaled_cap(threshold, cap_factor_of_shape(shape, cap_step))))
            for shape in shapes
        ]
        found += [
            (shape, cap, *_law_of_shape(cap, levels), cap_step)
            for shape, cap, levels in zip(shapes, caps, budgets, strict=True)
        ]
        if min(caps) == ceiling:  # no higher cap would differ
            break
    return found


@lru_cache(maxsize=256)
def cap_factor_of_shape(shape: tuple[int, ...], cap_step: int = 0) -> Fraction:
    """φ = (T/40)^(−1/24): finer trees have more noise, so they use a lower cap.

    So it is at cap step 0. At step 1 it is at least 1, for values that crowd just below θ; on each
    higher step √2 more, for streams that have outgrown θ.
    """
    factor = (RANGE_ERROR[shape] / _TYPICAL_ERROR) ** -_CAP_EXPONENT
    if cap_step:
        factor = max(factor, 1.0) * math.sqrt(2.0) ** (cap_step - 1)
    return Fraction(round(factor * _CAP_GRAIN), _CAP_GRAIN)


def _scaled_cap(threshold: int, factor: Fraction) -> int:
    """round(threshold * factor), half to even, without fractions."""
    whole, rest = divmod(threshold * factor.numerator, factor.denominator)
    return whole + (2 * rest > factor.denominator - (whole & 1))


def _law_of_shape(
    cap: int, budgets: tuple[Fraction, ...]
) -> tuple[tuple[Fraction, ...], tuple[float, ...]]:
    """The scales and variances of the levels, coarsest first."""
    each = [_tree_shape_law(cap, budget.numerator, budget.denominator) for budget in budgets]
    return tuple(scale for scale, _ in each), tuple(variance for _, variance in each)


@lru_cache(maxsize=4096)  # by whole numbers: the hash of a fraction takes as long as a scale
def _tree_shape_law(cap: int, above: int, below: int) -> tuple[Fraction, float]:
    scale = level_scale(cap, Fraction(above, below))
    return scale, _variance_of_shape(scale)


@lru_cache(maxsize=1024)
def _variance_of_shape(scale: Fraction) -> float:
    """2q/(1 − q)², q = exp(−1/scale), the noise variance, with the same bits on every machine.

    Forecasts, the choice of trees and the identity of noise depend on it. It is above 0 even where
    noise is so small that its variance vanishes: weights divide by it.
    """
    with localcontext(Context(prec=_DIGITS)):
        steps = min(Decimal(scale.denominator) / Decimal(scale.numerator), Decimal(1000))
        kept = (-steps).exp()
        return max(float(2 * kept / (1 - kept) ** 2), 1e-150)


def shares_of_tree_levels(shape: tuple[int, ...]) -> tuple[Fraction, ...]:
    """The shares of ε of the levels, coarsest first; they add up to 1."""
    return SHARES.get(shape, (Fraction(1, len(shape)),) * len(shape))
