"""When rounds open and close: periods of the calendar, and how long late reports count."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from tidegate.clock import SECOND, Clock, clock_zone_of
from tidegate.errors import QueryError, SettingError
from tidegate.record.times.time_ranges_and_tables import length_of_time

_DAY = 86_400
_MINUTE = 60
_SHORTEST = _MINUTE  # seconds of a round
_MOST_GRACE = 31 * _DAY
_LATEST = 1 << 33  # seconds since 1970: the year 2242


@dataclass(frozen=True, kw_only=True)
class RoundCalendar:
    """Rounds without gaps, numbered by the calendar.

    Attributes:
        every: how long a round lasts: days of the zone's calendar ("1d"), or less ("1h").
        zone: whose days.
        grace: how long after its end a round still takes reports of devices that it has asked; "":
            a quarter of its length. Devices are often offline when a round ends.

    >>> days = RoundCalendar(every="1d", zone="Europe/Berlin", grace="6h")
    >>> number = days.number(1_774_744_200)  # the night in which the clocks go forward
    >>> days.closes(number) - days.opens(number)
    82800
    >>> days.accepted_until(number) - days.closes(number)
    21600
    """

    every: str = "1d"
    zone: str = "UTC"
    grace: str = ""

    def __post_init__(self) -> None:
        clock_zone_of(self.zone)
        length = self._seconds("every", self.every)
        if length < _SHORTEST or (length > _DAY and length % _DAY):
            raise SettingError("every", "must be whole days, or from 1min to 1d")
        if self.grace and self._seconds("grace", self.grace) > _MOST_GRACE:
            raise SettingError("grace", "must be at most 31d")

    @staticmethod
    def _seconds(setting: str, length: str) -> int:
        try:
            return length_of_time(length) // SECOND
        except QueryError:
            raise SettingError(setting, "must be a length of time, such as 1d or 15min") from None

    @cached_property
    def length(self) -> int:
        """The length of a round in seconds; of a day without a change of the clocks."""
        return self._seconds("every", self.every)

    @cached_property
    def _late(self) -> int:
        return self._seconds("grace", self.grace) if self.grace else self.length // 4

    @cached_property
    def _clock(self) -> Clock:
        return Clock(self.zone)

    @property
    def _by_day(self) -> bool:
        return self.length % _DAY == 0

    def number(self, now: float) -> int:
        """The round that is open at a time, in seconds since 1970."""
        if not 0 <= now < _LATEST:
            raise SettingError("time", "must lie between 1970 and 2242")
        if not self._by_day:
            return int(now) // self.length
        return _calendar_day_number(self, int(now) // _MINUTE)

    def _looked_up(self, now: int) -> int:
        local = int(self._clock.local(np.array([now * SECOND]))[0])
        return local // SECOND // self.length

    def opens(self, number: int) -> int:
        """The time when a round begins to ask, in seconds since 1970."""
        start = number * self.length
        if not self._by_day:
            return start
        return _calendar_day_opens(self, number)

    def _begins(self, number: int) -> int:
        start = number * self.length
        return int(self._clock.universal(np.array([start * SECOND]))[0]) // SECOND

    def closes(self, number: int) -> int:
        """The time when a round stops asking."""
        return self.opens(number + 1)

    def accepted_until(self, number: int) -> int:
        """The time until which a round takes reports."""
        return self.closes(number) + self._late

    def text(self, second: int) -> str:
        """A time in the zone, as ISO 8601."""
        return self._clock.texts(np.array([second * SECOND]))[0]

    def plain(self) -> dict[str, Any]:
        """The calendar as plain data, for a database."""
        return {"every": self.every, "zone": self.zone, "grace": self.grace}


@lru_cache(maxsize=256)  # asked for every report
def _calendar_day_number(calendar: RoundCalendar, minute: int) -> int:
    """The number of a day; days begin at whole minutes in every zone since 1970."""
    return calendar._looked_up(minute * _MINUTE)


@lru_cache(maxsize=256)
def _calendar_day_opens(calendar: RoundCalendar, number: int) -> int:
    return calendar._begins(number)
