"""The best tree for the ranges that will be asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tidegate.errors import SettingError
from tidegate.exact_numbers import Number, whole
from tidegate.perturb import Hierarchy
from tidegate.perturb.forest_geometry import level_count
from tidegate.plan.expected_errors import PAPER_ROUGHNESS, variances

_FANOUTS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32)
# A threshold of this many steps makes discrete noise as good as continuous.
_FINE = 10_000


@dataclass(frozen=True)
class Choice:
    """One way to build the tree, and its root mean square error in units of θ."""

    hierarchy: Hierarchy
    error: float

    def __str__(self) -> str:
        tree = self.hierarchy
        return (
            f"fanout {tree.fanout}, blocks of {tree.block} values, {tree.tree_levels} levels: "
            f"error {self.error:.4g}·θ"
        )


def best_hierarchy(
    *,
    epsilon: Number,
    horizon: int,
    lengths: Sequence[int] | Mapping[int, float] | None = None,
    fanouts: Sequence[int] = _FANOUTS,
    roughness: Number = PAPER_ROUGHNESS,
    consistent: bool = True,
) -> list[Choice]:
    """Every fan-out and number of skipped levels, best first, for a declared workload.

    Args:
        epsilon: the budget of the stream.
        horizon: the longest range that should be answered well.
        lengths: the lengths of the ranges that will be asked, with weights if they are not equal;
            None: all ranges within the horizon, equally likely.
        fanouts: the fan-outs to try.
        roughness: as in `expect`.
        consistent: with the least-squares step.

    >>> print(best_hierarchy(epsilon=0.1, horizon=2**20, lengths=[86_400], fanouts=[2, 16])[0])
    fanout 16, blocks of 256 values, 3 levels: error 156.7·θ
    """
    horizon = whole("horizon", horizon, minimum=1)
    weights = _workload(lengths, horizon)
    if not fanouts:
        raise SettingError("fanouts", "must name at least one fan-out")
    choices = []
    for fanout in (whole("fanouts", given, minimum=2) for given in fanouts):
        for skipped in range(level_count(fanout, horizon)):
            tree = Hierarchy(
                epsilon=epsilon, horizon=horizon, fanout=fanout, skipped=skipped,
                consistent=consistent,
            )  # fmt: skip
            total = sum(
                weights[length] * (noise + prediction)
                for length, noise, prediction in variances(tree, weights, _FINE, roughness)
            )
            choices.append(Choice(tree, float(np.sqrt(total / sum(weights.values()))) / _FINE))
    return sorted(choices, key=lambda choice: choice.error)


def _workload(
    lengths: Sequence[int] | Mapping[int, float] | None, horizon: int
) -> Mapping[int, float]:
    if lengths is None:  # the lengths of uniformly chosen ranges, at 32 even quantiles
        quantiles = (np.arange(32) + 0.5) / 32
        return {max(1, round(horizon * (1 - np.sqrt(1 - q)))): 1.0 for q in quantiles.tolist()}
    weights = lengths if isinstance(lengths, Mapping) else Counter(lengths)
    if not weights or any(not weight > 0 for weight in weights.values()):
        raise SettingError("lengths", "must name at least one length, with positive weights")
    return weights
