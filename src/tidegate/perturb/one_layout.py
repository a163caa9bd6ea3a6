"""The base of perturbers with one layout per block: start, state, options."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol, TypeVar

from tidegate.randomness import Keystream
from tidegate.stages import Layout
from tidegate.state_as_bytes import State, restore, state_of


class OneLayoutBlocks(Protocol):
    """A perturber, as its run sees it."""

    def lengths(self, chunk: int) -> tuple[int, ...]:
        """Lengths of the blocks of a horizon."""
        ...

    def layouts(self, length: int, threshold: int, ceiling: int) -> tuple[Layout, ...]:
        """The one layout of a block."""
        ...


class OneLayoutRun(ABC):
    """The part of a `PerturberRun` that offers the one layout of each block.

    STATE names the attributes that change: all that a snapshot needs.
    """

    STATE: ClassVar[tuple[str, ...]]

    def __init__(
        self, stage: OneLayoutBlocks, threshold: int, ceiling: int, keystream: Keystream
    ) -> None:
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

    def state(self) -> dict[str, Any]:
        """The state: what is needed to continue."""
        return state_of(self)

    def restore(self, state: State) -> None:
        """Continue from there."""
        restore(self, state)


_Run = TypeVar("_Run", bound=OneLayoutRun, covariant=True)


class _StartingLayout(Protocol[_Run]):
    def run(self, threshold: int, ceiling: int, keystream: Keystream) -> _Run: ...


class OneLayoutStage:
    """A perturber whose `run` begins to release."""

    def start(
        self: _StartingLayout[_Run],
        threshold: int,
        ceiling: int,
        keystream: Keystream,
        state: State | None = None,
    ) -> _Run:
        """Begin to release, or continue from `state`."""
        run = self.run(threshold, ceiling, keystream)
        if state is not None:
            run.restore(state)
        return run
