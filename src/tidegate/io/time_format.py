"""Read times in a format that the user gives, such as 31.12.2024 23:59."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from tidegate.errors import InputError, SettingError

_SAMPLE = datetime(2024, 12, 31, tzinfo=UTC)


class TimeFormat:
    """Reads times by a pattern of `datetime.strptime`.

    >>> TimeFormat("%d.%m.%Y %H:%M").iso(["31.12.2024 23:59"], 0)
    ['2024-12-31T23:59:00']
    """

    def __init__(self, pattern: str) -> None:
        try:
            found = datetime.strptime(_SAMPLE.strftime(pattern), pattern)  # noqa: DTZ007  # %z may be in it
        except (ValueError, re.error):
            found = None
        if found is None or found.date() != _SAMPLE.date():
            raise SettingError(
                "time-format",
                "must be a pattern of strptime with day, month and year, such as '%d.%m.%Y %H:%M' "
                "or '%m/%d/%Y %I:%M %p'",
            )
        self._pattern = pattern

    def iso(self, column: Iterable[Any], position: int) -> list[str]:
        """The same times in ISO 8601. `position` is that of the first, for messages."""
        found = []
        for at, value in enumerate(column, start=position):
            text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
            if text is None or text == "":
                raise InputError(f"time at position {at} is missing")
            if not isinstance(text, str):
                raise InputError(f"time at position {at} is not text: leave --time-format out")
            try:
                moment = datetime.strptime(text.strip(), self._pattern)  # noqa: DTZ007  # as above
            except ValueError:
                raise InputError(f"time at position {at} does not match --time-format") from None
            found.append(moment.isoformat())
        return found
