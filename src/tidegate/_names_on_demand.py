"""Import the names of a package when they are first used: few programs need them all."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def names_on_demand(
    package: str, names: Iterable[str], homes: Mapping[str, str] | None = None
) -> Callable[[str], Any]:
    """The `__getattr__` of a package: `AboveThreshold` is imported from `above_threshold`.

    `homes` names the module of those that lie elsewhere. Use it under `if not TYPE_CHECKING:`, as a
    type checker would believe that every name exists.

    >>> names_on_demand("tidegate.threshold", ["NoisyMax"])("NoisyMax").KIND
    'threshold.NoisyMax'
    """
    modules = {name: _module_of_name(name) for name in names} | dict(homes or {})

    def import_name(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, found)  # it is not asked for again
        return found

    return import_name


def _module_of_name(name: str) -> str:
    words = (f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return "".join(words).removeprefix("_")
