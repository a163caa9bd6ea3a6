"""Read times: ISO 8601, numbers since 1970, and the types of Python, numpy, pandas, polars, Arrow.

| given | read as |
| --- | --- |
| `2024-02-01`, `2024-02-01T12:00`, `2024-02-01 12:00:00.25` | naive, or written in `zone` |
| `…Z`, `…+01:00` | an instant, written in `zone` (default: UTC) |
| 1706745600; from 10¹¹ on ms, from 10¹⁴ µs, from 10¹⁷ ns: the first decides¹ | an instant |
| a `datetime`; a column of numpy, pandas, polars or pyarrow with a type for times | as it says |

A zone that a type names is kept, unless `zone` is given. ¹ Of events, each number by itself.

Times are public by definition: rows can be refused because of their times. No message shows one
all the same, since another column may have been named by mistake; it names the position.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.clock import SECOND, UNITS, Clock, ClockRowsOfKeys, zone_name
from tidegate.errors import InputError
from tidegate.lattice import IntArray
from tidegate.tables.columns_to_numpy import column_in_arrow
from tidegate.timestamps_in_bulk import (
    EACH,
    FIRST_YEAR,
    ISO,
    LAST_YEAR,
    LIKE_A_DATE,
    beyond_timestamps,
    looks_like_a_date,
    offset_of_timestamp,
    timestamps_alike,
    timestamps_from_numbers,
    unit_of_timestamp,
)

_NUMBER = re.compile(r"[+-]?\d{1,19}(?:\.\d{1,9})?")
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # naive times are counted from it

_NO_SUCH_TIME = "is not a time: there is no such day, or hour, minute or second"


class Times(NamedTuple):
    """Times in nanoseconds since 1970, and the clock that showed them."""

    ticks: IntArray
    clock: Clock


class _UnreadableError(ValueError):
    """The reason why one time cannot be read."""


def read_times(
    values: Any,
    *,
    position: int = 0,
    zone: str | None = None,
    clock: Clock | None = None,
    before: Sequence[int] = (),
    by_order: bool = True,
    keys: ClockRowsOfKeys | None = None,
    counted: NDArray[np.bool_] | None = None,
) -> Times:
    """Read times: ISO 8601, numbers since 1970, types of Python, numpy, pandas, polars, Arrow.

    Args:
        values: a list or a column of times.
        position: of the first, for messages.
        zone: where naive times were written, and in which zone all are written out.
        clock: that of the times before; the rest of a stream must have the same.
        before: the times of the rows before, for an hour that comes twice (`Clock.universal`).
        by_order: False for events: each time is read by itself, numbers by their own size. That an
            event happened is protected: it must not decide when others did.
        keys: whose rows these are, if rows of several keys are mixed.
        counted: which rows will be taken; None: all. Each of the others is read by itself: their
            keys are not declared, and how the first is written must not decide about any other row.

    Raises:
        InputError: a time is missing, or is none; or naive times and instants are mixed.

    >>> read_times(["2024-02-01T00:00:00Z"])
    Times(ticks=array([1706745600000000000]), clock=Clock(zone='UTC', unit=None))
    """
    if isinstance(values, Times):
        found = values
        if clock is not None and found.clock != clock:
            raise InputError(f"times at position {position}: they are of another clock than before")
        return found
    values = column_in_arrow(values)
    if counted is not None and not counted.all():
        alone: dict[str, Any] = {"position": position, "zone": zone or (clock and clock.zone)}
        others = read_times(_times_where(values, ~counted), **alone, by_order=False)
        if not counted.any():
            return Times(others.ticks, clock or others.clock)
        alone = {"position": position, "zone": zone, "clock": clock, "before": before, "keys": keys}
        mine = read_times(_times_where(values, counted), **alone, by_order=by_order)
        if not mine.ticks.size == others.ticks.size == counted.size:  # the caller says so
            return mine
        return Times(np.where(counted, mine.ticks, others.ticks), mine.clock)
    wanted = zone if clock is None or clock.zone is None else clock.zone
    given = None if clock is None else clock.unit
    local, instant, unit = _timestamps_of_column(values, position, given if by_order else EACH)
    unit = "s" if unit == EACH else unit
    if instant and wanted is None:
        wanted = _zone_of_timestamps(values) or "UTC"
    known = clock or Clock(wanted, unit)
    unlike = known.unit != unit or (not zone and instant != (known.zone is not None))
    if local.size and (unlike or (zone and known.zone is None)):
        raise InputError(_mixed_timestamps(position))
    place = None if instant else known.skipped(local)
    if place is not None:
        raise InputError(
            f"time at position {position + place} does not exist in {known.zone}: clocks were set "
            "forward. If yours stays on winter time, name that zone: Etc/GMT-1 is UTC+1"
        )
    ticks = local if instant else known.universal(local, before, by_order=by_order, keys=keys)
    return Times(ticks, known)


def _times_where(values: Any, counted: NDArray[np.bool_]) -> Any:
    """A column with the first time that counts in place of those that do not; positions stay."""
    places = np.where(counted, np.arange(counted.size), np.argmax(counted))
    listed = values if hasattr(values, "__len__") else list(values)
    if len(listed) != counted.size:
        return listed
    if hasattr(listed, "take"):  # of numpy, pandas and pyarrow
        return listed.take(places)
    return [listed[place] for place in places.tolist()]


def _mixed_timestamps(position: int) -> str:
    return (
        f"time at position {position} is of another kind than the first: naive times, times with a "
        "zone and numbers cannot be mixed (zone=…, or --zone, says where naive ones were written)"
    )


def _timestamps_of_column(
    values: Any, position: int, unit: str | None
) -> tuple[IntArray, bool, str | None]:
    """Nanoseconds, whether they are instants, and the unit of plain numbers."""
    typed = _typed_timestamps(values)
    if typed is not None and typed[0].ndim == 1:
        array, instant = typed
        dated = array.dtype.kind == "M"
        missing = getattr(array, "mask", False)  # of a masked array: there is a value behind it
        wrong = np.flatnonzero(missing | np.isnat(np.asarray(array)) if dated else missing)
        if wrong.size:
            raise InputError(f"time at position {position + int(wrong[0])} is missing")
        if dated:
            _check_years_of_timestamps(array, position)
            return array.astype("datetime64[ns]").astype(np.int64), instant, None
        return timestamps_from_numbers(array, position, unit)
    if typed is not None or isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise InputError("times must be a list or a column of times, one for each value")
    listed = values.to_pylist() if hasattr(values, "to_pylist") else list(values)  # of pyarrow
    return _timestamps_from_objects(listed, position, unit)


def _typed_timestamps(values: Any) -> tuple[np.ndarray[Any, Any], bool] | None:
    """A column that has a type for times or numbers, as an array; and whether it has a zone."""
    home = type(values).__module__.partition(".")[0]
    if home == "pyarrow" and hasattr(values, "type"):
        zone = getattr(values.type, "tz", None)
        values = np.asarray(values.to_numpy(zero_copy_only=False) if _one(values) else values)
        instant = zone is not None
    elif home == "pandas":
        zone = getattr(getattr(values, "dtype", None), "tz", None)
        if zone is not None:
            values = getattr(values, "dt", values).tz_convert("UTC")
            values = getattr(values, "dt", values).tz_localize(None)
        values, instant = np.asarray(values), zone is not None
    else:
        instant = False
    kind = values.dtype.kind if isinstance(values, np.ndarray) else "O"
    if kind in "mb":
        raise InputError("times must be dates and times: the column has durations, or yes and no")
    return (values, instant) if kind in "Miuf" else None


def _zone_of_timestamps(values: Any) -> str | None:
    """The zone that a column of instants is written in: its type has it, or its first time."""
    kind = getattr(values, "dtype", getattr(values, "type", None))
    zone = getattr(kind, "time_zone", getattr(kind, "tz", None))
    if zone is None and isinstance(values, list | tuple) and values:
        zone = getattr(values[0], "tzinfo", None)
    return None if zone is None else zone_name(zone)


def _one(values: Any) -> bool:
    return not hasattr(values, "chunks")


def _check_years_of_timestamps(array: np.ndarray[Any, Any], position: int) -> None:
    years = array.astype("datetime64[Y]").astype(np.int64) + 1970
    wrong = np.flatnonzero((years < FIRST_YEAR) | (years > LAST_YEAR))
    if wrong.size:
        raise InputError(beyond_timestamps(position + int(wrong[0])))


def _timestamps_from_objects(
    values: list[Any], position: int, unit: str | None
) -> tuple[IntArray, bool, str | None]:
    fast = timestamps_alike(values, unit)
    if fast is not None:
        return fast
    kinds = set(map(type, values))
    if kinds in ({int}, {float}):  # as a column that has a type
        with suppress(OverflowError):  # `_one_timestamp` names it
            whole = np.int64 if kinds == {int} else np.float64
            return timestamps_from_numbers(np.array(values, dtype=whole), position, unit)
    ticks: IntArray = np.zeros(len(values), dtype=np.int64)
    kind: tuple[bool, str | None] | None = None
    for at, value in enumerate(values):
        try:
            tick, instant, known = _one_timestamp(value, unit)
        except (_UnreadableError, ValueError, ArithmeticError, TypeError) as error:
            problem = str(error) if isinstance(error, _UnreadableError) else _NO_SUCH_TIME
            raise InputError(f"time at position {position + at} {problem}") from None
        if kind is not None and kind != (instant, known):
            raise InputError(_mixed_timestamps(position + at))
        kind, unit = (instant, known), known
        if not -(2**63) <= tick < 2**63:
            raise InputError(beyond_timestamps(position + at))
        ticks[at] = tick
    instant, known = kind or (unit not in (None, EACH), unit)
    return ticks, instant, known


def _one_timestamp(value: Any, unit: str | None) -> tuple[int, bool, str | None]:
    if isinstance(value, bytes):
        value = value.decode("utf-8")
    if isinstance(value, str):
        return _timestamp_from_text(value.strip(), unit)
    if isinstance(value, np.datetime64):
        if np.isnat(value):
            raise _UnreadableError("is missing")
        _check_years_of_timestamps(np.array([value]), 0)
        return int(value.astype("datetime64[ns]").astype(np.int64)), False, None
    if value is None or value != value:
        raise _UnreadableError("is missing")
    if isinstance(value, datetime):
        instant = value.utcoffset() is not None
        offset = value.utcoffset() or timedelta()
        local = value.replace(tzinfo=None) - offset
        since = local - _EPOCH
        tick = (since.days * 86_400 + since.seconds) * SECOND + since.microseconds * 1000
        return tick + int(getattr(value, "nanosecond", 0)), instant, None
    if isinstance(value, date):
        return (value.toordinal() - _EPOCH.toordinal()) * 86_400 * SECOND, False, None
    if isinstance(value, bool):
        raise _UnreadableError("is not a time")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise _UnreadableError(f"is not in the years {FIRST_YEAR} to {LAST_YEAR}")
    if isinstance(value, int | float | np.integer | np.floating):
        ticks, _, known = timestamps_from_numbers(np.array([value]), 0, unit)
        return int(ticks[0]), True, known
    raise _UnreadableError("is not a time: give datetimes, numbers since 1970 or ISO 8601")


def _timestamp_from_text(text: str, unit: str | None) -> tuple[int, bool, str | None]:
    if not text or text.lower() in ("nan", "null", "nat", "none"):
        raise _UnreadableError("is missing")
    if _NUMBER.fullmatch(text):
        whole, _, decimals = text.partition(".")
        known = unit_of_timestamp(float(text)) if unit in (None, EACH) else str(unit)
        if unit in (None, EACH) and looks_like_a_date(float(text)):
            raise _UnreadableError(LIKE_A_DATE)
        size = UNITS[known]
        rest = int((decimals + "0" * 9)[:9]) * size // SECOND
        tick = int(whole) * size + (-rest if text[0] == "-" else rest)
        return tick, True, unit or known
    found = ISO.fullmatch(text)
    if found is None:
        raise _UnreadableError("is neither ISO 8601 nor a number since 1970")
    year, month, day, hour, minute, second, decimals, zone = found.groups("")
    if not FIRST_YEAR <= int(year) <= LAST_YEAR:
        raise _UnreadableError(f"is not in the years {FIRST_YEAR} to {LAST_YEAR}")
    clock = int(hour or 0), int(minute or 0), int(second or 0)
    part = int((decimals + "0" * 9)[:9])
    midnight = clock == (24, 0, 0) and not part  # 24:00 is the end of the day
    hours = (0, 0, 0) if midnight else clock
    since = datetime(int(year), int(month), int(day), *hours) - _EPOCH  # noqa: DTZ001  # see below
    tick = ((since.days + midnight) * 86_400 + since.seconds) * SECOND + part
    return tick - offset_of_timestamp(zone), bool(zone), None
