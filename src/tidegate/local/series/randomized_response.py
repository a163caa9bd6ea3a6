"""Randomized response of many devices at once, from integer weights."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tidegate.lattice import FloatArray, IntArray
from tidegate.local.integer_weights import WORDS, coin_weights
from tidegate.randomness import WordSource

Bits = NDArray[np.bool_]
_HALF = np.uint64(32)


def response_contrast(epsilon: Fraction) -> float:
    """The increase of the share of ones from bit 0 to bit 1, with the actual weights."""
    lie, truth = coin_weights(epsilon)
    return (truth - lie) / WORDS


def randomized_bits(bits: Bits, epsilon: Fraction, words: WordSource) -> Bits:
    """Each bit by randomized response at ε: true with `truth` of 2**32, from the upper half of a
    word.

    `coin_weights` has truth ≤ e^ε·lie in integers, so a report costs its bit at most ε.
    """
    lie, truth = coin_weights(epsilon)
    drawn = words.take(bits.size) >> _HALF
    chance = np.where(bits, np.uint64(truth), np.uint64(lie))
    return np.asarray(drawn < chance)


def fair_response(count: int, words: WordSource) -> Bits:
    """Fair coins: they reveal nothing."""
    return (words.take(count) >> np.uint64(63)).astype(np.bool_)


def picked(count: int, among: int, words: WordSource) -> IntArray:
    """`count` uniform integers below `among`; words beyond the last whole multiple are redrawn."""
    limit = np.uint64((1 << words.bits) // among * among - 1)
    drawn = words.take(count).copy()
    while (again := np.flatnonzero(drawn > limit)).size:
        drawn[again] = words.take(again.size)
    return (drawn % np.uint64(among)).astype(np.int64)


def share_of_responses(ones: int, reports: int, epsilon: Fraction) -> float:
    """The unbiased estimate of the share of bits that are set."""
    lie, _ = coin_weights(epsilon)
    return (ones / reports - lie / WORDS) / response_contrast(epsilon)


def response_variance(reports: float, epsilon: Fraction) -> float:
    """The largest noise variance of that estimate: ¼/(reports·contrast²)."""
    return 0.25 / (reports * response_contrast(epsilon) ** 2)


def responses_as_signs(bits: Bits) -> FloatArray:
    """Bits as −1 and 1."""
    return np.where(bits, 1.0, -1.0)
