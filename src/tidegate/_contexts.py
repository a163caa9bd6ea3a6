"""What `with` does to things that are open: they are closed, or completed, or given up."""

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
    """Closed when it is left, whatever happened."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what is open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()


class Completed(ABC):
    """Closed, and so completed, when it is left; after an error, given up."""

    @abstractmethod
    def close(self) -> None:
        """Complete it, and let go of it."""

    @abstractmethod
    def abort(self) -> None:
        """Give up."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.close()
        else:
            self.abort()
