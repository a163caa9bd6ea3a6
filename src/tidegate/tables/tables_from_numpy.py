"""Arrays as columns and tables of pyarrow, pandas and polars.

A Series went in, so a Series comes out: with the index of pandas, with the name of polars.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tidegate.lattice import FloatArray
from tidegate.tables.columns_to_numpy import NUMPY, library_of_column
from tidegate.tables.optional_libraries import require_library

Columns = Mapping[str, NDArray[Any]]


def arrow_table(columns: Columns, zone: str | None = None) -> Any:
    """A `pyarrow.Table`; its times are in `zone`."""
    arrow = require_library("pyarrow", "to_arrow()")
    return arrow.table(
        {
            name: arrow.array(column.astype(np.int64), arrow.timestamp("ns", tz=zone))
            if _is_numpy_time(column)
            else column
            for name, column in columns.items()
        }
    )


def pandas_frame(columns: Columns, zone: str | None = None) -> Any:
    """A `pandas.DataFrame`; its times are in `zone`."""
    frame = require_library("pandas", "to_pandas()").DataFrame(dict(columns))
    for name, column in columns.items():
        if zone is not None and _is_numpy_time(column):
            frame[name] = frame[name].dt.tz_localize("UTC").dt.tz_convert(zone)
    return frame


def polars_frame(columns: Columns, zone: str | None = None) -> Any:
    """A `polars.DataFrame`; its times are in `zone`."""
    frame = require_library("polars", "to_polars()").DataFrame(dict(columns))
    named = "UTC" if zone is not None and zone[:1] in "+-" else zone  # polars knows no offsets
    times = [name for name, column in columns.items() if named and _is_numpy_time(column)]
    return frame.with_columns(
        frame[name].dt.replace_time_zone("UTC").dt.convert_time_zone(named) for name in times
    )


def _is_numpy_time(column: NDArray[Any]) -> bool:
    return column.dtype.kind == "M"


class Tabular(ABC):
    """An object with `columns` that converts itself to tables of other libraries."""

    @abstractmethod
    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns by name, as arrays of equal length."""

    @property
    def zone(self) -> str | None:
        """The zone of the times, which `columns` gives in universal time. None: there is none."""
        return None

    def to_arrow(self) -> Any:
        """A `pyarrow.Table`."""
        return arrow_table(self.columns(), self.zone)

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame`."""
        return pandas_frame(self.columns(), self.zone)

    def to_polars(self) -> Any:
        """A `polars.DataFrame`."""
        return polars_frame(self.columns(), self.zone)


class NamedColumn(Protocol):
    """A Series of pandas or polars."""

    @property
    def name(self) -> Any:
        """The name of the column."""

    def to_numpy(self) -> Any:
        """The column as an array."""


Column = TypeVar("Column", bound=NamedColumn)


def series_from_numpy(values: Any) -> Callable[[FloatArray], Any] | None:
    """A function that makes a Series of released values. None: `values` is not a Series.

    What was released belongs to the last rows that went in: a hold-out takes the first ones.
    """
    if type(values) in NUMPY:
        return None
    library = library_of_column(values)
    if library == "pandas" and isinstance(values, sys.modules["pandas"].Series):
        return lambda out: sys.modules["pandas"].Series(
            out, index=values.index[len(values) - out.size :], name=values.name
        )
    if library == "polars" and isinstance(values, sys.modules["polars"].Series):
        return lambda out: sys.modules["polars"].Series(values.name, out)
    return None
