"""A Series, Index or array of pandas as an array of numbers."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import InputError
from tidegate.tables.to_numpy import ONE_COLUMN, refuse_others


def numbers(column: Any, position: int = 0) -> Any:
    """Numbers with NaN for what is missing; an array of objects where the column has objects."""
    pandas = sys.modules["pandas"]
    if isinstance(column, pandas.DataFrame):
        if column.shape[1] != 1:
            raise InputError(f"this {ONE_COLUMN}")
        column = column.iloc[:, 0]
    if not isinstance(column, pandas.Series | pandas.Index | pandas.api.extensions.ExtensionArray):
        raise InputError("this object of pandas is not a column: give a Series")
    kind = column.dtype
    if isinstance(kind, pandas.CategoricalDtype):
        return _categorical(pandas.Series(column), position)
    if isinstance(kind, np.dtype):
        array = column.to_numpy()
        return np.where(pandas.isna(array), None, array) if kind.kind == "O" else array
    missing = np.asarray(column.isna(), dtype=bool)
    kinds = pandas.api.types
    if not (kinds.is_numeric_dtype(kind) or kinds.is_bool_dtype(kind)):
        return refuse_others(missing, position)
    if kind.kind in "iub" and not missing.any():
        return column.to_numpy(dtype=np.uint64 if kind.kind == "u" else np.int64)
    return _floats(column, pandas)


def _floats(column: Any, pandas: Any) -> NDArray[np.float64]:
    if isinstance(column.dtype, pandas.SparseDtype):
        return np.asarray(column, dtype=np.float64)
    return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))


def _categorical(column: Any, position: int) -> Any:
    """Categories that are numbers are an encoding of numbers; others are refused."""
    codes, categories = column.cat.codes.to_numpy(), column.cat.categories
    if not sys.modules["pandas"].api.types.is_numeric_dtype(categories.dtype):
        return refuse_others(codes < 0, position)
    known = np.asarray(numbers(categories, position), dtype=np.float64)
    with_missing: NDArray[np.float64] = np.append(known, np.nan)
    return with_missing[codes]  # what is missing has the code −1: the last one
