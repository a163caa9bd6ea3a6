"""Many answers at once: the same functions of the same words as `answer`, in slices of a cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import InputError
from tidegate.lattice import IntArray
from tidegate.local.loss import WORD_BITS, WORDS
from tidegate.randomness import WordSource

Word32Array = NDArray[np.uint32]
PackedArray = NDArray[np.uint64]

# Up to here, whole numbers and twice them are exact as floats.
MOST_STEPS = 1 << 53

_SLICE = 1 << 14
_MOST_SLOTS = 1 << 16


def whole_steps(values: NDArray[Any]) -> IntArray:
    """The values as integers of 64 bits; refuses what is not a list of whole numbers."""
    if values.ndim != 1 or values.dtype.kind not in "iu":  # a float would be cut, True is no step
        raise InputError("values must be whole steps of the resolution, in one dimension")
    if values.dtype == np.uint64:
        values = np.minimum(values, np.uint64(MOST_STEPS))
    return values.astype(np.int64, copy=False)


def slices(count: int) -> Iterator[slice]:
    """Pieces of so many values whose intermediate arrays fit into a processor's second cache."""
    for start in range(0, count, _SLICE):
        yield slice(start, min(start + _SLICE, count))


def word_pairs(count: int, total: int, words: WordSource) -> tuple[Word32Array, Word32Array]:
    """For each of `count` devices a word, and one that is uniform below `total`.

    Both are halves of one word of 64 bits. Where the second is not below the total it is drawn
    again, each time from a new word of 64 bits, until it is.
    """
    high, second = halves(words.take(count))
    if total == WORDS:
        return high, second
    second = second.copy()
    again = np.flatnonzero(second >= total)
    while again.size:
        second[again] = halves(words.take(again.size))[1]
        again = again[second[again] >= total]
    return high, second


def packed(high: IntArray, low: IntArray) -> PackedArray:
    """Two numbers of 32 bits in one of 64: a table of them costs one look instead of two."""
    result: PackedArray = high.astype(np.uint64) << np.uint64(WORD_BITS) | low.astype(np.uint64)
    return result


def halves(pairs: PackedArray) -> tuple[Word32Array, Word32Array]:
    """The high and the low 32 bits, as views."""
    ends = np.ascontiguousarray(pairs).astype("<u8", copy=False).view("<u4")
    return ends[1::2], ends[0::2]


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
