"""Which column of a table a word falls into, in bulk."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidegate.lattice import IntArray
from tidegate.local.privacy_loss import WORD_BITS, WORDS
from tidegate.local.questions.bulk import Word32Array, halves, packed

_MOST_SLOTS = 1 << 16


class Guide:
    """Which column a word falls into, for all rows of a table of weights.

    The words of a row are cut into 2**bits slots by their leading bits. A slot knows the column of
    its first word, and the last word that still falls into that column; for a later word the next
    column is tried. There are so many slots that almost none spans more than two columns.
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
        self._slots = packed(first, np.take_along_axis(last, first, axis=1)).ravel()
        self._last = last.astype(np.uint32).ravel()
        finish = starts + ((1 << (WORD_BITS - self._bits)) - 1)
        beyond = np.array([np.searchsorted(row, finish) for row in last])
        self._one_step = bool((np.minimum(beyond, self._columns - 1) <= first + 1).all())

    def columns(self, rows: IntArray, words: Word32Array, into: IntArray) -> None:
        """Write the column of each word, in its row, into an array."""
        slots = rows << self._bits
        if self._bits:
            slots += words >> np.uint32(WORD_BITS - self._bits)
        first, last = halves(self._slots[slots])
        np.add(first, words > last, out=into, casting="unsafe")
        if self._one_step:
            return
        cells = rows * self._columns
        again = np.flatnonzero(words > self._last[cells + into])
        while again.size:
            into[again] += 1
            again = again[words[again] > self._last[cells[again] + into[again]]]
