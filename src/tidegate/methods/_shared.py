"""What presets share: arguments, defaults, the budget of one event, a threshold."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypedDict, TypeVar, Unpack, cast

from tidegate import threshold
from tidegate.errors import SettingError
from tidegate.exact_numbers import Number, positive, whole
from tidegate.guarantee import rho_for
from tidegate.run.pipeline import Pipeline
from tidegate.run.refinement import Refinement
from tidegate.run.reselection import Reselection, share_of
from tidegate.stages import Estimator, Perturber, Threshold
from tidegate.units import Unit, checked_unit

HORIZON = 2**20
HOLDOUT = 65_536
_MOST_LEAVES = 1 << 24  # whose noise is made at once, with arrays of 128 MiB
_Preset = TypeVar("_Preset", bound=Callable[..., Pipeline])


class Common(TypedDict, total=False):
    """Arguments of every central method, with the same meaning in all of them.

    Attributes:
        resolution: values are rounded to multiples of this; None: to a small fraction of the bound,
            which keeps decimals (`tidegate.lattice.default_resolution`).
        non_negative: publish no negative values.
        history: how many released values queries can look back on; None: 16 horizons.
        lower: public lower bound of a value, 0 or below; smaller values count as this.
    """

    resolution: Number | None
    non_negative: bool
    history: int | None
    lower: Number


_DEFAULTS: dict[str, Any] = {
    "resolution": None,
    "non_negative": False,
    "history": None,
    "lower": 0,
}


def preset(function: _Preset) -> _Preset:
    """Show the common arguments in the signature of a preset, and refuse others by name."""
    own = signature(function)
    listed = [one for one in own.parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
    common = []
    for name, default in _DEFAULTS.items():
        kind = Common.__annotations__[name].__forward_arg__
        common.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind))
    known = [one.name for one in (*listed, *common)]

    @wraps(function)
    def checked(*arguments: Any, **settings: Any) -> Pipeline:
        for name in settings:
            if name not in known:
                raise SettingError(name, _unknown(name, known, function.__name__))
        return function(*arguments, **settings)

    checked.__signature__ = own.replace(parameters=[*listed, *common])  # type: ignore[attr-defined]
    return cast("_Preset", checked)


def _unknown(name: str, known: Sequence[str], method: str) -> str:
    from difflib import get_close_matches  # on demand: importing it is slow

    near = get_close_matches(name, known, n=1, cutoff=0.75)
    return f"is no setting of {method}" + (f": do you mean {near[0]}?" if near else "")


def assembled(
    threshold: Threshold,
    perturber: Perturber,
    estimator: Estimator,
    *,
    unit: Unit | None = None,
    reselect: Reselection | Refinement | None = None,
    **common: Unpack[Common],
) -> Pipeline:
    """The pipeline of a preset."""
    return Pipeline(
        threshold=threshold,
        perturber=perturber,
        estimator=estimator,
        unit=checked_unit(unit),
        reselect=reselect,
        **{**_DEFAULTS, **common},
    )


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


def concentrated_budget(
    epsilon: Number, delta: Number | None, horizon: int, unit: Unit | None
) -> tuple[Unit, Fraction, Fraction, Fraction]:
    """The unit; ρ of one event and δ; and the pure ε that is worth that ρ, for the threshold.

    ρ is the largest (to six digits) that implies (`epsilon`, `delta`)-DP for the unit: a unit of n
    events costs n²·ρ. Pure √(2ρ)-DP implies ρ-zCDP.
    """
    unit = checked_unit(unit)
    failure = Fraction(1, max(2, horizon) ** 2) if delta is None else positive("delta", delta)
    rho = rho_for(positive("epsilon", epsilon), failure) / unit.size**2
    grain = 1 << 40
    return unit, rho, failure, Fraction(math.isqrt(int(2 * rho * grain**2)), grain)


def check_leaves(leaves: int) -> None:
    """Refuse a horizon whose noise, made at once, would fill the memory."""
    if leaves > _MOST_LEAVES:
        raise SettingError(
            "horizon",
            f"is too long for one tree of {leaves:,} values, whose noise is made at once (at most "
            f"{_MOST_LEAVES:,}): choose a shorter one",
        )
