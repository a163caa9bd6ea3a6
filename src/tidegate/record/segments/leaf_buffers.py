"""The last leaves of an endless stream, in ring buffers that grow on demand.

Where the method decides the spans of leaves, they keep ends, marks and levels, too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tidegate.lattice import FloatArray, IntArray, divmod_by_number
from tidegate.stages import Spans

_FIRST_CAPACITY = 64  # of every phase of every key
# Sums below are far from what 64 bits cannot hold, noise included; where running sums wrap round.
_FITS, _WRAP = float(1 << 61), float(1 << 64)


def _check_whole_leaves(*columns: NDArray[Any]) -> None:
    """Refuse numbers that a conversion to integers would change: 2.5, NaN."""
    if any(column.dtype.kind not in "iu" for column in columns):
        raise ValueError("sums, edges and marks of a record are whole numbers")


class LeafBuffer:
    """For each leaf t that is still known: the running sum before it, the prediction of one of its
    values, and the running sum of squared residuals before it (leaves of one value need only sums).

    Attributes:
        closed: leaves completed.
        oldest: the first leaf that is still known.
        pending: leaves that wait for `taken_in`: a list is quicker for one at a time.
    """

    def __init__(self, *, block: int, most: int | None) -> None:
        self._block = block
        self._most = most  # entries; None: only `forget` drops any
        self.closed = 0
        self.oldest = 0
        size = _FIRST_CAPACITY if most is None else min(most, _FIRST_CAPACITY)
        self._sums: NDArray[np.int64] = np.zeros(size, dtype=np.int64)
        width = 0 if block == 1 else self._sums.size
        self._predictions = np.zeros(width)
        self._squares = np.zeros(width)
        # The oldest leaf that a view still reads in these arrays; None: there is no view.
        self._viewed: int | None = None
        self.pending: list[tuple[int, float]] = []
        self._since = 0  # leaves that were completed before these

    @classmethod
    def stored(cls, *, block: int, columns: Sequence[NDArray[Any]]) -> LeafBuffer:
        """All leaves from the first on, as read-only views of the stored columns."""
        buffer = cls(block=block, most=1)
        buffer.closed = columns[0].size - 1
        buffer._sums = columns[0]
        if block > 1:
            buffer._predictions, buffer._squares = columns[1:]
        return buffer

    def view(self) -> Self:
        """A view as of now for another thread: it shares the arrays, which are copied on change.

        Adding leaves does not change what a view shows: it writes behind the view's leaves. If the
        ring comes round to them, or needs larger arrays, this buffer continues in a copy.
        """
        found = copy(self)
        found.pending = []  # more will wait here, and not there
        self._viewed = self.oldest if self._viewed is None else min(self._viewed, self.oldest)
        return found

    def _part(self) -> None:
        """Copy the arrays, so that views keep theirs."""
        if self._viewed is not None:
            self._viewed = None
            self._set([column.copy() for column in self._stored()])

    def sums(self, leaves: IntArray) -> IntArray:
        """The sum of all leaves before each of these indices."""
        return self._sums[self._slots(leaves)]

    def between(self, first: IntArray, last: IntArray, most: float = _FITS) -> FloatArray:
        """The sums of leaves [first, last), in units; a leaf has `most`, as a rule.

        Running sums wrap round. Where 64 bits do not hold a difference, floats say how often.
        """
        found: FloatArray = (self.sums(last) - self.sums(first)).astype(np.float64)
        if (last - first).max(initial=0) * most < _FITS:
            return found
        each = np.diff(self.sums(np.arange(self.oldest, self.closed + 1)))
        running = np.concatenate(([0.0], np.cumsum(each, dtype=np.float64)))
        about = running[last - self.oldest] - running[first - self.oldest]
        found += np.rint((about - found) / _WRAP) * _WRAP
        return found

    def predictions(self, leaves: IntArray) -> FloatArray:
        """The predicted value in each leaf."""
        return self._predictions[self._slots(leaves)]

    def squares(self, leaves: IntArray) -> FloatArray:
        """The sum of squared residuals of all leaves before each of these indices."""
        return self._squares[self._slots(leaves)]

    def spans(self) -> Spans:
        """None: the layout determines the spans of these leaves."""
        raise AssertionError("the layout says it")

    def predict(self, prediction: float) -> None:
        """Set the predicted value in the open leaf."""
        self._part()
        if self._block > 1:
            self._predictions[self.closed % self._sums.size] = prediction

    def append(self, sums: IntArray, following: FloatArray) -> None:
        """Add completed leaves, and the prediction for the leaf after each."""
        _check_whole_leaves(sums)
        self._grow(sums.size)
        size = self._sums.size
        if self._viewed is not None and self.closed + sums.size >= self._viewed + size:
            self._part()
        now: slice | IntArray
        new: slice | IntArray
        at = self.closed % size
        if at + sums.size < size:
            now, new = slice(at, at + 1), slice(at + 1, at + 1 + sums.size)
        else:  # it begins anew; of a large push only the end is kept
            slots = self._slots(np.arange(self.closed, self.closed + sums.size + 1))
            now, new = slots[:1], slots[1:][-size:]
        running = np.cumsum(np.concatenate((self._sums[now], sums)))
        if self._block > 1:
            predictions = np.concatenate((self._predictions[now], following))
            misses = np.square(sums - self._block * predictions[:-1])
            squares = np.cumsum(np.concatenate((self._squares[now], misses)))
            self._squares[new] = squares[1:][-size:]
            self._predictions[new] = following[-size:]
        self._sums[new] = running[1:][-size:]
        self.closed += sums.size
        self.oldest = max(self.oldest, self.closed + 1 - size)

    def append_later(self, total: int, following: float) -> None:
        """Add one leaf, like `append`, to a list that is merged on demand."""
        if not self.pending:
            self._since = self.closed
        self.pending.append((total, following))

    def taken_in(self) -> Self:
        """The buffer with pending leaves merged: itself, or a copy if its arrays are too small.

        Readers ask for it, and may be interrupted anywhere: no leaf is lost, and none comes twice.
        Numbers are written behind those that count; `closed` makes them count, and tells the next
        who asks that they do. Only where a number that is needed would be written over is that
        done in a copy.
        """
        more, size = len(self.pending), self._sums.size
        known = self.closed + 1 - self.oldest
        fits = more < size and (known + more <= size or size == self._most)
        viewed = self._viewed is not None and self.closed + more >= self._viewed + size
        found = self
        if viewed or not fits:
            found = copy(self)
            found._viewed = None
            found._set([column.copy() for column in self._stored()])
        found._take_in()
        return found

    def _take_in(self) -> None:
        new = self.pending[self.closed - self._since :]
        if new:
            sums, following = zip(*new, strict=True)
            self.append(np.array(sums, dtype=np.int64), np.array(following))
        self.oldest = max(self.oldest, self.closed + 1 - self._sums.size)
        self.pending = []

    def forget(self, before: int) -> None:
        """Drop the leaves before this one."""
        self.oldest = max(self.oldest, before)

    def columns(self, count: int | None = None) -> list[NDArray[Any]]:
        """The stored leaves and the open one, oldest first: running sums, predictions, squares.

        `count`: only the last `count` entries.
        """
        since = self.oldest if count is None else max(self.oldest, self.closed + 1 - count)
        slots = self._slots(np.arange(since, self.closed + 1))
        return [column[slots] for column in self._stored()]

    @property
    def total(self) -> float:
        """The sum of all stored leaves."""
        return self.between(*np.array([[self.oldest], [self.closed]])).item()

    def restore(self, closed: int, columns: Sequence[NDArray[Any]]) -> None:
        """Restore from the last entries up to and including leaf `closed`.

        Raises:
            ValueError: a number does not fit its column (`_check_whole_leaves`).
        """
        for column, values in zip(self._stored(), columns, strict=True):
            if column.dtype.kind == "i":
                _check_whole_leaves(values)
        self._part()
        self.closed, self.oldest = closed, closed + 1 - columns[0].size
        if columns[0].size > self._sums.size:
            self._resize(columns[0].size)
        slots: slice | IntArray = slice(self.oldest, closed + 1)
        if closed >= self._sums.size:  # it has begun anew
            slots = self._slots(np.arange(self.oldest, closed + 1))
        for column, values in zip(self._stored(), columns, strict=True):
            column[slots] = values

    def _grow(self, more: int) -> None:
        size, known = self._sums.size, self.closed + 1 - self.oldest
        needed = known + more if self._most is None else min(known + more, self._most)
        if needed <= size:
            return
        size = max(needed, 2 * size)
        size = size if self._most is None else min(size, self._most)
        if self.oldest == 0:
            # Not full so far: slots are in order and stay where they are. In place, since two
            # copies would be the peak of the memory that a release needs.
            self._resize(size)
        else:
            kept = self.columns()
            self._resize(size)
            self.restore(self.closed, kept)

    def _resize(self, size: int) -> None:
        self._part()
        for column in self._stored():
            column.resize(size, refcheck=False)

    def _slots(self, leaves: IntArray) -> IntArray:
        return divmod_by_number(leaves, self._sums.size)[1]

    def _stored(self) -> Sequence[NDArray[Any]]:
        if self._block == 1:
            return (self._sums,)
        return (self._sums, self._predictions, self._squares)

    def _set(self, columns: Sequence[NDArray[Any]]) -> None:
        """Replace the arrays by other ones in the order of `_stored`."""
        self._sums = columns[0]
        if self._block > 1:
            self._predictions, self._squares = columns[1:]


class LeafSpanBuffer(LeafBuffer):
    """`LeafBuffer` that also stores where each leaf begins, the mark before it, and its level.

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
        """Set the predicted value in the open leaf."""
        self._part()
        self._predictions[self.closed % self._sums.size] = prediction

    def extend(
        self, sums: IntArray, following: FloatArray, widths: IntArray, marks: IntArray
    ) -> None:
        """Add completed leaves: their sums, the level after each, their widths and marks."""
        _check_whole_leaves(sums, widths, marks)
        since = self._edges[self.closed % self._sums.size]
        first = self.closed + 1
        self.append(sums, following)
        slots = self._slots(np.arange(first, self.closed + 1))
        self._predictions[slots] = following
        self._edges[slots] = since + np.cumsum(widths)
        self._marks[slots] = marks

    def leaf_at(self, position: int) -> int:
        """The index of the leaf that begins at a position."""
        if position == self._edges[self.closed % self._sums.size]:  # a block that begins just now
            return self.closed
        edges, size = self._edges, self._sums.size
        known = range(self.oldest, self.closed + 1)
        return self.oldest + bisect_left(known, position, key=lambda leaf: edges[leaf % size])

    def spans(self) -> Spans:
        """The stored leaves."""
        sums, levels, edges, marks = self.columns()
        return Spans(edges, np.diff(sums), marks[1:], levels)

    def _stored(self) -> Sequence[NDArray[Any]]:
        return (self._sums, self._predictions, self._edges, self._marks)

    def _set(self, columns: Sequence[NDArray[Any]]) -> None:
        self._sums, self._predictions, self._edges, self._marks = columns
