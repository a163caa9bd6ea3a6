"""PAK, the method that the paper on ToPS compares itself with."""

from __future__ import annotations

from fractions import Fraction
from typing import Unpack

from tidegate import estimate, perturb, threshold
from tidegate.exact_numbers import Number, whole
from tidegate.methods._preset import Common, assembled_preset, preset
from tidegate.methods._registration import Method
from tidegate.perturb.forest_geometry import level_count
from tidegate.run.pipeline import Pipeline


@preset
def pak(
    epsilon: Number,
    bound: Number,
    *,
    delta: Number | None = None,
    horizon: int = 2**20,
    holdout: int = 65_536,
    clip: bool = True,
    **common: Unpack[Common],
) -> Pipeline:
    """Smooth-sensitivity threshold and a binary tree; for comparison.

    PAK (Perrier, Asghar, Kaafar), the baseline; (ε, δ)-DP in float arithmetic.

    `clip=False` is PAK as published: θ may lie far above the bound, which costs it three to six
    orders of magnitude.

    When: comparison: the paper's rival.
    Reference: Perrier, Asghar, Kaafar, Private Continual Release of Real-Valued Data Streams, NDSS
        2019.

    Args:
        delta: None: the paper's 1/n² with n = horizon.
        clip: keep θ at or below the bound.
    """
    return assembled_preset(
        threshold=pak_threshold(epsilon, bound, delta, horizon, holdout, clip),
        perturber=pak_tree(epsilon, horizon),
        estimator=estimate.Unsmoothed(),
        **common,
    )


def pak_threshold(
    epsilon: Number, bound: Number, delta: Number | None, horizon: int, holdout: int, clip: bool
) -> threshold.SmoothQuantile:
    """S-PAK: a quantile with noise by smooth sensitivity; `delta=None` is 1/n² with n = horizon."""
    if delta is None:
        # At least 2 keeps δ below 1 for the shortest horizons.
        delta = Fraction(1, max(2, whole("horizon", horizon, minimum=1)) ** 2)
    return threshold.SmoothQuantile(
        epsilon=epsilon,
        delta=delta,
        bound=bound,
        holdout=holdout,
        failure=Fraction(3, 10) * Fraction(2, 100),
        clip=clip,
    )


def pak_tree(epsilon: Number, horizon: int) -> perturb.Hierarchy:
    """H2 as published: every level of the binary tree below the root, no consistency."""
    levels = level_count(2, whole("horizon", horizon, minimum=1))
    return perturb.Hierarchy(
        epsilon=epsilon, horizon=horizon, fanout=2, skipped=0, levels=levels, consistent=False
    )


METHOD = Method(pak)
