"""The arguments that presets share, each declared once: name, type, default and meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypedDict, TypeVar, Unpack, cast, get_args

from tidegate.errors import SettingError
from tidegate.exact_numbers import Number
from tidegate.methods._registration import described_registration
from tidegate.run.pipeline import Pipeline
from tidegate.run.refinement_schedule import Refinement
from tidegate.run.threshold_schedule_and_reselection import Reselection
from tidegate.stages import Estimator, Perturber, Threshold
from tidegate.units import Unit, checked_unit

HORIZON = 2**20
HOLDOUT = 65_536
SHORT_HORIZON = 2**16  # where every published number is kept: history is shorter than that of sums
_Preset = TypeVar("_Preset", bound=Callable[..., Pipeline])


class Common(TypedDict, total=False):
    """Arguments of every central method; `SHARED` in `_registration` describes them."""

    resolution: Number | None
    non_negative: bool
    history: int | None
    lower: Number


class PerEvent(Common, total=False):
    """Arguments of methods whose noise protects one event, published without a threshold.

    Attributes:
        holdout: how many values choose the threshold; 0: θ is the bound, as published.
    """

    horizon: int
    holdout: int
    unit: Unit | None


class Concentrated(PerEvent, total=False):
    """`PerEvent`, for methods with Gaussian noise.

    Attributes:
        holdout: how many values choose the threshold; 0: θ is the bound, as published.
    """

    delta: Number | None


class PerWindow(Common, total=False):
    """Arguments of methods whose noise is made for a window of values.

    Attributes:
        unit: the window that ε protects; None: `units.Window(length=60)`.
        horizon: queries look back on 16 of these.
        holdout: how many values choose the threshold; 0: θ is the bound, as published. A window can
            lie across hold-out and stream, so the threshold gets a quarter of ε, and the stream the
            rest.
    """

    unit: Unit | None
    horizon: int
    holdout: int


_DEFAULTS: dict[str, Any] = {
    "delta": None,
    "horizon": HORIZON,
    "holdout": HOLDOUT,
    "unit": None,
    "resolution": None,
    "non_negative": False,
    "history": None,
    "lower": 0,
}


def preset(function: _Preset) -> _Preset:
    """Show shared arguments in a preset's signature, fill in defaults, refuse unknown names.

    Which arguments a preset shares is said by its `**shared: Unpack[…]`.
    """
    return preset_with()(function)


def preset_with(**defaults: Any) -> Callable[[_Preset], _Preset]:
    """`preset` with other defaults for shared arguments."""

    def decorate(function: _Preset) -> _Preset:
        own = signature(function)
        *listed, collected = own.parameters.values()
        kinds = signature(function, eval_str=True).parameters[collected.name].annotation
        (group,) = get_args(kinds)  # of Unpack[…]
        shared = {
            name: defaults.get(name, usual)
            for name, usual in _DEFAULTS.items()
            if name in group.__annotations__
        }
        more = [
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                default=default,
                annotation=group.__annotations__[name].__forward_arg__,
            )
            for name, default in shared.items()
        ]
        known = [one.name for one in (*listed, *more)]

        @wraps(function)
        def checked(*arguments: Any, **settings: Any) -> Pipeline:
            for name in settings:
                if name not in known:
                    raise SettingError(
                        name, _unknown_preset_argument(name, known, function.__name__)
                    )
            return function(*arguments, **{**shared, **settings})

        checked.__signature__ = own.replace(parameters=[*listed, *more])  # type: ignore[attr-defined]
        checked.meanings = described_registration(group.__doc__ or "", "Attributes:")  # type: ignore[attr-defined]
        return cast("_Preset", checked)

    return decorate


_KEYED = "for a stream by key, use tidegate.keyed(pipeline, keys=[…])"
_EVENTS = "for sums of events by time, use tidegate.events(epsilon, bound, every=…, start=…)"
_ELSEWHERE = {
    **dict.fromkeys(("by", "key", "keys"), _KEYED),
    **dict.fromkeys(("every", "start"), _EVENTS),
}


def _unknown_preset_argument(name: str, known: Sequence[str], method: str) -> str:
    from difflib import get_close_matches  # on demand: importing it is slow

    if name in _ELSEWHERE:
        return f"is not a setting of {method}: {_ELSEWHERE[name]}"
    near = get_close_matches(name, known, n=1, cutoff=0.75)
    return f"is not a setting of {method}" + (f": do you mean {near[0]}?" if near else "")


def assembled_preset(
    threshold: Threshold,
    perturber: Perturber,
    estimator: Estimator,
    *,
    unit: Unit | None = None,
    reselect: Reselection | Refinement | None = None,
    **common: Unpack[Common],
) -> Pipeline:
    """The pipeline that a preset returns."""
    return Pipeline(
        threshold=threshold,
        perturber=perturber,
        estimator=estimator,
        unit=checked_unit(unit),
        reselect=reselect,
        **{**{name: _DEFAULTS[name] for name in Common.__annotations__}, **common},
    )
