"""Stopping a run from outside."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any, Protocol


class Closable(Protocol):
    """What comes to its end when it is closed."""

    def close(self) -> None:
        """End."""


class stopping:  # noqa: N801  # reads as a verb in `with`
    """SIGTERM ends a run as tidily as Ctrl-C; a followed source just comes to its end."""

    def __init__(self, followed: Closable | None) -> None:
        self._followed = followed
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._stop)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if self._followed is None:
            signal.default_int_handler(number, frame)
        else:
            self._followed.close()

    def __exit__(self, *reason: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
