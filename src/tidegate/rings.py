"""The last blocks of an endless stream, in ring buffers that grow on demand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.lattice import FloatArray, IntArray

_FIRST_CAPACITY = 1024


class Rings:
    """For every block t that is still known: the running sum before it, and how it was predicted.

    That is the prediction of one of its values, and the running sum of squared residuals before it;
    blocks of one need neither.
    """

    def __init__(self, *, block: int, most: int, first: float) -> None:
        self._block = block
        self._most = most
        self.closed = 0  # blocks completed
        self.oldest = 0  # the first block that is still known
        self._sums: NDArray[np.int64] = np.zeros(min(most, _FIRST_CAPACITY), dtype=np.int64)
        width = 0 if block == 1 else self._sums.size
        self._predictions = np.full(width, first)
        self._squares = np.zeros(width)

    @classmethod
    def stored(cls, *, block: int, columns: Sequence[NDArray[Any]]) -> Rings:
        """All blocks from the first on, in columns that stay where they are: to be asked only."""
        rings = cls(block=block, most=1, first=0.0)
        rings.closed = columns[0].size - 1
        rings._sums = columns[0]
        if block > 1:
            rings._predictions, rings._squares = columns[1:]
        return rings

    def sums(self, blocks: IntArray) -> IntArray:
        """The sum of all blocks before each of these."""
        return self._sums[self._slots(blocks)]

    def predictions(self, blocks: IntArray) -> FloatArray:
        """What a value of each block was predicted to be."""
        return self._predictions[self._slots(blocks)]

    def squares(self, blocks: IntArray) -> FloatArray:
        """The sum of squared residuals of all blocks before each of these."""
        return self._squares[self._slots(blocks)]

    def append(self, sums: IntArray, following: FloatArray) -> None:
        """Completed blocks, and the prediction for the block after each."""
        self._grow(sums.size)
        slots = self._slots(np.arange(self.closed, self.closed + sums.size + 1))
        now, new = slots[:1], slots[1:][-self._most :]  # of a large push only the end is kept
        running = np.cumsum(np.concatenate((self._sums[now], sums)))
        if self._block > 1:
            predictions = np.concatenate((self._predictions[now], following))
            misses = np.square(sums - self._block * predictions[:-1])
            squares = np.cumsum(np.concatenate((self._squares[now], misses)))
            self._squares[new] = squares[1:][-self._most :]
            self._predictions[new] = following[-self._most :]
        self._sums[new] = running[1:][-self._most :]
        self.closed += sums.size
        self.oldest = max(self.oldest, self.closed + 1 - self._sums.size)

    def last(self, count: int) -> list[NDArray[Any]]:
        """The last `count` blocks, oldest first: running sums, predictions, running squares."""
        since = max(self.oldest, self.closed + 1 - count)
        slots = self._slots(np.arange(since, self.closed + 1))
        return [column[slots] for column in self._columns()]

    def restore(self, columns: list[NDArray[Any]]) -> None:
        """Go on from the last blocks before the present one."""
        self.oldest = self.closed + 1 - columns[0].size
        self._grow(0)
        slots = self._slots(np.arange(self.oldest, self.closed + 1))
        for column, values in zip(self._columns(), columns, strict=True):
            column[slots] = values

    def _grow(self, more: int) -> None:
        size = self._sums.size
        needed = min(self.closed + 1 + more, self._most)
        if needed <= size:
            return
        size = min(self._most, max(needed, 2 * size))
        # Not full so far: slots are still in order and stay where they are. In place, since two
        # copies would be the peak of the memory that a release needs.
        for column in self._columns():
            column.resize(size, refcheck=False)

    def _slots(self, blocks: IntArray) -> IntArray:
        return blocks % self._sums.size

    def _columns(self) -> Sequence[NDArray[Any]]:
        if self._block == 1:
            return (self._sums,)
        return (self._sums, self._predictions, self._squares)
