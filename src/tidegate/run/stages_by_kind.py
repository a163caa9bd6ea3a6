"""Rebuild stages from stored settings, by their KIND."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar

from tidegate import estimate, perturb, threshold, units
from tidegate.errors import SettingError
from tidegate.exact_numbers import said
from tidegate.run import event_ticks
from tidegate.run import refinement_shares_and_windows as refinement
from tidegate.run import threshold_schedule_and_reselection as reselection
from tidegate.run.more_stages import SOURCES
from tidegate.settings import Spec

# What stored settings can name: never code from elsewhere, whatever a file says.
_STAGES: dict[str, type[Spec]] = {
    stage.KIND: stage
    for family in (threshold, perturb, estimate, units, reselection, refinement, event_ticks)
    for stage in (getattr(family, name) for name in family.__all__)
}
_DEEPEST = 6  # stages inside stages: a threshold in a reselection is the second
_Spec = TypeVar("_Spec", bound=Spec)


def parts(settings: object, depth: int = _DEEPEST) -> dict[str, Any]:
    """The fields of a specification in stored settings, its stages built."""
    if not isinstance(settings, Mapping) or not depth:
        raise SettingError("settings", "must be those of a pipeline, as `settings()` gives them")
    return {
        name: _stage(value, depth - 1) if isinstance(value, Mapping) else value
        for name, value in settings.items()
        if name != "kind"
    }


def _stage(settings: Mapping[str, Any], depth: int) -> Any:
    values = parts(settings, depth)
    kind = settings.get("kind")
    while isinstance(kind, str) and kind not in _STAGES and SOURCES:
        _STAGES.update({stage.KIND: stage for stage in SOURCES.pop()()})
    if not isinstance(kind, str) or kind not in _STAGES:
        raise SettingError(
            "kind", f"Tidegate has no stage {said(kind)}; build the pipeline in code"
        )
    return built(_STAGES[kind], values)


def built(specification: type[_Spec], values: Mapping[str, Any]) -> _Spec:
    """A specification from its fields; refuses what it does not know, and what is missing."""
    known = {item.name for item in fields(specification)}  # type: ignore[arg-type]  # a dataclass
    for name in values:
        if name not in known:
            raise SettingError(said(name), f"is not a setting of {specification.__name__}")
    for item in fields(specification):  # type: ignore[arg-type]  # a dataclass
        if item.default is MISSING and item.default_factory is MISSING and item.name not in values:
            raise SettingError(item.name, f"is missing: {specification.__name__} needs it")
    return specification(**values)
