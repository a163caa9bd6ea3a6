"""Context managers for open files and states: closed, completed or aborted on exit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Protocol, Self


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
    """Closed on exit, whatever happened."""

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
        """Complete and close it."""

    @abstractmethod
    def abort(self) -> None:
        """Close it without completing it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.close()
        else:
            self.abort()
