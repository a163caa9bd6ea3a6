"""Leaves whose spans the method decides: ring buffers with their ends, marks and levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.lattice import FloatArray, IntArray
from tidegate.record.ring_buffer import RingBuffer
from tidegate.stages import Spans


class SpanBuffer(RingBuffer):
    """As `RingBuffer`, and of every leaf: where it begins, the mark of the one before, its level.

    Nothing is forgotten but by `forget`, block by block; a leaf ends where its block ends.
    """

    def __init__(self, origin: int) -> None:
        super().__init__(block=1, most=None)
        size = self._sums.size
        self._predictions = np.zeros(size)
        self._edges: NDArray[np.int64] = np.zeros(size, dtype=np.int64)
        self._marks: NDArray[np.int64] = np.zeros(size, dtype=np.int64)
        self._edges[0] = origin

    def predict(self, prediction: float) -> None:
        """What a value of the open leaf is predicted to be."""
        self._part()
        self._predictions[self.closed % self._sums.size] = prediction

    def extend(
        self, sums: IntArray, following: FloatArray, widths: IntArray, marks: IntArray
    ) -> None:
        """Completed leaves: their sums, the level after each, their widths and marks."""
        since = self._edges[self.closed % self._sums.size]
        first = self.closed + 1
        self.append(sums, following)
        slots = self._slots(np.arange(first, self.closed + 1))
        self._predictions[slots] = following
        self._edges[slots] = since + np.cumsum(widths)
        self._marks[slots] = marks

    def leaf_at(self, position: int) -> int:
        """The number of the leaf that begins at a position."""
        if position == self._edges[self.closed % self._sums.size]:  # a block that begins just now
            return self.closed
        edges = self._edges[self._slots(np.arange(self.oldest, self.closed + 1))]
        return self.oldest + int(np.searchsorted(edges, position))

    def spans(self) -> Spans:
        """The leaves that are kept."""
        sums, levels, edges, marks = self.columns()
        return Spans(edges, np.diff(sums), marks[1:], levels)

    def _stored(self) -> Sequence[NDArray[Any]]:
        return (self._sums, self._predictions, self._edges, self._marks)

    def _set(self, columns: Sequence[NDArray[Any]]) -> None:
        self._sums, self._predictions, self._edges, self._marks = columns
