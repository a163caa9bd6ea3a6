"""Lists of numbers as a column that Spark copies in one piece.

PySpark turns every array of a column of objects into a Python list, and every number of it into an
object, before Arrow packs them again: a third of all processor time of a query with packed rows
(docs/decisions/0104). It does so by `Series.apply(list)`. A column that is a list array of Arrow
already stays as it is under that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.lattice import IntArray


class _ListColumn(pd.arrays.ArrowExtensionArray):
    """A list array for Spark only: it equals the same column as Python lists."""

    def map(self, mapper: Any, na_action: Any = None) -> _ListColumn:
        """The column itself: PySpark maps lists to lists here."""
        return self


FLOATS, WHOLE = pa.float64(), pa.int64()


def list_column(numbers: NDArray[Any], starts: IntArray, kind: pa.DataType = FLOATS) -> pd.Series:
    """A row for each of `starts`: the numbers from there to the next start.

    NaN and None are missing numbers, as they are in any other column of pandas.
    """
    ends: NDArray[np.int32] = np.append(starts, numbers.size).astype(np.int32)
    items = pa.array(numbers, kind, from_pandas=True)
    return pd.Series(_ListColumn(pa.ListArray.from_arrays(pa.array(ends), items)))
