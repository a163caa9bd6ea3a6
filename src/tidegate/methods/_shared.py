"""What presets share: defaults, the budget of one event, a threshold."""

from __future__ import annotations

from fractions import Fraction

from tidegate import threshold, units
from tidegate.errors import SettingError
from tidegate.exact_numbers import Number, positive, whole
from tidegate.run.reselection import share_of
from tidegate.stages import Threshold
from tidegate.units import Unit

HORIZON = 2**20
HOLDOUT = 65_536


def checked_unit(unit: Unit | None) -> Unit:
    """The unit of privacy; None: one event."""
    unit = units.Event() if unit is None else unit
    if not isinstance(unit, Unit):
        raise SettingError("unit", "must be a unit such as tidegate.units.Window(length=60)")
    return unit


def budget(
    epsilon: Number,
    unit: Unit | None,
    share: Number | None,
    start_early: int | None,
    every: int | None,
) -> tuple[Unit, Fraction, Fraction]:
    """The unit, the budget of one event, and the part of it that choosing again gets."""
    unit = checked_unit(unit)
    per_event = positive("epsilon", epsilon) / unit.size
    return unit, per_event, share_of(share, start_early, every)


def truncation(epsilon: Fraction, bound: Number, holdout: int) -> Threshold:
    """The threshold of a method that was published without one.

    A hold-out chooses it; `holdout=0` is the method as published: θ is the bound, and no value is
    spent on it.
    """
    if whole("holdout", holdout, minimum=0) == 0:
        return threshold.Fixed(bound)
    return threshold.ScaleFree(epsilon=epsilon, bound=bound, holdout=holdout)
