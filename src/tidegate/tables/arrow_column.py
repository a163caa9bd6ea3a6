"""A column of pyarrow, or of anything with Arrow's PyCapsule interface, as an array of numbers."""

from __future__ import annotations

import sys
from typing import Any

from numpy.typing import NDArray

from tidegate.errors import InputError
from tidegate.tables.arrow_memory import to_numpy
from tidegate.tables.libraries import require
from tidegate.tables.to_numpy import ONE_COLUMN, refuse_others

_NUMBERS = ("integer", "floating", "decimal", "boolean", "null")


def is_number(kind: Any) -> bool:
    """Whether a type of pyarrow holds numbers; of a dictionary, the type of its values."""
    types = sys.modules["pyarrow"].types
    if types.is_dictionary(kind):
        kind = kind.value_type
    return any(getattr(types, f"is_{name}")(kind) for name in _NUMBERS)


def numbers(column: Any, position: int = 0) -> NDArray[Any]:
    """int64 where every value is one, float64 otherwise; NaN for null."""
    arrow = sys.modules["pyarrow"]
    column = _one_column(column, arrow)
    if not is_number(column.type):
        return refuse_others(column.is_null().to_numpy(zero_copy_only=False), position)
    return as_numbers(column)


def as_numbers(column: Any) -> NDArray[Any]:
    """The same for a column that `is_number`."""
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
    return to_numpy(column.cast(target, safe=False))


def from_protocol(column: Any, position: int = 0) -> NDArray[Any]:
    """Any object with `__arrow_c_stream__` or `__arrow_c_array__`."""
    arrow = require("pyarrow", "Arrow's PyCapsule interface")
    if hasattr(column, "__arrow_c_stream__"):
        return numbers(arrow.chunked_array(column), position)
    return numbers(arrow.array(column), position)


def _one_column(column: Any, arrow: Any) -> Any:
    """An Array or ChunkedArray; out of a table, a batch, or a column of structures."""
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
