"""A Series went in, so a Series comes out: with the index of pandas, with the name of polars."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from tidegate.lattice import FloatArray
from tidegate.tables.to_numpy import NUMPY, library_of


class NamedColumn(Protocol):
    """A Series of pandas or polars."""

    @property
    def name(self) -> Any:
        """Of the column."""

    def to_numpy(self) -> Any:
        """As an array."""


Column = TypeVar("Column", bound=NamedColumn)


def like(values: Any) -> Callable[[FloatArray], Any] | None:
    """What makes a Series of released values; None if `values` is no Series.

    What was released belongs to the last rows that went in: a hold-out takes the first ones.
    """
    if type(values) in NUMPY:
        return None
    library = library_of(values)
    if library == "pandas" and isinstance(values, sys.modules["pandas"].Series):
        return lambda out: sys.modules["pandas"].Series(
            out, index=values.index[len(values) - out.size :], name=values.name
        )
    if library == "polars" and isinstance(values, sys.modules["polars"].Series):
        return lambda out: sys.modules["polars"].Series(values.name, out)
    return None
