"""Arguments of `push` as columns of a request, parsed and refused as in the library."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from tidegate.errors import InputError, SettingError
from tidegate.keyed.key_names import key_texts
from tidegate.lattice import FloatArray, Lattice
from tidegate.tables.columns_to_numpy import MISSING
from tidegate.tables.table_input import refuse_numbers_in_table, refuse_times_in_table
from tidegate.timestamps import Times, read_times

_LATTICE = Lattice(Fraction(1), Fraction(1))  # what is a number does not depend on bounds
_SCALARS = (int, float, np.generic, Decimal, Fraction, str, bytes, type(None))


class PushedColumns(NamedTuple):
    """Columns of one length for the body of a request, and the zone of the times, if any."""

    content: dict[str, list[Any]]
    size: int
    zone: str | None = None

    def __repr__(self) -> str:  # raw values
        return "<PushedColumns>"

    def part(self, start: int, end: int) -> dict[str, list[Any]]:
        """Some of the rows."""
        return {name: column[start:end] for name, column in self.content.items()}


def is_single_push(values: Any) -> bool:
    """Whether this is a single value, not a column."""
    if isinstance(values, np.ndarray):
        return values.ndim == 0
    return isinstance(values, _SCALARS) or type(values).__name__ in MISSING


def pushed_columns(
    form: str,
    values: Any,
    times: Any,
    keys: Any = None,
    *,
    keyed: bool = False,
    events: bool = False,
) -> PushedColumns:
    """The columns of a push; `form` shows the right call in errors about swapped arguments.

    Raises:
        InputError: a value is not a number, a time none, or the columns differ in length.
    """
    content: dict[str, list[Any]] = {}
    zone, size = None, None
    if events:
        if times is None:
            raise InputError(f"an event has a time: write {form}")
        refuse_numbers_in_table(times, form)
    refuse_times_in_table(values, form)
    if values is not None or not events:
        numbers = _LATTICE.numbers(values)
        content["values"], size = _plain_pushed(numbers.astype(np.float64)), numbers.size
    if times is not None:
        when = _pushed_times(times, by_order=not events)
        size = _checked_push(size, when.ticks.size, "times")
        content["times"], zone = when.clock.texts(when.ticks), when.clock.zone
    if keyed:
        names = _pushed_keys(keys)
        size = _checked_push(size, len(names), "keys")
        content["keys"] = names
    return PushedColumns(content, size or 0, zone)


def _pushed_keys(keys: Any) -> list[str | None]:
    for method in ("to_pylist", "to_list", "tolist"):  # of pyarrow, of pandas and polars, of numpy
        if hasattr(keys, method):
            keys = getattr(keys, method)()
            break
    problem = "keys must be a list or a column of texts or whole numbers, one for each value"
    if isinstance(keys, str | bytes) or not hasattr(keys, "__iter__"):
        raise InputError(problem)
    try:
        return key_texts(keys)
    except TypeError:  # a list, or what else cannot be a key
        raise InputError(problem) from None


def refuse_pushed_users(users: Any) -> None:
    """Refuse names of users: a service protects events."""
    if users is not None:
        raise SettingError("users", "must be left out: streams of a service take no users")


def refuse_pushed_late(late: str) -> None:
    """Refuse late rows: a service takes rows in order."""
    if late != "refuse":
        raise SettingError("late", "must be left out: a service takes rows in the order of time")


def _pushed_times(times: Any, *, by_order: bool) -> Times:
    listed = times if hasattr(times, "__len__") and not isinstance(times, str) else [times]
    return read_times(listed, by_order=by_order)


def _checked_push(size: int | None, count: int, name: str) -> int:
    if size is not None and size != count:
        raise InputError(f"{size} values but {count} {name}")
    return count


def _plain_pushed(numbers: FloatArray) -> list[float | None]:
    """Values for JSON, which has no infinity: the largest float lies beyond every bound, too."""
    most = np.finfo(np.float64).max
    return [None if value != value else value for value in np.clip(numbers, -most, most).tolist()]
