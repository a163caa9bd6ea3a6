"""`Clock`: time zone and text form of a stream's times; offsets of zones. Times are public.

A time is kept as whole nanoseconds since 1970: of universal time if the clock has a zone, of the
wall clock if it is naive. A naive time stays naive: nothing is guessed about where it was written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tidegate.errors import SettingError
from tidegate.lattice import IntArray

SECOND = 10**9
UNITS = {"s": SECOND, "ms": 10**6, "us": 10**3, "ns": 1}
_LOOK_BACK = 3  # rows, for an hour that comes twice
_BUCKET = 3600 * SECOND  # offsets are looked up once for each hour that occurs
_DIGITS = {"s": SECOND, "ms": 10**6, "us": 10**3}  # written without zeros at the end, by threes


@dataclass(frozen=True)
class Clock:
    """The zone of times, and their text form.

    Attributes:
        zone: `UTC`, a name such as `Europe/Berlin`, or an offset such as `+02:00`: times are
            instants. None: the time of a wall clock somewhere.
        unit: `s`, `ms`, `us` or `ns`: times are written as numbers since 1970. None: ISO 8601.

    >>> Clock("Europe/Berlin").texts(np.array([1_704_067_200 * SECOND]))
    ['2024-01-01T01:00:00+01:00']
    """

    zone: str | None = None
    unit: str | None = None

    def __post_init__(self) -> None:
        if self.unit not in (None, *UNITS):
            raise SettingError("time unit", "must be s, ms, us or ns")
        if self.zone is not None:
            clock_zone_of(self.zone)

    def plain(self) -> dict[str, Any]:
        """The clock as plain data, for metadata."""
        return {"zone": self.zone, "unit": self.unit}

    @classmethod
    def from_plain(cls, facts: Mapping[str, Any]) -> Clock:
        """The clock from what `plain` returned."""
        return cls(facts["zone"], facts["unit"])

    def texts(self, ticks: IntArray) -> list[str]:
        """Times as text; the text of a time does not depend on the other times."""
        if self.unit is not None:
            return [_clock_number(tick, UNITS[self.unit]) for tick in ticks.tolist()]
        if self.zone in (None, "UTC"):
            return _clock_iso(ticks, ["" if self.zone is None else "Z"] * ticks.size)
        offsets = offsets_of(self.zone or "", ticks)
        signs = {offset: _clock_sign(offset) for offset in np.unique(offsets).tolist()}
        return _clock_iso(ticks + offsets, [signs[offset] for offset in offsets.tolist()])

    def local(self, ticks: IntArray) -> IntArray:
        """The wall-clock times of these instants, as if they were universal times."""
        return ticks if self.zone is None else ticks + offsets_of(self.zone, ticks)

    def skipped(self, local: IntArray) -> int | None:
        """The first of these times that no wall clock showed, as clocks moved on. None: none."""
        if self.zone is None:
            return None
        early, late = (offsets_of(self.zone, local, local=True, fold=fold) for fold in (0, 1))
        found = np.flatnonzero(late > early)
        return int(found[0]) if found.size else None

    def universal(
        self,
        local: IntArray,
        before: Sequence[int] = (),
        *,
        by_order: bool = True,
        keys: ClockRowsOfKeys | None = None,
    ) -> IntArray:
        """The instants at which the wall clock showed these times.

        Where clocks are turned back an hour comes twice. The order of rows tells which is meant:
        the second, if the first would be before the row before it; or if a row repeats a time that
        the two rows before it came to in steps of that hour or longer (hourly readings). Otherwise
        the first is meant.

        Args:
            local: what the clock showed, row by row.
            before: the times, found so far, of the rows before; the last three are looked at.
            by_order: False for events, which are protected: no event may decide when another one
                happened. The first hour is meant then, always.
            keys: whose rows these are, if rows of several keys are mixed: only those of the same
                key tell anything, so each key has rows before of its own.
        """
        if self.zone is None:
            return local
        first, second = (
            local - offsets_of(self.zone, local, local=True, fold=fold) for fold in (0, 1)
        )
        if not by_order:
            return first
        if not (second > first).any():
            return first
        if keys is None:
            return _clock_time_by_order(first, second, before)
        found = first.copy()
        for code in np.unique(keys.codes[second > first]).tolist():
            mine = np.flatnonzero(keys.codes == code)
            found[mine] = _clock_time_by_order(first[mine], second[mine], keys.before.get(code, ()))
        return found


class ClockRowsOfKeys(NamedTuple):
    """The key of each row, as a number; and the times of each key's last rows before them."""

    codes: IntArray
    before: Mapping[int, Sequence[int]]


