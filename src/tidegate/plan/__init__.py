"""Predict errors, the best tree and the necessary ε, before any budget is spent.

All numbers here follow from settings alone. The noise part is exact; the part that predictions
inside a block add depends on the data, so it rests on one stated assumption: a block's mean lies
`roughness`·θ away from its prediction. The paper assumes 1/3; a calm stream has less.
"""

from tidegate.plan.best_tree_and_needed_epsilon import Choice, best_hierarchy, needed_epsilon
from tidegate.plan.expected_errors import PAPER_ROUGHNESS, Expectation, expect, half_width
from tidegate.plan.setting_warnings import setting_warnings

__all__ = [
    "PAPER_ROUGHNESS",
    "Choice",
    "Expectation",
    "best_hierarchy",
    "expect",
    "half_width",
    "needed_epsilon",
    "setting_warnings",
]


def __dir__() -> list[str]:
    """The public names only, not modules that happen to be imported."""
    return list(__all__)
