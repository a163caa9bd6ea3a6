"""Coins that succeed with probability exp(−n·unit), exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import SettingError
from tidegate.noise._sampler_arguments import exact_sampler_argument
from tidegate.noise.exponential_enclosure import exponential_bounds
from tidegate.randomness import WordSource

# What is assumed of numpy: `np.exp` is right to a relative 2**-46 (64 units in the last place;
# its own accuracy tests allow 4). Tested against `exponential_bounds`.
EXP_RELATIVE_ERROR = 2.0**-46
# n·unit carries three roundings, at most 3·64·2**-53 < 2**-45 absolute where exp(−n·unit) ≥ 2**-64;
# the word's conversion and the subtraction add a relative 2**-51.
_DOUBT = 2.0**-43


def bernoulli_exp(
    words: WordSource, exponents: NDArray[np.int64], unit: Fraction
) -> NDArray[np.bool_]:
    """Independent coins; coin i is True with probability exp(−exponents[i]·unit), exactly.

    Coin i is the event U < exp(−n·unit) of a real uniform U, known at first to one word:
    U ∈ [m, m+1)/2**bits. With E = 2**bits·exp(−n·unit) (irrational unless n·unit = 0, and then
    2**bits, above every m) and F = ⌊E⌋ the event

        holds if m < F, fails if m > F, and is open if m = F.

    If it is open the next word gives U `bits` more binary places. So the coin is a function of U,
    and the number of words read changes nothing about its law.

    Floats decide only where they cannot err. The float value of E has a relative error below
    2**-44 (see the constants), or else E and its float are both below 1. So m is on the side of E
    that it seems to be on if |m + ½ − E| > 1.5 + 2**-43·E in floats: for m ≤ 2E the error of the
    left side is below the margin, and for m > 2E, m ≥ 2 the side is plain. All others, one in
    2**42 at a width of 64 bits, are decided by integers.

    >>> from tidegate.randomness import seeded
    >>> words = seeded(7).new_epoch().keystream("example", b"").at()
    >>> coins = bernoulli_exp(words, np.repeat([0, 1], 10_000), Fraction(1, 2))
    >>> int(coins[:10_000].sum()), bool(abs(coins[10_000:].mean() - 0.6065) < 0.02)
    (10000, True)
    """
    unit = exact_sampler_argument("unit", unit, allow_zero=True)
    exponents = np.asarray(exponents)
    if exponents.ndim != 1 or exponents.dtype != np.int64:
        raise SettingError("exponents", "must be a one-dimensional array of int64")
    if exponents.size and exponents.min() < 0:
        raise SettingError("exponents", "must not be negative")
    word = words.take(exponents.size)
    coins, doubtful = proposed_exp(word, words.bits, exponents, unit)
    for index in np.flatnonzero(doubtful):
        coins[index] = decide_coin(words, int(word[index]), int(exponents[index]) * unit)
    return coins


def proposed_exp(
    word: NDArray[np.uint64], bits: int, exponents: NDArray[np.int64], unit: Fraction
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """The coins of `bernoulli_exp` in floats, and which of them integers must decide."""
    # From a unit of 1000 on, exp(−n·unit) is 0 in floats for n ≥ 1, and below every word but 0.
    negated = exponents.astype(np.float64)
    negated *= -float(min(unit, Fraction(1000)))
    return propose_coins(word, bits, negated)


def propose_coins(
    word: NDArray[np.uint64], bits: int, negated: NDArray[np.float64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Coins in floats, and which of them integers must decide.

    `negated` holds −exponent, right to an absolute 2**-45 where 2**bits·exp(−exponent) ≥ 1; it is
    overwritten.
    """
    expected = np.exp(negated, out=negated)
    expected *= 2.0**bits
    distance = word.astype(np.float64)
    distance += 0.5
    distance -= expected
    coins = distance < 0
    np.abs(distance, out=distance)
    expected *= _DOUBT
    expected += 1.5
    return coins, distance <= expected


def decide_coin(words: WordSource, prefix: int, exponent: Fraction) -> bool:
    """The coin of the U that starts with the word `prefix`; reads more words until decided."""
    bits = words.bits
    while True:
        floor, _ = exponential_bounds(exponent.numerator, exponent.denominator, bits)
        if prefix != floor:
            return prefix < floor
        prefix = (prefix << words.bits) | int(words.take(1)[0])
        bits += words.bits
