"""PAK, which the paper compares itself with, and its mixtures with ToPS."""

from __future__ import annotations

from fractions import Fraction

from tidegate import estimate, perturb, threshold
from tidegate.exact_numbers import Number, whole
from tidegate.perturb.forest import level_count
from tidegate.run.pipeline import Pipeline
from tidegate.stages import Estimator


def pak(
    epsilon: Number,
    bound: Number,
    *,
    delta: Number | None = None,
    horizon: int = 2**20,
    holdout: int = 65_536,
    resolution: Number | None = None,
    clip: bool = True,
    history: int | None = None,
) -> Pipeline:
    """PAK (Perrier, Asghar, Kaafar): the baseline, for comparison. (ε, δ)-DP in float arithmetic.

    `clip=False` is PAK as published: θ may lie far above the bound, which costs it three to six
    orders of magnitude. `delta=None` takes the paper's 1/n² with n = horizon.
    """
    return Pipeline(
        threshold=_pak_threshold(epsilon, bound, delta, horizon, holdout, clip),
        perturber=_binary_tree(epsilon, horizon),
        estimator=estimate.Unsmoothed(),
        resolution=resolution,
        history=history,
    )


def pak_with_tops_threshold(
    epsilon: Number,
    bound: Number,
    *,
    horizon: int = 2**20,
    holdout: int = 65_536,
    resolution: Number | None = None,
    history: int | None = None,
) -> Pipeline:
    """The paper's mixture NM-E + H2: PAK with its threshold replaced. Pure ε-DP."""
    return Pipeline(
        threshold=threshold.NoisyMax(
            epsilon=epsilon, bound=bound, holdout=holdout, horizon=horizon
        ),
        perturber=_binary_tree(epsilon, horizon),
        estimator=estimate.Unsmoothed(),
        resolution=resolution,
        history=history,
    )


def pak_with_tops_stream(
    epsilon: Number,
    bound: Number,
    *,
    delta: Number | None = None,
    horizon: int = 2**20,
    holdout: int = 65_536,
    fanout: int = 16,
    resolution: Number | None = None,
    estimator: Estimator | None = None,
    clip: bool = True,
    history: int | None = None,
) -> Pipeline:
    """The paper's mixture S-PAK + Ĥ16c: PAK with its stream replaced. (ε, δ)-DP in floats."""
    return Pipeline(
        threshold=_pak_threshold(epsilon, bound, delta, horizon, holdout, clip),
        perturber=perturb.Hierarchy(epsilon=epsilon, horizon=horizon, fanout=fanout),
        estimator=estimator or estimate.Recent(),
        resolution=resolution,
        history=history,
    )


def _pak_threshold(
    epsilon: Number, bound: Number, delta: Number | None, horizon: int, holdout: int, clip: bool
) -> threshold.SmoothQuantile:
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


def _binary_tree(epsilon: Number, horizon: int) -> perturb.Hierarchy:
    """H2 as published: every level of the binary tree below the root, no consistency."""
    levels = level_count(2, whole("horizon", horizon, minimum=1))
    return perturb.Hierarchy(
        epsilon=epsilon, horizon=horizon, fanout=2, skipped=0, levels=levels, consistent=False
    )
