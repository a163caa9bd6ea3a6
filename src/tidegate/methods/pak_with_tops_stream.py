"""PAK with its stream replaced by that of ToPS."""

from __future__ import annotations

from typing import Unpack

from tidegate import estimate, perturb
from tidegate.exact_numbers import Number
from tidegate.methods._preset import Common, assembled_preset, preset
from tidegate.methods._registration import Method
from tidegate.methods.pak import pak_threshold
from tidegate.run.pipeline import Pipeline
from tidegate.stages import Estimator


@preset
def pak_with_tops_stream(
    epsilon: Number,
    bound: Number,
    *,
    delta: Number | None = None,
    horizon: int = 2**20,
    holdout: int = 65_536,
    fanout: int = 16,
    estimator: Estimator | None = None,
    clip: bool = True,
    **common: Unpack[Common],
) -> Pipeline:
    """The threshold of PAK and the hierarchy of ToPS; for comparison.

    The paper's mixture S-PAK + Ĥ16c: PAK with its stream replaced; (ε, δ)-DP in floats.

    When: comparison: what the threshold of PAK costs.
    Reference: Wang et al., CCS 2021: the mixture S-PAK + Ĥ16c.

    Args:
        clip: keep θ at or below the bound.
    """
    return assembled_preset(
        threshold=pak_threshold(epsilon, bound, delta, horizon, holdout, clip),
        perturber=perturb.Hierarchy(epsilon=epsilon, horizon=horizon, fanout=fanout),
        estimator=estimator or estimate.Recent(),
        **common,
    )


METHOD = Method(pak_with_tops_stream, example={"fanout": 4})
