"""`TailQuantile` for many streams at once, with the bits that each choice has alone."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.lattice import IntArray, Lattice
from tidegate.noise.selection_mechanisms import SPARE_WORDS, permute_and_flip_rows
from tidegate.threshold.tail_quantile import PARTS, TailQuantile, last_exceeded_in_tail

_AT_ONCE = 1 << 16  # values at a time: this saves memory


class ChoiceFacts(NamedTuple):
    """The public facts of a choice, as `TailQuantile.choose_from` takes them."""

    at_least: int
    positive: int | None = None
    climbing_from: int = 1
    climbing_to: int | None = None
    first: bool = False
    late_price: Fraction | None = None


def counts_above_of_streams(values: IntArray, grid: IntArray) -> IntArray:
    """`TailQuantile.above` of each row of values."""
    many = -(-values.size // _AT_ONCE)
    return np.concatenate(
        [_counts_above_of_streams(some, grid) for some in np.array_split(values, many)]
    )


def _counts_above_of_streams(values: IntArray, grid: IntArray) -> IntArray:
    rows = len(values)
    last, parts = last_exceeded_in_tail(values.reshape(-1), grid)
    owners = np.repeat(np.arange(rows) * grid.size, values.shape[1])
    some = last >= 0
    places = (owners + last)[some]
    size = rows * grid.size
    whole = np.bincount(places, minlength=size).reshape(rows, -1)
    # Whole numbers far below 2**53: exact as floats.
    partly = np.bincount(places, weights=parts[some], minlength=size).astype(np.int64)
    return added_up(whole, partly.reshape(rows, -1))


def added_up(whole: NDArray[np.signedinteger], parts: IntArray) -> IntArray:
    """Counts above each candidate, summed from counts by the last candidate that values exceed.

    A value counts in full at all candidates before that one, and in part there.
    """
    above = np.cumsum(whole[:, ::-1], axis=1, dtype=np.int64)[:, ::-1] - whole
    found: IntArray = parts + above * PARTS
    return found


def words_of_choice(stage: TailQuantile, lattice: Lattice) -> int:
    """How many random words of each stream `choices_of_rows` needs."""
    return stage.candidates(lattice).size + SPARE_WORDS


def choices_of_rows(
    stage: TailQuantile,
    above: IntArray,
    lattice: Lattice,
    facts: Sequence[ChoiceFacts],
    words: NDArray[np.uint64],
) -> tuple[IntArray, list[int]]:
    """θ of each stream in lattice units, as `TailQuantile.choose_from` returns it for one.

    Privacy: the same scores meet the same coins, so the guarantee is that of `TailQuantile`.

    Args:
        stage: of all streams.
        above: a row of counts for each.
        lattice: of all streams.
        facts: what is public about each choice.
        words: the first words of each keystream (`words_of_choice`).

    Returns:
        θ, and the streams that would read more words: they are to choose by themselves.
    """
    size = stage.candidates(lattice).size
    scores, first = np.empty(above.shape, dtype=np.int64), np.empty(len(facts), dtype=np.int64)
    alike: dict[ChoiceFacts, list[int]] = {}
    for row, each in enumerate(facts):
        alike.setdefault(each, []).append(row)
    denominators: IntArray = np.empty(len(facts), dtype=np.int64)
    for each, rows in alike.items():
        grid, found, denominators[rows] = stage.scores(above[rows], lattice, *each)
        first[rows] = size - grid.size
        scores[rows, size - grid.size :] = found
    outcomes = np.array([stage.outcome(step, lattice) for step in stage.candidates(lattice)])
    thetas: IntArray = np.empty(len(facts), dtype=np.int64)
    others: list[int] = []
    for begin, denominator in sorted(set(zip(first.tolist(), denominators.tolist(), strict=True))):
        mine = np.flatnonzero((first == begin) & (denominators == denominator))
        used = words[mine, : size - begin + SPARE_WORDS]
        best, left = permute_and_flip_rows(used, scores[mine, begin:], stage.epsilon / denominator)
        thetas[mine] = outcomes[begin + best]
        others += mine[left].tolist()
    return thetas, others
