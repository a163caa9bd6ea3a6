"""Discrete Laplace noise from given words: of many sources, or before the scale is known.

`one_discrete_laplace` takes the magnitude ⌊−scale·ln U⌋ and the sign from one word, where floats
can decide. The logarithms of many words can be computed at once, before it is known which of them
are used, and with what scale; a multiplication gives the noise then.

Attempts of `discrete_laplace` read one word each, in order, until one is open; they keep all
outcomes but −0. So as long as no attempt is open, its samples are the outcomes of the words in
their order without those that are −0, whatever number of them is drawn at a time.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tidegate.lattice import FloatArray
from tidegate.noise._sampler_arguments import exact_sampler_argument
from tidegate.noise.discrete_laplace import BLOCK, LaplaceInversion, least_cell, proposal_doubt

_BITS = 63  # of a word of 64, without the sign
_ONE = np.uint64(1)
_LEAST = least_cell(_BITS)
# `edge` of all scales below 2**33 is smaller than 1/256: less to compute for a single product.
USUAL_SCALES = 1 << 33
USUAL_EDGE = 1 / 256


def signed_logarithms(words: NDArray[np.uint64]) -> FloatArray:
    """−ln U with a sign for each word; 0 where integers must decide.

    With p = scale·logarithm, `int(p)` is what `one_discrete_laplace` gives if the first word of its
    source is this one, provided that `edge` < |p − int(p)| < 1 − `edge` with `edge(scale)`, and not
    −1 < p < 0 (a −0 is thrown away).

    >>> (logarithm,) = signed_logarithms(np.array([0x1234_5678_9ABC_DEF0], dtype=np.uint64))
    >>> int(1000 * logarithm)
    2643
    """
    cells = words >> _ONE
    found: FloatArray = -np.log((cells + 0.5) * 2.0**-_BITS)
    np.negative(found, out=found, where=(words & _ONE).astype(np.bool_))
    found[cells < least_cell(_BITS)] = 0.0
    return found


def one_signed_logarithm(word: int) -> float:
    """The logarithm from one word by `math.log`, without arrays: the last bits may differ.

    >>> int(1000 * one_signed_logarithm(0x1234_5678_9ABC_DEF0))
    2643
    """
    cell = word >> 1
    if cell < _LEAST:
        return 0.0
    found = -math.log((cell + 0.5) * 2.0**-_BITS)
    return -found if word & 1 else found


def edge(scale: int) -> float:
    """How far from an integer a product must be; at least 1 if integers must decide all."""
    return proposal_doubt(scale, _BITS)


_DEVIATIONS = 6  # of the number of words that turn out as −0: enough words in all but 1e-9


def discrete_laplace_rows(
    words: NDArray[np.uint64], scale: Fraction
) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Many short samples: row r is what `discrete_laplace` draws from words beginning so.

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
    noise, thrown, doubtful = _outcomes_of_words(words, exact_sampler_argument("scale", scale))
    return noise, np.flatnonzero((thrown | doubtful).any(axis=1))


def discrete_laplace_from(
    words: NDArray[np.uint64], count: int, scale: Fraction
) -> list[NDArray[np.int64] | None]:
    """Row r: the `count` samples of `discrete_laplace` from a source that begins with its words.

    None where it would read other words: too few are given (see `words_for`), or integers must
    decide. Such samples are to be drawn by `discrete_laplace`.
    """
    noise, thrown, doubtful = _outcomes_of_words(words, exact_sampler_argument("scale", scale))
    found: list[NDArray[np.int64] | None] = []
    for row, gone, open_ in zip(noise, thrown, doubtful, strict=True):
        kept = row[~gone][:count]
        found.append(None if open_.any() or kept.size < count else kept)
    return found


def words_for(count: int, scale: Fraction) -> int:
    """How many words nearly always suffice for `count` samples."""
    thrown = -math.expm1(-1 / max(float(scale), 1e-3)) / 2  # the chance of a −0
    mean = count * thrown / (1 - thrown)
    return count + math.ceil(mean + _DEVIATIONS * math.sqrt(mean / (1 - thrown)) + 1)


def _outcomes_of_words(
    words: NDArray[np.uint64], scale: Fraction
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
    """The outcome of each word; whether it is −0; whether integers must decide it."""
    flat = np.ascontiguousarray(words).reshape(-1)
    noise = np.empty(flat.size, dtype=np.int64)
    thrown, open_ = np.zeros((2, flat.size), dtype=np.bool_)
    inversion = LaplaceInversion(_NoWords(), scale, min(flat.size, BLOCK))
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
