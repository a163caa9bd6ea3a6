"""Pick named columns out of a table of any library; refuse columns of the wrong kind.

To tell its kind, only the type of a column and the form of its first entry are looked at: what is
said about a push that is refused must not depend on a value.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from os import PathLike
from typing import Any

import numpy as np

from tidegate.errors import InputError, SettingError
from tidegate.exact_numbers import said
from tidegate.tables.columns_to_numpy import column_read_by_library, library_of_column
from tidegate.tables.optional_libraries import require_library
from tidegate.timestamps_in_bulk import ISO


def check_table_kind(table: Any, value: Any) -> None:
    """Refuse objects that are neither tables nor columns, and say what to give instead.

    Raises:
        InputError: it names the kind, and nothing that is inside.
    """
    if library_of_column(table) == "polars" and hasattr(table, "collect"):
        raise InputError("the table is lazy: collect() it first")
    if isinstance(table, str | bytes | PathLike):
        raise InputError(
            "the table is a path: read it first, such as pandas.read_csv(path), or release the "
            "file with `tidegate release`"
        )
    if hasattr(table, "perturber"):
        raise InputError(
            "the table is a pipeline: push values into pipeline.start(), or give the table first, "
            "with epsilon and bound"
        )
    if isinstance(table, list | tuple) and any(isinstance(row, Mapping) for row in table[:1]):
        raise InputError(
            "the table is a list of rows: give columns, such as pandas.DataFrame(rows)"
        )
    if value is not None and not is_table(table):  # a column beside it would be ignored
        raise InputError(
            f"a {type(table).__name__} has no columns: give a table, or leave value out"
        )


def table_without_capsules(table: Any) -> Any:
    """An object of Arrow's PyCapsule interface as one of pyarrow; others unchanged.

    A table is a column of structures there, so whether this is one shows only now.

    Raises:
        InputError: it names the kind of the error, and nothing that is inside.
    """
    streams = hasattr(table, "__arrow_c_stream__")
    if library_of_column(table) or not (streams or hasattr(table, "__arrow_c_array__")):
        return table
    arrow = require_library("pyarrow", "Arrow's PyCapsule interface")

    def read() -> Any:
        column = arrow.chunked_array(table if streams else [arrow.array(table)])
        structures = arrow.types.is_struct(column.type)
        return arrow.Table.from_struct_array(column) if structures else column

    return column_read_by_library(read, table, "the table cannot be read")


def is_table(table: Any) -> bool:
    """Whether this has named columns."""
    kinds = {"pandas": "DataFrame", "polars": "DataFrame", "duckdb": "DuckDBPyRelation"}
    library = library_of_column(table)
    if library in kinds:
        return any(kind.__name__ == kinds[library] for kind in type(table).__mro__)
    if library == "pyarrow":
        return hasattr(table, "column_names") or hasattr(table, "schema")
    return isinstance(table, Mapping)


def index_times_of_table(table: Any, time: Any) -> Any:
    """The given times; without, the index of a pandas table or column, if it has times."""
    named = (
        isinstance(time, str)
        and time in ("index", getattr(getattr(table, "index", None), "name", None))
        and time not in getattr(table, "columns", ())
    )
    if library_of_column(table) != "pandas" or not (time is None or named):
        return time
    index = table.index
    timed = type(index).__name__ == "DatetimeIndex"
    if named and not timed:
        raise SettingError("time", "the index of the table has no times")
    return index if timed else time


def only_column_of_table(table: Any) -> Any:
    """The name of a table's only column. None: it has several, or does not list them."""
    names = table if isinstance(table, Mapping) else getattr(table, "columns", None)
    if library_of_column(table) == "pyarrow":
        names = getattr(table, "column_names", None)
    names = [] if names is None else list(names)
    return names[0] if len(names) == 1 and _is_column_name(names[0]) else None


def _is_column_name(name: Any) -> bool:
    """Whether this can name a column: text, or a number as in pandas."""
    return isinstance(name, str | int | np.integer) and not isinstance(name, bool)


def picked_table_columns(table: Any, names: Mapping[str, Any]) -> list[Any]:
    """The columns with these names; None stays None; anything but a name is a column itself.

    Args:
        table: a table of pandas, polars, pyarrow or DuckDB, one with Arrow's PyCapsule interface,
            or a dictionary of columns.
        names: what is wanted, by the argument that asks for it.

    Raises:
        SettingError: there is no such column. It does not list the others: where a file has no
            line with names, another library took a row of data for them.
    """
    columns = table_columns_at_once(table, names.values())
    for setting, name in names.items():
        if _is_column_name(name) and columns.get(name) is None:
            raise SettingError(setting, f"the table has no column {said(name)}, or two of them")
    return [columns[name] if _is_column_name(name) else name for name in names.values()]


