"""Check that a stage fulfils the contract that is asked for."""

from __future__ import annotations

from tidegate.errors import SettingError
from tidegate.stages.contracts import Perturber
from tidegate.stages.noisy import NoiseLaw

# What only a threshold, only a perturber, only an estimator has.
_MARKS = {"choose", "noise_law", "posterior"}


def fulfils(stage: object, contract: type) -> bool:
    """Whether a stage has everything that its contract names (and is of no other kind)."""
    given = {**vars(contract), **contract.__annotations__}
    names = {name for name in given if not name.startswith("_")}
    return all(hasattr(stage, name) for name in names) and not any(
        hasattr(stage, mark) for mark in _MARKS - names
    )


def fixed_law(perturber: Perturber, threshold: int) -> NoiseLaw:
    """The noise law of a perturber with one option; others are refused."""
    law = perturber.noise_law(threshold)
    if law is None:
        raise SettingError("perturber", "must have blocks of one size, such as perturb.Hierarchy")
    return law
