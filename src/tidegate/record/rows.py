"""`Rows`: consecutive released rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.lattice import FloatArray, IntArray
from tidegate.tables.from_numpy import arrow_table, pandas_frame, polars_frame


class Rows(NamedTuple):
    """Released rows, in order of position.

    Attributes:
        first: the position of the first row, counted from 0.
        values: what was released; sums are made of it, and single ones look wild.
        levels: what a value is expected to be, as known once the row is out: smooth, within the
            bounds, for people to look at.
        times: as they were given with the values, in nanoseconds since 1970; None: none were.
    """

    first: int
    values: FloatArray
    levels: FloatArray
    times: IntArray | None = None

    def columns(self) -> dict[str, NDArray[Any]]:
        """The rows as columns: time, if they have it, position, value, level."""
        positions = np.arange(self.first, self.first + self.values.size)
        times = {} if self.times is None else {"time": self.times.astype("datetime64[ns]")}
        return {**times, "position": positions, "value": self.values, "level": self.levels}

    def to_arrow(self) -> Any:
        """A `pyarrow.Table`."""
        return arrow_table(self.columns())

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame`."""
        return pandas_frame(self.columns())

    def to_polars(self) -> Any:
        """A `polars.DataFrame`."""
        return polars_frame(self.columns())

    def since(self, position: int) -> Rows:
        """These rows from a position on."""
        skip = max(0, position - self.first)
        times = None if self.times is None else self.times[skip:]
        return Rows(self.first + skip, self.values[skip:], self.levels[skip:], times)
