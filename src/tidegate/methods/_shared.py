"""What presets share: the budget of one event."""

from __future__ import annotations

from fractions import Fraction

from tidegate import units
from tidegate.errors import SettingError
from tidegate.exact_numbers import Number, positive
from tidegate.run.reselection import share_of
from tidegate.units import Unit


def budget(
    epsilon: Number,
    unit: Unit | None,
    share: Number | None,
    start_early: int | None,
    every: int | None,
) -> tuple[Unit, Fraction, Fraction]:
    """The unit, the budget of one event, and the part of it that choosing again gets."""
    unit = units.Event() if unit is None else unit
    if not isinstance(unit, Unit):
        raise SettingError("unit", "must be a unit such as tidegate.units.Window(length=60)")
    per_event = positive("epsilon", epsilon) / unit.size
    return unit, per_event, share_of(share, start_early, every)
