"""Warnings about doubtful public settings."""

from __future__ import annotations

import math

from tidegate.run.pipeline import Pipeline
from tidegate.threshold import NoisyMax, ScaleFree, TailQuantile

# ε × values that a rule needs to find θ among values a thousand times above the smallest step:
# its price per e-fold of θ, in 1/ε, times ln 1000. `TailQuantile` is made for less.
_NEEDED: dict[type, int] = {NoisyMax: 50, ScaleFree: 50, TailQuantile: 10}

# Above it, the odds of two guesses about a value may change by a factor of e^20, half a billion.
_HARDLY_PRIVATE = 20


def setting_warnings(pipeline: Pipeline) -> list[str]:
    """Sentences about a release to come; none: nothing is doubtful.

    They look at settings alone, never at data, so they may be shown to anybody.

    >>> from tidegate import adaptive
    >>> setting_warnings(adaptive(epsilon=0.1, bound=100))
    []
    >>> print(setting_warnings(adaptive(epsilon=0.1, bound=100, holdout=200, horizon=2000))[0])
    The threshold is little better than chance: ε × hold-out is 20, and 50 are needed. Use a hold-out of 500 values, or more epsilon.
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
