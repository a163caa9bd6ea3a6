"""Table look-ups in bulk: the row of each value, and the column of each random word."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from tidegate.lattice import FloatArray, IntArray
from tidegate.local.integer_weights import WORD_BITS, WORDS
from tidegate.local.questions.question import (
    PackedArray,
    Word32Array,
    packed_question_words,
    question_word_halves,
)

_MOST_SLOTS = 1 << 16


class ColumnLookup:
    """The column of a word, for all rows of a table of weights.

    The words of a row are cut into 2**bits slots by their leading bits. A slot knows the column of
    its first word, and the last word that still falls into that column; for a later word the next
    column is tried. There are enough slots that almost none spans more than two columns.
    """

    def __init__(self, weights: Sequence[Sequence[int]]) -> None:
        table = np.array(weights, dtype=np.int64)
        rows, self._columns = table.shape
        last = np.cumsum(table, axis=1) - 1  # the last word of each cell
        # A slot no wider than the least weight meets two columns at most. The last column needs no
        # slots: its words are what is left.
        narrowest = int(table[:, 1:-1].min()) if self._columns > 2 else WORDS
        self._bits = max(WORD_BITS - narrowest.bit_length() + 1, 0)
        while rows << self._bits > _MOST_SLOTS and self._bits > 0:
            self._bits -= 1
        starts = np.arange(1 << self._bits, dtype=np.int64) << (WORD_BITS - self._bits)
        first = np.array([np.searchsorted(row, starts) for row in last])
        first = np.minimum(first, self._columns - 1)
        self._slots = packed_question_words(first, np.take_along_axis(last, first, axis=1)).ravel()
        self._last = last.astype(np.uint32).ravel()
        finish = starts + ((1 << (WORD_BITS - self._bits)) - 1)
        beyond = np.array([np.searchsorted(row, finish) for row in last])
        self._one_step = bool((np.minimum(beyond, self._columns - 1) <= first + 1).all())

    def columns(self, rows: IntArray, words: Word32Array, into: IntArray) -> None:
        """Write the column of each word, in its row, into an array."""
        slots = rows << self._bits
        if self._bits:
            slots += words >> np.uint32(WORD_BITS - self._bits)
        first, last = question_word_halves(self._slots[slots])
        np.add(first, words > last, out=into, casting="unsafe")
        if self._one_step:
            return
        cells = rows * self._columns
        again = np.flatnonzero(words > self._last[cells + into])
        while again.size:
            into[again] += 1
            again = again[words[again] > self._last[cells[again] + into[again]]]


_SLOTS = 512  # a value times this is still an integer of 63 bits
_LOOKED_UP = 1 << 20  # up to this threshold, the places of all values are tabulated


class RowLookup:
    """The row of each value from 0 to `threshold`, and the probability, in 2**32nds, of the next.

    Value v is x = 2·v/threshold − 1. It lies between the means of two neighbouring rows, and the
    chance is such that the mean of both is x: what `ValueQuestion.place` gives for one value, here
    in bulk, in the same floats.
    """

    def __init__(self, means: tuple[float, ...], threshold: int) -> None:
        self._list, self._threshold = means, threshold

    def finder(self, count: int) -> Callable[[IntArray], PackedArray]:
        """A function that finds the rows of `count` values: by a table, or by computing each."""
        if self._threshold < min(_LOOKED_UP, count):
            return self._table.__getitem__
        return self._computed

    @cached_property
    def _table(self) -> PackedArray:
        return self._computed(np.arange(self._threshold + 1))

    def _computed(self, values: IntArray) -> PackedArray:
        x = 2 * values / self._threshold - 1
        rows = self._first_rows[values * _SLOTS // (self._threshold + 1)]
        rows += x >= self._ends[rows]
        again = np.flatnonzero(x >= self._ends[rows])  # a slot with more than one end: rare
        while again.size:
            rows[again] += 1
            again = again[x[again] >= self._ends[rows[again]]]
        chances = np.floor((x - self._means[rows]) / self._gaps[rows] * WORDS).astype(np.int64)
        whole = chances >> WORD_BITS  # a chance of 1 does not fit: it is the next row, and none
        return packed_question_words(rows + whole, chances - whole * WORDS)

    @cached_property
    def _means(self) -> FloatArray:
        return np.array(self._list)

    @cached_property
    def _gaps(self) -> FloatArray:
        return np.diff(self._means)

    @cached_property
    def _ends(self) -> FloatArray:
        """The values at which the next row begins."""
        return np.append(self._means[1:-1], np.inf)

    @cached_property
    def _first_rows(self) -> IntArray:
        """The row of the first value of each slot into which 0…threshold is divided."""
        firsts = [-(-slot * (self._threshold + 1) // _SLOTS) for slot in range(_SLOTS)]
        x = 2 * np.array(firsts) / self._threshold - 1
        rows: IntArray = np.searchsorted(self._ends, x, side="right")
        return rows
