"""Convert a column of another library to a numpy array, with NaN for missing values.

The module of its class says which library an object comes from, so that nothing is imported
to find out. What is missing (NA, null, None, NaT) never moves another value: it becomes NaN here,
and the lattice counts it as 0.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import InputError, TidegateError
from tidegate.tables.optional_libraries import require_library

Read = TypeVar("Read")
NUMPY = (np.ndarray, list, tuple, range)  # not numpy.ma: importing it is slow
MISSING = ("NAType", "NaTType")  # of pandas, one value: told by name, without importing it
_SCALARS = (np.generic, Decimal, Fraction, str, bytes, type(None), bool)
ONE_COLUMN = "is a table: give one column of numbers, such as table['fare']"


def column_to_numpy(values: Any, position: int = 0) -> Any:
    """`values` as an array, or unchanged if it comes from none of these libraries.

    Args:
        values: a column; a table with exactly one column counts as that column.
        position: where its first value stands, for the message of an error.

    Raises:
        InputError: it holds something that is not a number. Names the position, never the content.
    """
    reader = _numpy_reader(values)
    if reader is None:
        return values
    what = f"the column that begins at position {position} cannot be read as numbers"
    return column_read_by_library(lambda: reader(values, position), values, what)


def column_read_by_library(read: Callable[[], Read], values: Any, what: str) -> Read:
    """What `read` gives, by the library of `values`; its errors, which may quote a value, become
    ours: what could not be read, the kind of the error, the library.
    """
    try:
        return read()
    except TidegateError:
        raise
    except Exception as error:  # noqa: BLE001  # whatever the library raises may quote a value
        problem = type(error).__name__
    # Outside of `except`: an error of ours has no other one as its context.
    raise InputError(f"{what} ({problem} of {library_of_column(values) or 'its library'})")


def library_of_column(values: Any) -> str:
    """The library that the class of `values`, or a class it is derived from, is defined in."""
    for kind in type(values).__mro__:
        library = kind.__module__.partition(".")[0].lstrip("_")  # duckdb is _duckdb inside
        if library in ("pandas", "polars", "pyarrow", "duckdb"):
            return library
    return ""


def column_in_arrow(values: Any) -> Any:
    """A column of polars or DuckDB as one of pyarrow, whose type has the zone; others unchanged."""
    library = library_of_column(values)
    if library == "polars" and hasattr(values, "to_arrow"):
        return values.to_arrow()
    if library != "duckdb" or not hasattr(values, "fetchnumpy"):
        return values
    if len(values.columns) != 1:
        raise InputError("the relation is a table: give one column of times, such as log['time']")
    table = require_library("pyarrow", "a column of times of DuckDB").table
    return column_read_by_library(
        lambda: table(values).column(0), values, "the times cannot be read"
    )


def not_a_number(position: int, *, text: bool = False) -> InputError:
    """The error about a value that is not a number, by position; with advice if it is text."""
    advice = "; it is text: convert it first, as pandas.to_numeric does"
    return InputError(f"value at position {position} is not a number{advice if text else ''}")


def refuse_other_columns(
    missing: Any, position: int, *, text: bool = False
) -> np.ndarray[Any, Any]:
    """NaN for a non-numeric column without any value; else an error.

    Args:
        missing: whether each value is missing.
        position: of the first of them.
        text: whether the type of the column is one of texts.
    """
    present = ~np.asarray(missing, dtype=bool)
    if present.any():
        raise not_a_number(position + int(np.argmax(present)), text=text)
    return np.full(present.size, np.nan)


def _numpy_reader(values: Any) -> Any:
    if type(values) in NUMPY:
        return None
    readers = {
        "duckdb": _column_from_duckdb,
        "pandas": pandas_to_numpy,
        "polars": polars_to_numpy,
        "pyarrow": _column_from_pyarrow,
    }
    if library := library_of_column(values):
        return readers[library]
    if hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__"):
        return _column_from_protocol
    return None


def _column_from_pyarrow(column: Any, position: int) -> Any:
    from tidegate.tables import arrow  # it imports this module

    return arrow.numbers(column, position)


def _column_from_protocol(column: Any, position: int) -> Any:
    from tidegate.tables import arrow  # it imports this module

    return arrow.from_protocol(column, position)


def _column_from_duckdb(relation: Any, position: int) -> Any:
    if not hasattr(relation, "fetchnumpy"):
        raise InputError("this object of DuckDB has no rows: give a relation with one column")
    columns = relation.fetchnumpy()
    if len(columns) != 1:
        raise InputError(f"the relation {ONE_COLUMN.replace('table', 'relation')}")
    (column,) = columns.values()
    return column_to_numpy(column, position)  # an enum comes as a categorical of pandas


def pandas_to_numpy(column: Any, position: int = 0) -> Any:
    """Numbers with NaN where missing; an array of objects for an object column."""
    pandas = sys.modules["pandas"]
    if isinstance(column, pandas.DataFrame):
        if column.shape[1] != 1:
            raise InputError(f"this {ONE_COLUMN}")
        column = column.iloc[:, 0]
    if not isinstance(column, pandas.Series | pandas.Index | pandas.api.extensions.ExtensionArray):
        raise InputError("this object of pandas is not a column: give a Series")
    kind = column.dtype
    if isinstance(kind, pandas.CategoricalDtype):
        return _categorical_column(pandas.Series(column), position)
    if isinstance(kind, np.dtype):
        array = column.to_numpy()
        return np.where(pandas.isna(array), None, array) if kind.kind == "O" else array
    missing = np.asarray(column.isna(), dtype=bool)
    kinds = pandas.api.types
    if not (kinds.is_numeric_dtype(kind) or kinds.is_bool_dtype(kind)):
        return refuse_other_columns(missing, position, text=bool(kinds.is_string_dtype(kind)))
    if kind.kind in "iub" and not missing.any():
        return column.to_numpy(dtype=np.uint64 if kind.kind == "u" else np.int64)
    return _floats_of_column(column, pandas)


def _floats_of_column(column: Any, pandas: Any) -> NDArray[np.float64]:
    if isinstance(column.dtype, pandas.SparseDtype):
        return np.asarray(column, dtype=np.float64)
    return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))


def _categorical_column(column: Any, position: int) -> Any:
    """Decode categories that are numbers; refuse others."""
    codes, categories = column.cat.codes.to_numpy(), column.cat.categories
    if not sys.modules["pandas"].api.types.is_numeric_dtype(categories.dtype):
        text = sys.modules["pandas"].api.types.is_string_dtype(categories.dtype)
        return refuse_other_columns(codes < 0, position, text=bool(text))
    known = np.asarray(pandas_to_numpy(categories, position), dtype=np.float64)
    with_missing: NDArray[np.float64] = np.append(known, np.nan)
    return with_missing[codes]  # what is missing has the code −1: the last one


_WIDE = ("Int128", "UInt128")  # numpy has no such integers


def polars_to_numpy(column: Any, position: int = 0) -> Any:
    """Numbers with NaN where null; an array of objects for an object column."""
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
        text = kind in (polars.String, polars.Categorical, polars.Enum)
        return refuse_other_columns(column.is_null().to_numpy(), position, text=text)
    if kind.is_integer() and not column.null_count() and str(kind) not in _WIDE:
        return column.to_numpy()
    # Not strict: a number that no float equals becomes the nearest one.
    return column.cast(polars.Float64, strict=False).to_numpy()


def as_single(values: Any) -> tuple[bool, Any]:
    """Whether this is a single value (or a missing one); and the value itself."""
    if type(values) is np.ndarray and values.ndim == 0:
        return True, values.item()
    return isinstance(values, _SCALARS) or type(values).__name__ in MISSING, values
