"""Context managers for open files and states: closed, completed or aborted on exit.

`uninterrupted` delays signals.
"""

from __future__ import annotations

import signal
import threading
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from types import FrameType, TracebackType
from typing import Any, Protocol, Self


class Context(Protocol):
    """Can be used with `with`."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Closed(ABC):
    """Closed on exit, also after an error."""

    @abstractmethod
    def close(self) -> None:
        """Release what is open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()


class Completed(ABC):
    """Closed, and so completed, on exit; aborted after an error."""

    @abstractmethod
    def close(self) -> None:
        """Complete and release."""

    @abstractmethod
    def abort(self) -> None:
        """Discard what is not complete."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.close()
        else:
            self.abort()


class uninterrupted(AbstractContextManager[None]):  # noqa: N801  # reads as an adverb
    """Delay SIGTERM and Ctrl-C until the block is done: for short work that must not be cut off."""

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._waiting: list[int] = []

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # signals come to the main thread only
        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                if (before := signal.getsignal(number)) is None:
                    continue  # of a program that embeds Python: it could not be put back
                self._before[number] = before
                signal.signal(number, self._wait)
        except BaseException:  # a signal between the two
            self.__exit__()
            raise

    def _wait(self, number: int, frame: FrameType | None) -> None:
        self._waiting.append(number)

    def __exit__(self, *reason: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._waiting:
            signal.raise_signal(self._waiting[0])
