"""Independent noise on every value: the simplest release, and the baseline of all others."""

from __future__ import annotations

from typing import Unpack

from tidegate import perturb
from tidegate.exact_numbers import Number
from tidegate.methods._budget import per_event
from tidegate.methods._preset import PerEvent, preset
from tidegate.methods._registration import Method
from tidegate.run.pipeline import Pipeline


@preset
def flat(epsilon: Number, bound: Number, **shared: Unpack[PerEvent]) -> Pipeline:
    """Independent noise on every value; the baseline.

    Discrete Laplace noise of scale θ/ε; pure ε-DP in exact arithmetic.

    Privacy. Every value is released once, with noise of its own: a replaced value moves one
    released number, by at most θ. The error of a range grows as the root of its length.

    When: only single values are asked for, and nothing may be assumed; the baseline.
    Reference: Dwork et al., Calibrating Noise to Sensitivity, TCC 2006.

    >>> print(flat(epsilon=0.1, bound=50, holdout=0).guarantee)
    ε = 0.1 per event (exact arithmetic, central model)
    """
    given = per_event(epsilon, bound, shared)
    return given.pipeline(perturb.Flat(epsilon=given.epsilon, horizon=given.horizon))


METHOD = Method(flat)
