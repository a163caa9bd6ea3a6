"""Periods of a cycle, as numbers of rows or as lengths of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidegate.errors import QueryError, SettingError
from tidegate.exact_numbers import said, whole
from tidegate.record.time_ranges import length_of

Period = int | str | Sequence[int | str] | None


def is_length(part: int | str) -> bool:
    """Whether this is a length of time such as `1d`, and not a number of rows."""
    return isinstance(part, str) and not part.strip().isdecimal()


def in_rows(period: Period, spacing: int) -> list[int] | None:
    """Lengths of time in rows that are `spacing` nanoseconds apart; numbers of rows as they are.

    >>> in_rows(["1d", 7], 3600 * 10**9)
    [24, 7]
    """
    if period is None:
        return None
    parts: Sequence[Any] = period if isinstance(period, list | tuple) else [period]
    return [
        _rows(part, spacing) if is_length(part) else whole("period", part, minimum=1)
        for part in parts
    ]


def _rows(part: int | str, spacing: int) -> int:
    try:
        length = length_of(str(part))
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
