"""What runs share whose blocks have one layout each: nothing is chosen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from tidegate.randomness import Keystream
from tidegate.stages import Layout


class _Stage(Protocol):
    def lengths(self, chunk: int) -> tuple[int, ...]: ...

    def layouts(self, length: int, threshold: int, ceiling: int) -> tuple[Layout, ...]: ...


class OneLayoutRun(ABC):
    """The part of a `PerturberRun` that offers the one layout of each block."""

    def __init__(self, stage: _Stage, threshold: int, ceiling: int, keystream: Keystream) -> None:
        self._threshold = threshold
        self._keystream = keystream
        self._lengths = stage.lengths(0)
        self._options = {
            length: stage.layouts(length, threshold, ceiling) for length in {*self._lengths}
        }

    @property
    @abstractmethod
    def number(self) -> int:
        """Blocks completed in this horizon."""

    @property
    def options(self) -> tuple[Layout, ...]:
        """The one layout of the present block."""
        return self._options[self._lengths[self.number]]

    def begin(self, choice: int) -> None:
        """Refuse any choice but that layout."""
        if choice != 0:
            raise AssertionError("there is one layout only")
