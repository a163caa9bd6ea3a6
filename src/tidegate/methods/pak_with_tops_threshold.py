"""PAK with its threshold replaced by that of ToPS."""

from __future__ import annotations

from typing import Unpack

from tidegate import estimate, threshold
from tidegate.exact_numbers import Number
from tidegate.methods._preset import Common, assembled_preset, preset
from tidegate.methods._registration import Method
from tidegate.methods.pak import pak_tree
from tidegate.run.pipeline import Pipeline


@preset
def pak_with_tops_threshold(
    epsilon: Number,
    bound: Number,
    *,
    horizon: int = 2**20,
    holdout: int = 65_536,
    **common: Unpack[Common],
) -> Pipeline:
    """The threshold of ToPS and the binary tree of PAK; for comparison.

    The paper's mixture NM-E + H2: PAK with its threshold replaced; pure ε-DP.

    When: comparison: what the tree of PAK costs.
    Reference: Wang et al., CCS 2021: the mixture NM-E + H2.
    """
    return assembled_preset(
        threshold=threshold.NoisyMax(
            epsilon=epsilon, bound=bound, holdout=holdout, horizon=horizon
        ),
        perturber=pak_tree(epsilon, horizon),
        estimator=estimate.Unsmoothed(),
        **common,
    )


METHOD = Method(pak_with_tops_threshold)
