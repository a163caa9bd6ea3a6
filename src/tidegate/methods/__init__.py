"""The published methods, one file each: a preset, and the stages that only this method has.

A file without a leading underscore is a method. It defines a preset function, whose docstring says
what the method does, when to choose it and where it was published, and ends with `METHOD =
Method(preset)`. Nothing else has to know about it: the files of this folder are the list. From it
come `tidegate.<preset>`, `tidegate methods`, the choices of `--preset`, the table in the docs, and
the pipelines that the laws are tried on.

Threshold and stream look at disjoint values, so each gets the whole ε.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from tidegate.methods._registration import Method, series_schemes
from tidegate.settings import Spec

__all__ = ["LOCAL", "Method", "find", "names", "registered", "series_schemes", "stages"]

LOCAL = frozenset({"topl"})  # methods of the local model: known without importing any


def __dir__() -> list[str]:
    """The public names only, not modules that happen to be imported."""
    return list(__all__)


@cache
def names() -> tuple[str, ...]:
    """The names of all methods, which are those of their files and presets; imports none."""
    found = sorted(module.name for module in iter_modules(__path__))
    return tuple(name for name in found if not name.startswith("_"))


@cache
def find(name: str) -> Method:
    """The registered method of a file.

    >>> find("tops").preset(epsilon=0.1, bound=1657).guarantee.epsilon
    Fraction(1, 10)
    """
    method: Method = import_module(f"{__name__}.{name}").METHOD
    if method.preset.__name__ != name:
        raise AssertionError(f"methods/{name}.py must define the preset {name}")
    if (method.model == "local") != (name in LOCAL):
        raise AssertionError(f"methods/{name}.py and LOCAL must agree on the model of {name}")
    return method


def registered() -> tuple[Method, ...]:
    """All methods, sorted by name."""
    return tuple(find(name) for name in names())


def stages() -> list[type[Spec]]:
    """The stages that belong to one method only; `tidegate` registers them for stored settings."""
    return [stage for method in registered() for stage in method.stages]