def table_columns_at_once(table: Any, names: Iterable[Any]) -> dict[Any, Any]:
    """The columns with these names that occur exactly once; other arguments are left out.

    A reader gives its rows once, and a query in another order each time.
    """
    wanted = [name for name in names if _is_column_name(name)]
    return column_read_by_library(
        lambda: _table_columns(table, wanted), table, "the table cannot be read"
    )


def _table_columns(table: Any, wanted: Sequence[Any]) -> dict[Any, Any]:
    """The wanted columns that occur exactly once."""
    library = library_of_column(table)
    if library == "duckdb":  # one query for all: two might give rows in another order
        there = [name for name in wanted if list(table.columns).count(name) == 1]
        if not there:
            return {}
        expression = sys.modules["duckdb"].ColumnExpression
        table = table.select(*map(expression, dict.fromkeys(there)))
        if "TIMESTAMP WITH TIME ZONE" not in map(str, table.types):
            return dict(table.fetchnumpy())
        # numpy has no zones: instants would be taken for naive times, and for those of any zone.
        table = require_library("pyarrow", "a column of instants of DuckDB").table(table)
        library = "pyarrow"
    if library == "polars" and hasattr(table, "collect"):
        raise InputError("the table is lazy: collect() it first")
    if library == "pyarrow" and hasattr(table, "read_all"):
        table = table.read_all()
    if library == "pyarrow":
        names = list(table.schema.names)
        return {name: table.column(name) for name in wanted if names.count(name) == 1}
    names = list(table) if isinstance(table, Mapping) else list(table.columns)
    return {name: table[name] for name in wanted if names.count(name) == 1}


_NUMBERS = (int, float, Decimal, Fraction, np.integer, np.floating)
_LOOKED_AT = 100  # entries at the beginning of a list that may be missing


def refuse_times_in_table(values: Any, form: str, position: int = 0) -> None:
    """Refuse times where values belong; `form` shows the right call."""
    if _kind_of_input_column(values) == "times":
        raise InputError(f"values at position {position} are times, not numbers: write {form}")


def refuse_numbers_in_table(times: Any, form: str, position: int = 0) -> None:
    """Refuse numbers where times of events belong; `form` shows the right call."""
    if _kind_of_input_column(times) == "numbers":
        raise InputError(
            f"times at position {position} are numbers: write {form}. If they count since 1970, "
            "say so with tidegate.read_times(times, by_order=False)"
        )


def refuse_text_for_numbers(values: Any, keys: Any, form: str, position: int = 0) -> None:
    """Refuse texts for values and numbers for keys: they were swapped."""
    if _kind_of_input_column(keys) == "numbers" and _is_text(values):
        raise InputError(f"values at position {position} are text, not numbers: write {form}")


def _is_text(column: Any) -> bool:
    """Whether the first entry of a column is text; generators are not read."""
    if isinstance(column, str):
        return True
    if isinstance(column, list | tuple | np.ndarray) or library_of_column(column) in (
        "pandas",
        "polars",
    ):
        return isinstance(next((one for one in islice(column, 1)), None), str)
    return False


def table_column_has_times(column: Any) -> bool:
    """Whether a column holds times, judged by its type or its first entry."""
    return _kind_of_input_column(column) == "times"


def _kind_of_input_column(column: Any) -> str | None:
    typed: Any = getattr(column, "dtype", getattr(column, "type", None))
    kind = getattr(typed, "kind", None)  # of numpy and pandas
    if kind is not None and kind != "O":
        return {"M": "times", "i": "numbers", "u": "numbers", "f": "numbers"}.get(kind)
    if hasattr(typed, "is_temporal"):  # of polars
        return "times" if typed.is_temporal() else "numbers" if typed.is_numeric() else None
    if type(typed).__module__.partition(".")[0] == "pyarrow":
        name = str(typed)
        if name.startswith(("timestamp", "date")):
            return "times"
        return "numbers" if name.startswith(("int", "uint", "float", "double", "half")) else None
    if isinstance(column, str | bytes) or not hasattr(column, "__iter__"):
        return _kind_of_one_in_column(column)
    if not isinstance(column, list | tuple | np.ndarray) and library_of_column(column) != "pandas":
        return None  # a generator or a query: looking at its first entry would take it
    return next(
        (_kind_of_one_in_column(one) for one in islice(column, _LOOKED_AT) if one is not None), None
    )


def _kind_of_one_in_column(entry: Any) -> str | None:
    if isinstance(entry, date | np.datetime64):  # a datetime, and a Timestamp of pandas, is a date
        return "times"
    if isinstance(entry, _NUMBERS):
        return None if isinstance(entry, bool) else "numbers"
    return "times" if isinstance(entry, str) and ISO.fullmatch(entry.strip()) else None
