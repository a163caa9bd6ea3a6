"""Refuse settings that cannot give useful results, before any value is read.

Presets call these checks; a `tidegate.Pipeline` that is built from stages skips them.

A total over the horizon has noise of at least √2·θ/ε, ε that of one value, however it is measured:
a single node with the whole budget. The total itself is at most horizon·θ, half of it for values
that are spread evenly below θ. So the noise exceeds the total unless ε·horizon > 2√2 ≈ 3.
"""

from __future__ import annotations

import math
from fractions import Fraction

from tidegate.errors import SettingError
from tidegate.exact_numbers import exact, whole
from tidegate.units import Unit

LEAST = 3
"""ε of a value times horizon below which no total can be told from 0."""
SEEN = 50
"""ε of a value times hold-out below which a threshold is chance: 7·ln 1000, the price of climbing
three orders of magnitude (`threshold.ScaleFree`); the counts of `NoisyMax` have the same noise."""
USUAL_HOLDOUT = 65_536
_ENDLESS = 10**15


def check_feasible_horizon(epsilon: Fraction, horizon: int, unit: Unit) -> None:
    """Refuse a budget of one value with which noise exceeds every total."""
    length = whole("horizon", horizon, minimum=1)
    if epsilon * length < LEAST:
        raise SettingError(
            "epsilon",
            f"is too small: {_shown(epsilon * unit.size)}{_share(epsilon, unit)} over a horizon of "
            f"{length:,} values gives noise larger than any sum over it. Use epsilon "
            f"{_up(LEAST * unit.size / Fraction(length))} or more"
            f"{_instead('horizon', LEAST / epsilon)}",
        )


def feasible_holdout(holdout: int | None, epsilon: Fraction, unit: Unit) -> int:
    """The given hold-out, or the default one if it suffices for this budget of a value."""
    if holdout is not None:
        return whole("holdout", holdout, minimum=1)
    if epsilon * USUAL_HOLDOUT < SEEN:
        raise SettingError(
            "epsilon",
            f"is too small for the usual hold-out of {USUAL_HOLDOUT:,} values: "
            f"{_shown(epsilon * unit.size)}{_share(epsilon, unit)} makes the threshold a matter of "
            f"chance. Use epsilon {_up(SEEN * unit.size / Fraction(USUAL_HOLDOUT))} or more"
            f"{_instead('hold-out', SEEN / epsilon)}",
        )
    return USUAL_HOLDOUT


def _share(epsilon: Fraction, unit: Unit) -> str:
    """The budget that a unit of several values leaves to each."""
    return "" if unit.size == 1 else f" for {unit.size:,} values ({_shown(epsilon)} each)"


def _instead(what: str, least: Fraction) -> str:
    """Suggest another setting, unless its number is longer than any stream."""
    return "" if least > _ENDLESS else f", or a {what} of {math.ceil(least):,} values or more"


def _shown(number: Fraction) -> str:
    return f"{float(number):.3g}"


def _up(number: Fraction) -> str:
    """Round up to two digits: what is suggested must be enough."""
    step = Fraction(10) ** (math.floor(math.log10(number)) - 1)
    return f"{float(exact('epsilon', math.ceil(number / step) * step)):g}"
