"""`Question`: the contract of all questions, and the random words that answer them.

Many answers at once are the same functions of the same words as `answer`, in slices of a cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import InputError
from tidegate.lattice import IntArray
from tidegate.local.integer_weights import WORD_BITS, WORDS
from tidegate.randomness import WordSource

Word32Array = NDArray[np.uint32]
PackedArray = NDArray[np.uint64]

# Up to here, whole numbers and twice them are exact as floats.
MOST_STEPS = 1 << 53

_SLICE = 1 << 14


def whole_steps_in_question(values: NDArray[Any]) -> IntArray:
    """The values as int64; refuses anything but a list of integers."""
    if values.ndim != 1 or values.dtype.kind not in "iu":  # a float would be cut, True is no step
        raise InputError("values must be whole steps of the resolution, in one dimension")
    if values.dtype == np.uint64:
        values = np.minimum(values, np.uint64(MOST_STEPS))
    return values.astype(np.int64, copy=False)


def question_slices(count: int) -> Iterator[slice]:
    """Slices of `count` values with intermediate arrays that fit into a second-level cache."""
    for start in range(0, count, _SLICE):
        yield slice(start, min(start + _SLICE, count))


def question_word_pairs(
    count: int, total: int, words: WordSource
) -> tuple[Word32Array, Word32Array]:
    """Draw two words for each of `count` devices; the second is uniform below `total`.

    Both are halves of one word of 64 bits. Where the second is not below the total it is drawn
    again, each time from a new word of 64 bits, until it is.
    """
    high, second = question_word_halves(words.take(count))
    if total == WORDS:
        return high, second
    second = second.copy()
    again = np.flatnonzero(second >= total)
    while again.size:
        second[again] = question_word_halves(words.take(again.size))[1]
        again = again[second[again] >= total]
    return high, second


def packed_question_words(high: IntArray, low: IntArray) -> PackedArray:
    """Two 32-bit numbers in one of 64 bits: a table then needs one look-up, not two."""
    result: PackedArray = high.astype(np.uint64) << np.uint64(WORD_BITS) | low.astype(np.uint64)
    return result


def question_word_halves(pairs: PackedArray) -> tuple[Word32Array, Word32Array]:
    """The high and the low 32 bits, as views."""
    ends = np.ascontiguousarray(pairs).astype("<u8", copy=False).view("<u4")
    return ends[1::2], ends[0::2]


# A device throws words away until one is below the total. A message with a total below this could
# keep it busy for ever: refused.
LEAST_TOTAL = 1 << 24

# The next uniform word of 32 bits.
Words = Callable[[], int]


class Question(Protocol):
    """A public question to one device."""

    @property
    def form(self) -> str:
        """The name in messages."""
        ...

    @property
    def reports(self) -> int:
        """The number of different reports: 0, 1, …, reports − 1."""
        ...

    @property
    def reach(self) -> tuple[float, float]:
        """How many steps below and above 0 the question covers."""
        ...

    def check(self, epsilon: Fraction) -> None:
        """Refuse (`RefusedError`) unless, by the weights, one answer costs at most `epsilon`."""
        ...

    def answer(self, value: int, words: Words) -> int:
        """The report of one device whose value is `value` steps."""
        ...

    def answers(self, values: IntArray, words: WordSource) -> IntArray:
        """The reports of many devices, each with its own words."""
        ...

    def plain(self) -> dict[str, Any]:
        """The question as plain data for a message; `question_from_plain` reads it."""
        ...
