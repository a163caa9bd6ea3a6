"""Which column holds the values, and which the users. Names of columns are public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.errors import SettingError

_SHOWN = 20  # names in a message
_WIDTH = 40  # characters of a name in a message


@dataclass(frozen=True)
class Wanted:
    """A column to read: its name as asked for (None: find it), and the setting that asked."""

    name: str | None
    setting: str = "column"
    numeric: bool = True


def choose(wanted: Sequence[Wanted], names: Sequence[str], *, by_index: bool) -> list[int]:
    """Where the wanted columns are among `names`.

    A column without a name is the only one that is left, or the one called "value".
    """
    found = [
        None if column.name is None else _named(column, names, by_index=by_index)
        for column in wanted
    ]
    left = [index for index in range(len(names)) if index not in found]
    chosen = [
        _unnamed(column, names, left) if index is None else index
        for column, index in zip(wanted, found, strict=True)
    ]
    for place, column in enumerate(wanted):
        if chosen[place] in chosen[:place]:
            raise SettingError(column.setting, f"{names[chosen[place]]!r} is used already")
    return chosen


def _named(column: Wanted, names: Sequence[str], *, by_index: bool) -> int:
    matches = [index for index, name in enumerate(names) if name == column.name]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise SettingError(column.setting, f"{len(matches)} columns are called {column.name!r}")
    text = column.name or ""
    if by_index and text.isascii() and text.isdigit() and int(text) < len(names):
        return int(text)
    raise SettingError(column.setting, f"there is no {column.name!r}; {_available(names)}")


def _unnamed(column: Wanted, names: Sequence[str], left: list[int]) -> int:
    if len(left) == 1:
        return left[0]
    called_value = [index for index in left if names[index] == "value"]
    if len(called_value) == 1:
        return called_value[0]
    raise SettingError(column.setting, f"which one? {_available(names)}")


def _available(names: Sequence[str]) -> str:
    if not names:
        return "there are no columns"
    shown = ", ".join(repr(name[:_WIDTH]) for name in names[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"the columns are {shown}{more}"
