"""The adaptive release without a hold-out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Unpack

from tidegate import estimate, perturb, threshold
from tidegate.estimate.mixture.models import MOST_TRUNCATED
from tidegate.exact_numbers import Number, exact
from tidegate.methods._preset import Common, assembled
from tidegate.run.pipeline import Pipeline
from tidegate.run.refinement import WARM_SHARE, Refinement, first_length
from tidegate.run.two_sided_caps import LONGER
from tidegate.units import Unit

# What truncation takes from a value on average, in θ/(ε·horizon): the choice leaves 25/ε values of
# a horizon above θ, each by an eighth of θ or so.
TRUNCATED = 3.2


def without_holdout(
    per_event: Fraction,
    bound: Number,
    horizon: int,
    nodes: tuple[int, ...] | None = None,
    *,
    period: int | Sequence[int] | None = None,
    windows: bool = True,
    restarts: bool = True,
    unit: Unit | None = None,
    **common: Unpack[Common],
) -> Pipeline:
    """Everything released, the threshold refined; `per_event` is the budget of one value."""
    perturber = perturb.AdaptiveTrees(epsilon=per_event, horizon=horizon, nodes=nodes)
    truncated = TRUNCATED / float(per_event * perturber.horizon)
    warm_up = first_length(per_event, perturber.horizon)
    if exact("lower", common.get("lower", 0)) < 0:
        warm_up = math.ceil(warm_up * LONGER)
    return assembled(
        threshold=threshold.TailQuantile(
            epsilon=WARM_SHARE * per_event,
            bound=bound,
            holdout=warm_up,
            horizon=perturber.horizon,
            stream_epsilon=per_event,
        ),
        perturber=perturber,
        estimator=estimate.Mixture(truncated=min(MOST_TRUNCATED, truncated), period=period),
        reselect=Refinement(windows=windows, restarts=restarts),
        unit=unit,
        **common,
    )
