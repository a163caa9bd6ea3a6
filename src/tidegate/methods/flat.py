"""Independent noise on every value: the simplest release, and the baseline of all others."""

from __future__ import annotations

from typing import Unpack

from tidegate import estimate, perturb
from tidegate.exact_numbers import Number
from tidegate.methods._method import Method
from tidegate.methods._shared import HOLDOUT, HORIZON, Common, assembled, budget, preset, truncation
from tidegate.run.pipeline import Pipeline
from tidegate.units import Unit


@preset
def flat(
    epsilon: Number,
    bound: Number,
    *,
    horizon: int = HORIZON,
    holdout: int = HOLDOUT,
    unit: Unit | None = None,
    **common: Unpack[Common],
) -> Pipeline:
    """Discrete Laplace noise of scale θ/ε on every value. Pure ε-DP, exact arithmetic.

    Privacy. Every value is released once, with noise of its own: a replaced value moves one
    released number, by at most θ. The error of a range grows as the root of its length.

    Args:
        holdout: how many values choose the threshold; 0: θ is the bound, as published.

    >>> print(flat(epsilon=0.1, bound=50, holdout=0).guarantee)
    ε = 0.1 per event (exact arithmetic, central model)
    """
    unit, per_event, _ = budget(epsilon, unit, None, None, None)
    return assembled(
        threshold=truncation(per_event, bound, holdout),
        perturber=perturb.Flat(epsilon=per_event, horizon=horizon),
        estimator=estimate.Unsmoothed(),
        unit=unit,
        **common,
    )


METHOD = Method(
    preset=flat,
    summary="independent noise on every value; the baseline",
    when="only single values are asked for, and nothing may be assumed; the baseline",
    reference="Dwork et al., Calibrating Noise to Sensitivity, TCC 2006",
)
