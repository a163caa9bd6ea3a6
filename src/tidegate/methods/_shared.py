"""What presets share: arguments that mean the same everywhere, the budget, the threshold."""

from __future__ import annotations

from fractions import Fraction

from tidegate import threshold, units
from tidegate.errors import SettingError
from tidegate.exact_numbers import Number, positive, whole
from tidegate.run.reselection import share_of
from tidegate.stages import Threshold
from tidegate.units import Unit

# What each argument means, for every preset that takes it; `tidegate methods` and the docs say it.
ARGUMENTS: dict[str, str] = {
    "epsilon": "the budget ε of one unit of privacy",
    "bound": "public upper bound of a value; larger values count as this",
    "delta": "the δ of an (ε, δ) guarantee",
    "horizon": "the longest range that should be answered well, in values",
    "holdout": "how many values are spent on the threshold and not released",
    "resolution": "values are rounded to multiples of this",
    "fanout": "children per node of the hierarchy",
    "skipped": "levels of the hierarchy that are left to the smoother",
    "estimator": "how values inside a block are predicted",
    "non_negative": "publish no negative values",
    "history": "how many released values queries can look back on; None: 16 horizons",
    "unit": "what ε protects: an event, a window, a user",
    "start_early": "begin after this many held-out values, and choose the threshold again",
    "rethreshold_every": "choose the threshold again after this many released values",
    "rethreshold_share": "the part of the stream's budget for choosing the threshold again",
}
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
