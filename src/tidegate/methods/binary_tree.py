"""The binary-tree counter: the first method for running sums under continual observation."""

from __future__ import annotations

from typing import Unpack

from tidegate import perturb
from tidegate.exact_numbers import Number
from tidegate.methods._budget import EventBudget, per_event
from tidegate.methods._preset import PerEvent, preset
from tidegate.methods._registration import Method
from tidegate.perturb.forest_geometry import level_count
from tidegate.run.pipeline import Pipeline


@preset
def binary_tree(epsilon: Number, bound: Number, **shared: Unpack[PerEvent]) -> Pipeline:
    """Noise on every node of a binary tree; each value is a difference of running sums.

    The binary-tree counter; pure ε-DP in exact arithmetic. A running sum over t values is the sum
    of the noisy nodes that the binary digits of t name, at most ⌈log₂ horizon⌉ + 1 of them. Value t
    is published as the difference of two running sums.

    Privacy. Released: functions of the noisy nodes (`prefix_leaves`). A replaced value moves one
    node per level by at most θ; every level has an equal share of ε, and its discrete Laplace
    scales satisfy Σ θ/scale ≤ ε exactly. A new tree begins with each horizon, over other values.

    When: comparison; half of its variance goes with `honaker`, more with `tops`.
    Reference: Chan, Shi, Song, Private and Continual Release of Statistics, ICALP 2010; Dwork et
        al., Differential Privacy under Continual Observation, STOC 2010.

    >>> pipeline = binary_tree(epsilon=0.1, bound=50, horizon=1024, holdout=0)
    >>> pipeline.perturber.tree_levels, pipeline.perturber.block
    (11, 1)
    >>> print(pipeline.guarantee)
    ε = 0.1 per event (exact arithmetic, central model)
    """
    given = per_event(epsilon, bound, shared)
    return given.pipeline(whole_tree(given, fanout=2, consistent=False))


def whole_tree(given: EventBudget, fanout: int, *, consistent: bool) -> perturb.Hierarchy:
    """The perturber: one tree over each horizon, whose root is measured too."""
    return perturb.Hierarchy(
        epsilon=given.epsilon,
        horizon=given.horizon,
        fanout=fanout,
        skipped=0,
        levels=level_count(fanout, given.horizon) + 1,
        consistent=consistent,
    )


METHOD = Method(binary_tree)
