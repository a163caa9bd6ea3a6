"""Pick named columns out of a table of any library, together."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.errors import InputError, SettingError, TidegateError
from tidegate.exact_numbers import said
from tidegate.tables.libraries import require
from tidegate.tables.to_numpy import library_of


def is_table(table: Any) -> bool:
    """Whether this has named columns."""
    kinds = {"pandas": "DataFrame", "polars": "DataFrame", "duckdb": "DuckDBPyRelation"}
    library = library_of(table)
    if library in kinds:
        return any(kind.__name__ == kinds[library] for kind in type(table).__mro__)
    if library == "pyarrow":
        return hasattr(table, "column_names") or hasattr(table, "schema")
    return isinstance(table, Mapping) or hasattr(table, "__arrow_c_stream__")


def picked(table: Any, names: Mapping[str, Any]) -> list[Any]:
    """The columns of these names; None stays None, and what is no name is a column itself.

    Args:
        table: a table of pandas, polars, pyarrow or DuckDB, one with Arrow's PyCapsule interface,
            or a dictionary of columns.
        names: what is wanted, by the argument that asks for it.

    Raises:
        SettingError: there is no such column. It does not list the others: where a file has no
            line with names, another library took a row of data for them.
    """
    wanted = [name for name in names.values() if isinstance(name, str)]
    try:
        columns = _columns(table, wanted)
    except TidegateError:
        raise
    except Exception as error:  # noqa: BLE001  # whatever the library raises may quote a value
        problem = type(error).__name__
    else:
        for setting, name in names.items():
            if isinstance(name, str) and columns.get(name) is None:
                raise SettingError(setting, f"the table has no column {said(name)}, or several")
        return [columns[name] if isinstance(name, str) else name for name in names.values()]
    raise InputError(
        f"the table cannot be read ({problem} of {library_of(table) or 'its library'})"
    )


def _columns(table: Any, wanted: Sequence[str]) -> dict[str, Any]:
    """Those of the wanted columns that are there exactly once."""
    library = library_of(table)
    if library == "duckdb":  # one query for all: two might give rows in another order
        there = [name for name in wanted if list(table.columns).count(name) == 1]
        if not there:
            return {}
        expression = sys.modules["duckdb"].ColumnExpression
        return dict(table.select(*map(expression, dict.fromkeys(there))).fetchnumpy())
    if library == "polars" and hasattr(table, "collect"):
        raise InputError("the table is lazy: collect() it first")
    if not library and not isinstance(table, Mapping):
        table = require("pyarrow", "Arrow's PyCapsule interface").table(table)
        library = "pyarrow"
    if library == "pyarrow" and hasattr(table, "read_all"):
        table = table.read_all()
    if library == "pyarrow":
        names = list(table.schema.names)
        return {name: table.column(name) for name in wanted if names.count(name) == 1}
    names = list(table) if isinstance(table, Mapping) else list(table.columns)
    return {name: table[name] for name in wanted if names.count(name) == 1}
