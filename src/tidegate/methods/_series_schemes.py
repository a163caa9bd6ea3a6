"""Schemes for series of users (`tidegate.local.series`), as lists and tables show them."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from tidegate.methods._registration import Method

_EXAMPLES = {"Patterns": {"window": 8}, "PopulationDivision": {"window": 8}}


@cache
def series_schemes() -> tuple[Method, ...]:
    """The schemes that `tidegate.local.series` exports, by name."""
    room = import_module("tidegate.local.series")  # on demand: the central model needs none of it
    found = [getattr(room, name) for name in sorted(room.__all__)]
    return tuple(
        Method(scheme, model="local", example=_EXAMPLES.get(scheme.__name__, {}))
        for scheme in found
        if isinstance(scheme, type)
    )
