"""Convert a column of another library to a numpy array, with NaN for missing values.

Which library an object comes from is told by the module of its class, so that nothing is imported
to find out. What is missing (NA, null, None, NaT) never moves another value: it becomes NaN here,
and the lattice counts it as 0.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from tidegate.errors import InputError, TidegateError

NUMPY = (np.ndarray, list, tuple, range)  # not numpy.ma: importing it is slow
MISSING = ("NAType", "NaTType")  # of pandas, one value: told by name, without importing it
ONE_COLUMN = "is a table: give one column of numbers, such as table['fare']"


def plain(values: Any, position: int = 0) -> Any:
    """`values` as an array, or unchanged if it comes from none of these libraries.

    Args:
        values: a column; a table with exactly one column counts as that column.
        position: where its first value stands, for the message of an error.

    Raises:
        InputError: it holds something that is not a number. Names the position, never the content.
    """
    reader = _reader(values)
    if reader is None:
        return values
    try:
        return reader(values, position)
    except TidegateError:
        raise
    except Exception as error:  # noqa: BLE001  # whatever the library raises may quote a value
        problem = type(error).__name__
    raise InputError(
        f"the column that begins at position {position} cannot be read as numbers ({problem} of "
        f"{library_of(values) or 'its library'})"
    )


def library_of(values: Any) -> str:
    """The library that the class of `values`, or a class it is derived from, is defined in."""
    for kind in type(values).__mro__:
        library = kind.__module__.partition(".")[0].lstrip("_")  # duckdb is _duckdb inside
        if library in ("pandas", "polars", "pyarrow", "duckdb"):
            return library
    return ""


def not_a_number(position: int) -> InputError:
    """The error about what is not a number, by its position."""
    return InputError(f"value at position {position} is not a number")


def refuse_others(missing: Any, position: int) -> np.ndarray[Any, Any]:
    """NaN for a column of no numeric type in which all is missing; else an error.

    Args:
        missing: whether each value is missing.
        position: of the first of them.
    """
    present = ~np.asarray(missing, dtype=bool)
    if present.any():
        raise not_a_number(position + int(np.argmax(present)))
    return np.full(present.size, np.nan)


def _reader(values: Any) -> Any:
    if type(values) in NUMPY:
        return None
    library = library_of(values)
    if library == "duckdb":
        return _from_duckdb
    if library:
        name = "arrow" if library == "pyarrow" else library
        return _module(name).numbers
    if hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__"):
        return _module("arrow").from_protocol
    return None


def _module(library: str) -> Any:
    """On demand: they import this one."""
    return importlib.import_module(f"tidegate.tables.{library}_column")


def _from_duckdb(relation: Any, position: int) -> Any:
    if not hasattr(relation, "fetchnumpy"):
        raise InputError("this object of DuckDB has no rows: give a relation with one column")
    columns = relation.fetchnumpy()
    if len(columns) != 1:
        raise InputError(f"the relation {ONE_COLUMN.replace('table', 'relation')}")
    (column,) = columns.values()
    return plain(column, position)  # an enum comes as a categorical of pandas
