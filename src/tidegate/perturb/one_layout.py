"""The base of perturbers with one layout per block: start, state, options."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol, TypeVar

from tidegate.randomness import Keystream
from tidegate.stages import Layout
from tidegate.state_as_bytes import State, restore, state_of


class OneLayoutBlocks(Protocol):
    """The part of a perturber that its run uses."""

    def lengths(self, chunk: int) -> tuple[int, ...]:
        """The lengths of the blocks of a horizon."""
        ...

    def layouts(self, length: int, threshold: int, ceiling: int) -> tuple[Layout, ...]:
        """The one layout of a block."""
        ...


class OneLayoutRun(ABC):
    """The part of a `PerturberRun` that offers one layout for each block.

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
        """The number of blocks completed in this horizon."""

    @property
    def options(self) -> tuple[Layout, ...]:
        """The one layout of the present block."""
        return self._options[self._lengths[self.number]]

    def begin(self, choice: int) -> None:
        """Accept that layout; refuse any other choice."""
        if choice != 0:
            raise AssertionError("there is one layout only")

    def state(self) -> dict[str, Any]:
        """The state to resume from."""
        return state_of(self)

    def restore(self, state: State) -> None:
        """Restore a saved state."""
        restore(self, state)


_Run = TypeVar("_Run", bound=OneLayoutRun, covariant=True)


class _StartingLayout(Protocol[_Run]):
    def run(self, threshold: int, ceiling: int, keystream: Keystream) -> _Run: ...


class OneLayoutStage:
    """A perturber that makes its run in `run`."""

    def start(
        self: _StartingLayout[_Run],
        threshold: int,
        ceiling: int,
        keystream: Keystream,
        state: State | None = None,
    ) -> _Run:
        """A new run, or one resumed from `state`."""
        run = self.run(threshold, ceiling, keystream)
        if state is not None:
            run.restore(state)
        return run
