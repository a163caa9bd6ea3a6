"""Warnings about public settings."""

from __future__ import annotations

import math

from tidegate.run.pipeline import Pipeline
from tidegate.threshold import NoisyMax, ScaleFree, TailQuantile
from tidegate.threshold.scale_free import PRICE

# ε × values that a rule needs to find θ. `TailQuantile` is made for little.
_NEEDED: dict[type, int] = {NoisyMax: 50, ScaleFree: 50, TailQuantile: 10}

# Above it, the odds of two guesses about a value may change by a factor of e^20, half a billion.
_HARDLY_PRIVATE = 20


def setting_warnings(pipeline: Pipeline) -> list[str]:
    """Warnings about a planned release; may be empty.

    They look at settings alone, never at data, so they may be shown to anybody.

    >>> from tidegate import adaptive
    >>> setting_warnings(adaptive(epsilon=0.1, bound=100))
    []
    >>> print(setting_warnings(adaptive(epsilon=0.1, bound=100, holdout=200, horizon=2000))[0])
    The threshold is little better than chance: ε × hold-out is 20, and 65 are needed. Use a hold-out of 650 values, or more epsilon.
    """  # noqa: E501  # one sentence, as it is printed
    if pipeline.guarantee.epsilon > _HARDLY_PRIVATE:
        return [
            f"ε = {float(pipeline.guarantee.epsilon):g} protects hardly anything: values can be "
            "guessed from what is released. Is it the bound? The order is epsilon, bound."
        ]
    rule = pipeline.threshold
    needed = _NEEDED.get(type(rule))
    if needed is None or not isinstance(rule, NoisyMax | ScaleFree | TailQuantile):
        return []
    if isinstance(rule, ScaleFree):
        # It pays PRICE for every factor of e, from the smallest step up to values near the bound.
        # With less it stays at one step, where sums tell nothing (a bound of 300,000 in steps of 1:
        # in 129 of 200 runs with 80, in none with 90).
        needed = max(needed, math.ceil(PRICE * math.log(pipeline.lattice.grains)))
    information = rule.epsilon * rule.holdout
    if information >= needed:
        return []
    if pipeline.warm_up:
        return [
            "The first threshold is little better than chance: ε × warm-up is "
            f"{float(information):.3g}, and {needed} are needed. Use more epsilon, or a longer "
            "horizon. Later values choose better ones."
        ]
    return [
        "The threshold is little better than chance: ε × hold-out is "
        f"{float(information):.3g}, and {needed} are needed. Use a hold-out of "
        f"{math.ceil(needed / rule.epsilon):,} values, or more epsilon."
    ]
