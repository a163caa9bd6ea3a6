"""Discrete Laplace noise of many sources at once, from words that were read before.

Attempts of `discrete_laplace` read one word each, in order, until one is open; they keep all
outcomes but −0. So as long as no attempt is open, its samples are the outcomes of the words in
their order without those that are −0, whatever number of them is drawn at a time.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tidegate.noise._arguments import exact_fraction
from tidegate.noise.discrete_laplace import BLOCK, Inversion

_ONE = np.uint64(1)
_DEVIATIONS = 6  # of the number of words that turn out as −0: enough words in all but 1e-9


def discrete_laplace_rows(
    words: NDArray[np.uint64], scale: Fraction
) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Many short samples at once: row r is what `discrete_laplace` draws from words that begin so.

    Args:
        words: the first words of each source, one for each sample of its row; of 64 bits.
        scale: of all of them.

    Returns:
        The samples, and the rows that would read more words, whose samples are to be drawn by
        `discrete_laplace`: integers must decide, or a −0 was thrown away.
    """
    count = words.shape[1]
    if count > BLOCK:
        raise AssertionError("a row is read in one block")
    noise, thrown, doubtful = _outcomes(words, exact_fraction("scale", scale))
    return noise, np.flatnonzero((thrown | doubtful).any(axis=1))


def discrete_laplace_from(
    words: NDArray[np.uint64], count: int, scale: Fraction
) -> list[NDArray[np.int64] | None]:
    """Row r: the `count` samples that `discrete_laplace` draws from a source that begins so.

    None where it would read other words: too few are given (see `words_for`), or integers must
    decide. Such samples are to be drawn by `discrete_laplace`.
    """
    noise, thrown, doubtful = _outcomes(words, exact_fraction("scale", scale))
    found: list[NDArray[np.int64] | None] = []
    for row, gone, open_ in zip(noise, thrown, doubtful, strict=True):
        kept = row[~gone][:count]
        found.append(None if open_.any() or kept.size < count else kept)
    return found


def words_for(count: int, scale: Fraction) -> int:
    """How many words give `count` samples, nearly always."""
    thrown = -math.expm1(-1 / max(float(scale), 1e-3)) / 2  # the chance of a −0
    mean = count * thrown / (1 - thrown)
    return count + math.ceil(mean + _DEVIATIONS * math.sqrt(mean / (1 - thrown)) + 1)


def _outcomes(
    words: NDArray[np.uint64], scale: Fraction
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
    """What each word gives; whether it is −0; whether integers must decide it."""
    flat = np.ascontiguousarray(words).reshape(-1)
    noise = np.empty(flat.size, dtype=np.int64)
    thrown, open_ = np.zeros((2, flat.size), dtype=np.bool_)
    inversion = Inversion(_NoWords(), scale, min(flat.size, BLOCK))
    for start in range(0, flat.size, BLOCK):
        here = slice(start, min(start + BLOCK, flat.size))
        outcomes, doubtful = inversion.propose((flat[here] >> _ONE).view(np.int64))
        signs = -(flat[here] & _ONE).view(np.int64)
        noise[here] = (outcomes ^ signs) - signs
        thrown[here] = (outcomes == 0) & (signs != 0)
        open_[here][doubtful] = True
    return noise.reshape(words.shape), thrown.reshape(words.shape), open_.reshape(words.shape)


class _NoWords:
    bits = 64

    def take(self, count: int) -> NDArray[np.uint64]:
        raise AssertionError("samples that need more words are drawn elsewhere")
