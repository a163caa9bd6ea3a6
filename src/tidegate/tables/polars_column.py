"""A Series of polars as an array of numbers."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tidegate.errors import InputError
from tidegate.tables.to_numpy import ONE_COLUMN, refuse_others

_WIDE = ("Int128", "UInt128")  # numpy has no such integers


def numbers(column: Any, position: int = 0) -> Any:
    """Numbers with NaN for null; an array of objects where the column has objects."""
    polars = sys.modules["polars"]
    if isinstance(column, polars.DataFrame):
        if column.width != 1:
            raise InputError(f"this {ONE_COLUMN}")
        column = column.to_series()
    if not isinstance(column, polars.Series):
        raise InputError(
            "this object of polars is not a column: give a Series (collect a lazy frame first)"
        )
    kind = column.dtype
    if kind == polars.Object:
        array = np.empty(len(column), dtype=object)
        array[:] = column.to_list()
        return array
    if not (kind.is_numeric() or kind in (polars.Boolean, polars.Null)):
        return refuse_others(column.is_null().to_numpy(), position)
    if kind.is_integer() and not column.null_count() and str(kind) not in _WIDE:
        return column.to_numpy()
    # Not strict: a number that no float equals becomes the nearest one.
    return column.cast(polars.Float64, strict=False).to_numpy()
