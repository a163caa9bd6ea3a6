"""Periods of a cycle, as numbers of rows or as durations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tidegate.errors import QueryError, SettingError
from tidegate.exact_numbers import said, whole
from tidegate.lattice import IntArray

Period = int | str | Sequence[int | str] | None
_ROWS = 64  # at the beginning, whose times tell how far rows are apart


def is_length_of_period(part: int | str) -> bool:
    """Whether a period is a duration such as `1d`, not a number of rows."""
    return isinstance(part, str) and not part.strip().isdecimal()


def periods_as_rows(period: Period, spacing: int) -> list[int] | None:
    """Convert durations to numbers of rows that are `spacing` nanoseconds apart; keep numbers.

    >>> periods_as_rows(["1d", 7], 3600 * 10**9)
    [24, 7]
    """
    if period is None:
        return None
    parts: Sequence[Any] = period if isinstance(period, list | tuple) else [period]
    return [
        _rows_of_period(part, spacing)
        if is_length_of_period(part)
        else whole("period", part, minimum=1)
        for part in parts
    ]


def periods_in_rows(period: Period, ticks: IntArray) -> Period:
    """Convert periods to numbers of rows with these times; numbers of rows need no times."""
    parts: Sequence[Any] = period if isinstance(period, list | tuple) else [period]
    return (
        periods_as_rows(period, spacing_for_periods(ticks))
        if any(map(is_length_of_period, parts))
        else period
    )


def _rows_of_period(part: int | str, spacing: int) -> int:
    from tidegate.record.times.time_ranges_and_tables import (
        length_of_time,  # on demand: it is large
    )

    try:
        length = length_of_time(str(part))
    except QueryError:
        raise SettingError(
            "period", "must be numbers of rows, or lengths of time: 1d, 1w"
        ) from None
    rows, rest = divmod(length, spacing)
    if rest:
        raise SettingError(
            "period",
            f"{said(part)} is not a whole number of rows, which are {spacing / 1e9:g} s apart",
        )
    return rows


def spacing_for_periods(ticks: IntArray) -> int:
    """Nanoseconds from row to row, measured on the first rows' times, which are public."""
    steps = np.diff(ticks[:_ROWS])
    if not steps.size:
        raise SettingError("period", "must be a number of rows: there are too few to tell")
    if steps.min() != steps.max() or steps[0] <= 0:
        raise SettingError(
            "period", "must be a number of rows: the first ones are not evenly spaced in time"
        )
    return int(steps[0])


def refuse_periods_as_lengths(period: Period) -> None:
    """Refuse durations where the distance between rows is unknown."""
    parts: Sequence[Any] = period if isinstance(period, list | tuple) else [period]
    if any(isinstance(part, str) and is_length_of_period(part) for part in parts):
        raise SettingError(
            "period",
            "must be a number of rows, such as 96 for a day of rows every 15 minutes; lengths of "
            "time need the times of rows: tidegate.release(table, time=…, period='1d'), or "
            "--period 1d",
        )
