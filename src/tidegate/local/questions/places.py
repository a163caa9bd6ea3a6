"""Where a value lies between the rows of a table."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from tidegate.lattice import FloatArray, IntArray
from tidegate.local.privacy_loss import WORD_BITS, WORDS
from tidegate.local.questions.bulk import PackedArray, packed

_SLOTS = 512  # a value times this is still an integer of 63 bits
_LOOKED_UP = 1 << 20  # up to this threshold, the places of all values are tabulated


class Places:
    """For each value from 0 to `threshold`, a row and the chance, of 2**32, of the next one.

    Value v is x = 2·v/threshold − 1. It lies between the means of two neighbouring rows, and the
    chance is such that the mean of both is x: what `ValueQuestion.place` gives for one value, here
    in bulk, in the same floats.
    """

    def __init__(self, means: tuple[float, ...], threshold: int) -> None:
        self._list, self._threshold = means, threshold

    def finder(self, count: int) -> Callable[[IntArray], PackedArray]:
        """How to find the places of `count` values: from a table, or by computing each."""
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
        return packed(rows + whole, chances - whole * WORDS)

    @cached_property
    def _means(self) -> FloatArray:
        return np.array(self._list)

    @cached_property
    def _gaps(self) -> FloatArray:
        return np.diff(self._means)

    @cached_property
    def _ends(self) -> FloatArray:
        """The x at which the next row begins."""
        return np.append(self._means[1:-1], np.inf)

    @cached_property
    def _first_rows(self) -> IntArray:
        """The row of the first value of each slot: 0…threshold is cut into so many."""
        firsts = [-(-slot * (self._threshold + 1) // _SLOTS) for slot in range(_SLOTS)]
        x = 2 * np.array(firsts) / self._threshold - 1
        rows: IntArray = np.searchsorted(self._ends, x, side="right")
        return rows
