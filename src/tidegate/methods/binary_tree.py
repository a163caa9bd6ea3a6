"""The binary-tree counter: the first method for running sums under continual observation."""

from __future__ import annotations

from typing import Unpack

from tidegate import estimate, perturb
from tidegate.exact_numbers import Number, whole
from tidegate.methods._method import Method
from tidegate.methods._shared import HOLDOUT, HORIZON, Common, assembled, budget, preset, truncation
from tidegate.perturb.forest import level_count
from tidegate.run.pipeline import Pipeline
from tidegate.units import Unit


@preset
def binary_tree(
    epsilon: Number,
    bound: Number,
    *,
    horizon: int = HORIZON,
    holdout: int = HOLDOUT,
    unit: Unit | None = None,
    **common: Unpack[Common],
) -> Pipeline:
    """The binary-tree counter: noise on every node of a binary tree. Pure ε-DP, exact arithmetic.

    A running sum over t values is the sum of the noisy nodes that the binary digits of t name, at
    most ⌈log₂ horizon⌉ + 1 of them. Value t is published as the difference of two running sums.

    Privacy. Released: functions of the noisy nodes (`prefix_leaves`). A replaced value moves one
    node per level by at most θ; every level has an equal share of ε, and its discrete Laplace
    scales satisfy Σ θ/scale ≤ ε exactly. A new tree begins with each horizon, over other values.

    Args:
        holdout: how many values choose the threshold; 0: θ is the bound, as published.

    >>> pipeline = binary_tree(epsilon=0.1, bound=50, horizon=1024, holdout=0)
    >>> pipeline.perturber.tree_levels, pipeline.perturber.block
    (11, 1)
    >>> print(pipeline.guarantee)
    ε = 0.1 per event (exact arithmetic, central model)
    """
    unit, per_event, _ = budget(epsilon, unit, None, None, None)
    levels = level_count(2, whole("horizon", horizon, minimum=1)) + 1  # the root among them
    return assembled(
        threshold=truncation(per_event, bound, holdout),
        perturber=perturb.Hierarchy(
            epsilon=per_event,
            horizon=horizon,
            fanout=2,
            skipped=0,
            levels=levels,
            consistent=False,
        ),
        estimator=estimate.Unsmoothed(),
        unit=unit,
        **common,
    )


METHOD = Method(
    preset=binary_tree,
    summary="noise on every node of a binary tree; each value is a difference of running sums",
    when="comparison; half of its variance goes with `honaker`, more with `tops`",
    reference="Chan, Shi, Song, Private and Continual Release of Statistics, ICALP 2010; "
    "Dwork et al., Differential Privacy under Continual Observation, STOC 2010",
)
