"""Whether a column holds times or numbers: for messages about arguments in the wrong order.

Only the type of a column and the form of its first entry are looked at, never its content: what is
said about a push that is refused must not depend on a value.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np

from tidegate.errors import InputError
from tidegate.tables.to_numpy import library_of
from tidegate.timestamps_in_bulk import ISO

_NUMBERS = (int, float, Decimal, Fraction, np.integer, np.floating)
_LOOKED_AT = 100  # entries at the beginning of a list that may be missing


def refuse_times(values: Any, form: str, position: int = 0) -> None:
    """Refuse times where values belong; `form` is what to write."""
    if _kind(values) == "times":
        raise InputError(f"values at position {position} are times, not numbers: write {form}")


def refuse_numbers(times: Any, form: str, position: int = 0) -> None:
    """Refuse numbers where times of events belong; `form` is what to write."""
    if _kind(times) == "numbers":
        raise InputError(
            f"times at position {position} are numbers: write {form}. If they count since 1970, "
            "say so with tidegate.read_times(times)"
        )


def are_times(column: Any) -> bool:
    """Whether a column holds times, as far as its type or its first entry tells."""
    return _kind(column) == "times"


def _kind(column: Any) -> str | None:
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
        return _kind_of_one(column)
    if not isinstance(column, list | tuple | np.ndarray) and library_of(column) != "pandas":
        return None  # a generator or a query: looking at its first entry would take it
    return next((_kind_of_one(one) for one in islice(column, _LOOKED_AT) if one is not None), None)


def _kind_of_one(entry: Any) -> str | None:
    if isinstance(entry, date | np.datetime64):  # a datetime, and a Timestamp of pandas, is a date
        return "times"
    if isinstance(entry, _NUMBERS):
        return None if isinstance(entry, bool) else "numbers"
    return "times" if isinstance(entry, str) and ISO.fullmatch(entry.strip()) else None
