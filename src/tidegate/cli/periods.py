"""`--period`: how many rows a cycle has, written as rows or as a length of time."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidegate.errors import SettingError
from tidegate.methods._periods import in_rows, is_length

_ROWS = 64  # whose times are looked at


def parts_of(options: dict[str, Any]) -> list[str]:
    """The periods as they were written."""
    return [part.strip() for part in str(options["period"]).split(",")]


def with_rows(options: dict[str, Any], source: str, reading: dict[str, Any]) -> dict[str, Any]:
    """The options, with periods as numbers of rows.

    A length of time needs rows that are evenly spaced. Times are public, so the first rows of the
    file tell it; a pipe can be read only once.

    Args:
        options: all of the command's.
        source: the input.
        reading: how it is opened.
    """
    if "period" not in options or not any(map(is_length, parts_of(options))):
        return options
    if "time" not in options:
        raise SettingError("period", "a length of time needs --time; else give a number of rows")
    if "by" in options:
        raise SettingError("period", "must be a number of rows of a key where --by is given")
    if source == "-":
        raise SettingError("period", "must be a number of rows where the input is a pipe")
    rows = in_rows(parts_of(options), _spacing(source, reading))
    return {**options, "period": ",".join(map(str, rows or ()))}


def _spacing(source: str, reading: dict[str, Any]) -> int:
    """Nanoseconds from row to row, by the first rows."""
    from tidegate.io import open_source

    with open_source(source, **{**reading, "follow": False}) as opened:
        first = next(iter(opened.batches()), None)
    times = None if first is None else first.times
    if times is None or times.ticks.size < 2:
        raise SettingError("period", "must be a number of rows: the file has too few to tell")
    steps = np.diff(times.ticks[:_ROWS])
    if steps.min() != steps.max() or steps[0] <= 0:
        raise SettingError(
            "period", "must be a number of rows: those of this file are not evenly spaced in time"
        )
    return int(steps[0])
