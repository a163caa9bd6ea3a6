"""Arrow columns as numpy arrays of numbers, and arrays as columns.

Arrays are handed over by their memory. pyarrow's own conversions import pandas wherever it is
installed, to see whether they were given a column of it: half a second of every command that reads
or writes a file. These do not.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import InputError
from tidegate.tables.columns_to_numpy import ONE_COLUMN, refuse_other_columns
from tidegate.tables.optional_libraries import require_library

_NUMBERS = ("integer", "floating", "decimal", "boolean", "null")


def is_arrow_number(kind: Any) -> bool:
    """Whether a type of pyarrow holds numbers; of a dictionary, the type of its values."""
    types = sys.modules["pyarrow"].types
    if types.is_dictionary(kind):
        kind = kind.value_type
    return any(getattr(types, f"is_{name}")(kind) for name in _NUMBERS)


def is_arrow_text(kind: Any) -> bool:
    """Whether a type of pyarrow holds texts; of a dictionary, the type of its values."""
    types = sys.modules["pyarrow"].types
    if types.is_dictionary(kind):
        kind = kind.value_type
    names = ("string", "large_string", "string_view")
    return any(getattr(types, f"is_{name}")(kind) for name in names)


def numbers(column: Any, position: int = 0) -> NDArray[Any]:
    """int64 if every value is one, else float64 with NaN for null."""
    arrow = sys.modules["pyarrow"]
    column = _one_arrow_column(column, arrow)
    if not is_arrow_number(column.type):
        missing = column.is_null().to_numpy(zero_copy_only=False)
        return refuse_other_columns(missing, position, text=is_arrow_text(column.type))
    return arrow_as_numbers(column)


def arrow_as_numbers(column: Any) -> NDArray[Any]:
    """The numbers of a column for which `is_arrow_number` holds."""
    arrow = sys.modules["pyarrow"]
    types, kind = arrow.types, column.type
    if types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    whole = types.is_integer(kind) and kind != arrow.uint64()
    if types.is_boolean(kind):
        column, whole = column.cast(arrow.int8()), True
    target = arrow.int64() if whole and not column.null_count else arrow.float64()
    # Unsafe: an integer that no float equals becomes the nearest one.
    return arrow_to_numpy(column.cast(target, safe=False))


def from_protocol(column: Any, position: int = 0) -> NDArray[Any]:
    """An object with `__arrow_c_stream__` or `__arrow_c_array__` as a pyarrow object."""
    arrow = require_library("pyarrow", "Arrow's PyCapsule interface")
    if hasattr(column, "__arrow_c_stream__"):
        return numbers(arrow.chunked_array(column), position)
    return numbers(arrow.array(column), position)


def _one_arrow_column(column: Any, arrow: Any) -> Any:
    """An Array or ChunkedArray, from a table, a batch, or a column of structures."""
    if isinstance(column, arrow.RecordBatchReader):
        column = column.read_all()
    if isinstance(column, arrow.Table | arrow.RecordBatch):
        if column.num_columns != 1:
            raise InputError(f"this {ONE_COLUMN}")
        column = column.column(0)
    if not isinstance(column, arrow.Array | arrow.ChunkedArray):
        raise InputError("this object of pyarrow is not a column: give an Array or a ChunkedArray")
    if arrow.types.is_struct(column.type):  # a table, as Arrow's protocol tells of it
        if column.type.num_fields != 1:
            raise InputError(f"this {ONE_COLUMN}")
        column = column.flatten()[0]
    if isinstance(column.type, arrow.BaseExtensionType):
        column = column.cast(column.type.storage_type)
    return column


def to_arrow(values: NDArray[Any]) -> Any:
    """An Arrow array of the same numbers, sharing their memory; NaN stays NaN."""
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


def arrow_to_numpy(values: Any) -> NDArray[Any]:
    """The numbers of an Array or ChunkedArray of integers or floats; with nulls, floats and NaN."""
    parts = [_part_of_arrow(part) for part in getattr(values, "chunks", (values,)) if len(part)]
    if len(parts) == 1:
        return parts[0]
    if parts:
        return np.concatenate(parts)
    return np.empty(0, dtype=values.type.to_pandas_dtype())


def _part_of_arrow(values: Any) -> NDArray[Any]:
    known, memory = values.buffers()
    place = slice(values.offset, values.offset + len(values))
    numbers: NDArray[Any] = np.frombuffer(memory, dtype=values.type.to_pandas_dtype())[place]
    if not values.null_count:
        return numbers
    there = np.unpackbits(np.frombuffer(known, dtype=np.uint8), bitorder="little")[place]
    return np.where(there, numbers, np.nan)