def _clock_time_by_order(first: IntArray, second: IntArray, before: Sequence[int]) -> IntArray:
    """Resolve times that the wall clock showed twice by the order of rows."""
    rows = np.concatenate((np.array(before[-_LOOK_BACK:], dtype=np.int64), first))
    skipped = rows.size - first.size
    for at in np.flatnonzero(second > first).tolist():
        here = at + skipped
        known = rows[max(0, here - _LOOK_BACK) : here].tolist()
        if _is_second_clock_time(known, int(first[at]), int(second[at])):
            rows[here] = second[at]
    return rows[skipped:]


def _is_second_clock_time(before: list[int], first: int, second: int) -> bool:
    """Whether the second of two possible times is meant, judged by these rows."""
    if before and first < before[-1] <= second:
        return True
    steps = [later - earlier for earlier, later in pairwise(before)]
    regular = len(before) == _LOOK_BACK and min(steps) >= second - first
    return regular and first == before[-1]


def clock_zone_of(name: str) -> tzinfo:
    """The time zone with a name or an offset.

    Raises:
        SettingError: there is none.
    """
    try:
        return _clock_zone(name)
    except (ValueError, OSError, KeyError, TypeError):
        raise SettingError(
            "zone", "must be a zone such as Europe/Berlin or UTC, or an offset such as +02:00"
        ) from None


def zone_name(zone: object) -> str | None:
    """The name of a zone as other libraries write it. None: `Clock` does not know one.

    >>> from zoneinfo import ZoneInfo
    >>> zone_name(ZoneInfo("Europe/Berlin")), zone_name(timezone(timedelta(hours=2)))
    ('Europe/Berlin', '+02:00')
    """
    name = str(zone).removeprefix("UTC") or "UTC"  # an offset of Python prints as UTC+02:00
    try:
        clock_zone_of(name)
    except SettingError:
        return None
    return name


# Names that mean another zone on another machine.
_OF_THIS_MACHINE = ("localtime", "posixrules")


@lru_cache(maxsize=64)
def _clock_zone(name: str) -> tzinfo:
    if name in ("UTC", "Z"):
        return UTC
    if name[:1] in "+-":
        hours, minutes = name[1:3], name[3:].removeprefix(":") or "0"
        offset = timedelta(hours=int(hours), minutes=int(minutes))
        return timezone(-offset if name[0] == "-" else offset)
    if name in _OF_THIS_MACHINE:
        raise ValueError(name)
    from zoneinfo import ZoneInfo  # on demand: importing it is slow

    return ZoneInfo(name)


def offsets_of(zone: str, ticks: IntArray, *, local: bool = False, fold: int = 0) -> IntArray:
    """The offset from universal time, in nanoseconds, at each of these universal or local times."""
    buckets, places = np.unique(ticks // _BUCKET, return_inverse=True)
    known = [
        (_clock_offset(zone, hour, local, fold), _clock_offset(zone, hour + 1, local, fold))
        for hour in buckets.tolist()
    ]
    found: IntArray = np.array([start for start, _ in known], dtype=np.int64)[places]
    changing = np.array([start != end for start, end in known], dtype=bool)
    # Where the offset changes within an hour, each second is looked up.
    for at in np.flatnonzero(changing[places]).tolist() if changing.any() else ():
        found[at] = _looked_up_clock_offset(zone, int(ticks[at]) // SECOND, local, fold)
    return found


@lru_cache(maxsize=1 << 16)
def _clock_offset(zone: str, hour: int, local: bool, fold: int) -> int:
    return _looked_up_clock_offset(zone, hour * 3600, local, fold)


def _looked_up_clock_offset(zone: str, second: int, local: bool, fold: int) -> int:
    place = _clock_zone(zone)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
    moment = moment.replace(tzinfo=place, fold=fold) if local else moment.astimezone(place)
    offset = moment.utcoffset() or timedelta()
    return round(offset.total_seconds()) * SECOND


def _clock_iso(local: IntArray, ends: list[str]) -> list[str]:
    texts = np.empty(local.size, dtype=object)
    left = np.ones(local.size, dtype=bool)
    for unit, size in _DIGITS.items():
        here = left & (local % size == 0)
        if here.any():
            texts[here] = np.datetime_as_string(
                (local[here] // size).astype(f"datetime64[{unit}]")
            ).tolist()
            left &= ~here
    if left.any():
        texts[left] = np.datetime_as_string(local[left].astype("datetime64[ns]")).tolist()
    return [text + end for text, end in zip(texts.tolist(), ends, strict=True)]


def _clock_number(tick: int, size: int) -> str:
    whole, rest = divmod(abs(tick), size)
    sign = "-" if tick < 0 else ""
    if not rest:
        return f"{sign}{whole}"
    digits = len(str(size)) - 1
    return f"{sign}{whole}.{rest:0{digits}d}".rstrip("0")


def _clock_sign(offset: int) -> str:
    minutes = abs(offset) // (60 * SECOND)
    return f"{'-' if offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
