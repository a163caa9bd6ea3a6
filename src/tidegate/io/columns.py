"""Which column holds the values, and which the users.

Names of columns are public where it is certain that they are names: in a Parquet schema, or where
the user said so (`header=True`). The first line of a CSV file may be a row of data after all, so
no message shows anything of it but the names that the user typed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.errors import SettingError
from tidegate.exact_numbers import said

_SHOWN = 20  # names in a message
_WIDTH = 40  # characters of a name in a message
_DIGITS = 9  # of a column's number
_HIDDEN = (
    "the first line was taken for names and may be data, so it is not shown: --header shows its "
    "names; if it is a row, give --no-header and the column's number, counted from 0"
)


@dataclass(frozen=True)
class Wanted:
    """A column to read: its name as asked for (None: find it), and the setting that asked."""

    name: str | None
    setting: str = "column"
    numeric: bool = True
    time: bool = False  # not numeric then

    @property
    def content(self) -> str:
        """What a row has here, for messages."""
        if self.time:
            return "time"
        return "value" if self.numeric else "key" if self.setting == "by" else "user"


def index_of(name: str | None) -> int | None:
    """The number that `name` is, if it is the number of a column, counted from 0.

    >>> index_of("3"), index_of("watts"), index_of("٣")
    (3, None, None)
    """
    if name is None or not (name.isascii() and name.isdigit() and len(name) <= _DIGITS):
        return None
    return int(name)


def choose(
    wanted: Sequence[Wanted], names: Sequence[str], *, by_index: bool, listed: bool
) -> list[int]:
    """Where the wanted columns are among `names`.

    A column without a name is the only one that is left, or the one called "value". `listed`:
    messages may show `names`.
    """
    available = _available(names) if listed else _HIDDEN
    found = [
        None if column.name is None else _named(column, names, available, by_index=by_index)
        for column in wanted
    ]
    left = [index for index in range(len(names)) if index not in found]
    chosen = [
        _unnamed(column, names, left, available) if index is None else index
        for column, index in zip(wanted, found, strict=True)
    ]
    for place, column in enumerate(wanted):
        if chosen[place] in chosen[:place]:
            raise SettingError(column.setting, f"{said(column.name)} is used already")
    return chosen


def _named(column: Wanted, names: Sequence[str], available: str, *, by_index: bool) -> int:
    matches = [index for index, name in enumerate(names) if name == column.name]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise SettingError(column.setting, f"{len(matches)} columns are called {said(column.name)}")
    index = index_of(column.name)
    if by_index and index is not None and index < len(names):
        return index
    raise SettingError(column.setting, f"there is no {said(column.name)}; {available}")


def _unnamed(column: Wanted, names: Sequence[str], left: list[int], available: str) -> int:
    if len(left) == 1:
        return left[0]
    called_value = [index for index in left if names[index] == "value"]
    if len(called_value) == 1:
        return called_value[0]
    raise SettingError(column.setting, f"choose one with --{column.setting}: {available}")


def _available(names: Sequence[str]) -> str:
    if not names:
        return "there are no columns"
    shown = ", ".join(repr(name[:_WIDTH]) for name in names[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"the columns are {shown}{more}"
