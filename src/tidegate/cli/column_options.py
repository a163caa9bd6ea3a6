"""Options with a value per column: `--bound fare=100 --bound tip=30`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidegate.cli.pipelines import BY_COLUMN
from tidegate.errors import SettingError


def of_one_column(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a run over one column, or over the only one there is."""
    if "share" in options:
        raise SettingError("share", "goes with several columns: give --column for each")
    found = dict(options)
    column = options.get("column", [None])[0]
    for name in BY_COLUMN:
        if name in found and name != "column":
            found[name] = _for(column, name, options[name])
    if column is not None:
        found["column"] = column
    return {name: value for name, value in found.items() if value is not None}


def _for(column: str | None, name: str, given: Sequence[str]) -> str:
    mine, sign, value = given[-1].rpartition("=")  # the last counts, as of any option
    if sign and mine != column:
        raise SettingError(name, f"is for {mine!r}, which is not the --column")
    return value


def by_column(name: str, columns: Sequence[str], given: Sequence[str] | None) -> dict[str, Any]:
    """A setting for each column: of the ones named, or one for all others."""
    found: dict[str, Any] = {}
    for text in given or ():
        column, sign, value = text.rpartition("=")
        if sign and column not in columns:
            raise SettingError(name, f"{column!r} is not a --column of this run")
        wanted = [column] if sign else [one for one in columns if one not in found]
        for one in wanted:
            if sign and one in found:
                raise SettingError(name, f"is given twice for {one!r}")
            found[one] = value
    return found
