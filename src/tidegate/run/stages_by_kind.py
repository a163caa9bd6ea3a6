"""Rebuild stages from stored settings, by their KIND."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

from tidegate.errors import SettingError
from tidegate.exact_numbers import said
from tidegate.run.more_stages import SOURCES
from tidegate.settings import Spec

# Where the stages are that stored settings can name; imported when settings are read.
_FAMILIES = (
    "threshold",
    "perturb",
    "estimate",
    "units",
    "run.threshold_schedule_and_reselection",
    "run.refinement_schedule",
    "run.event_ticks",
)
_DEEPEST = 6  # stages inside stages: a threshold in a reselection is the second
_Spec = TypeVar("_Spec", bound=Spec)


@cache
def _stages() -> dict[str, type[Spec]]:
    """All stages by KIND: only classes listed here, so a file cannot name other code."""
    families = [import_module(f"tidegate.{family}") for family in _FAMILIES]
    found = [getattr(family, name) for family in families for name in family.__all__]
    return {stage.KIND: stage for stage in found}


def parsed_stage_fields(settings: object, depth: int = _DEEPEST) -> dict[str, Any]:
    """The fields of a specification in stored settings, with its stages rebuilt."""
    if not isinstance(settings, Mapping) or not depth:
        raise SettingError("settings", "must be those of a pipeline, as `settings()` gives them")
    return {
        name: _stage(value, depth - 1) if isinstance(value, Mapping) else value
        for name, value in settings.items()
        if name != "kind"
    }


def _stage(settings: Mapping[str, Any], depth: int) -> Any:
    values = parsed_stage_fields(settings, depth)
    kind = settings.get("kind")
    known = _stages()
    while isinstance(kind, str) and kind not in known and SOURCES:
        known.update({stage.KIND: stage for stage in SOURCES.pop()()})
    if not isinstance(kind, str) or kind not in known:
        raise SettingError(
            "kind", f"Tidegate has no stage {said(kind)}; build the pipeline in code"
        )
    return specification_by_kind(known[kind], values)


def specification_by_kind(specification: type[_Spec], values: Mapping[str, Any]) -> _Spec:
    """A specification from its fields; refuses unknown and missing fields."""
    known = {item.name for item in fields(specification)}  # type: ignore[arg-type]  # a dataclass
    for name in values:
        if name not in known:
            raise SettingError(said(name), f"is not a setting of {specification.__name__}")
    for item in fields(specification):  # type: ignore[arg-type]  # a dataclass
        if item.default is MISSING and item.default_factory is MISSING and item.name not in values:
            raise SettingError(item.name, f"is missing: {specification.__name__} needs it")
    return specification(**values)
