"""Arrays of numpy as Arrow's and back, by their memory.

pyarrow's own conversions import pandas wherever it is installed, to see whether they were given a
column of it: half a second of every command that reads or writes a file. These do not.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def to_arrow(values: NDArray[Any]) -> Any:
    """An Arrow array of the same numbers. It shares their memory; NaN stays NaN."""
    arrow = sys.modules["pyarrow"]
    memory = arrow.py_buffer(np.ascontiguousarray(values))
    return arrow.Array.from_buffers(
        arrow.from_numpy_dtype(values.dtype), values.size, [None, memory]
    )


def texts_to_arrow(values: Sequence[str]) -> Any:
    """An Arrow array of these texts."""
    arrow = sys.modules["pyarrow"]
    encoded = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    memory = [None, arrow.py_buffer(ends), arrow.py_buffer(b"".join(encoded))]
    return arrow.Array.from_buffers(arrow.large_string(), len(encoded), memory).cast(arrow.string())


def to_numpy(values: Any) -> NDArray[Any]:
    """The numbers of an Array or ChunkedArray of integers or floats; with nulls, floats and NaN."""
    parts = [_part(part) for part in getattr(values, "chunks", (values,)) if len(part)]
    if len(parts) == 1:
        return parts[0]
    if parts:
        return np.concatenate(parts)
    return np.empty(0, dtype=values.type.to_pandas_dtype())


def _part(values: Any) -> NDArray[Any]:
    known, memory = values.buffers()
    place = slice(values.offset, values.offset + len(values))
    numbers: NDArray[Any] = np.frombuffer(memory, dtype=values.type.to_pandas_dtype())[place]
    if not values.null_count:
        return numbers
    there = np.unpackbits(np.frombuffer(known, dtype=np.uint8), bitorder="little")[place]
    return np.where(there, numbers, np.nan)
