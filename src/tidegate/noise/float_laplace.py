"""Laplace noise in floating point: for the paper's comparison methods, not for privacy."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import SettingError
from tidegate.exact_numbers import said
from tidegate.noise._sampler_arguments import whole_sampler_argument
from tidegate.randomness import WordSource


def float_laplace(words: WordSource, count: int, scale: float) -> NDArray[np.float64]:
    """`count` draws with density exp(−|x|/scale)/(2·scale), as near as floats come to it.

    Inverse distribution function: one bit of a word is the sign, the others are U, and the
    magnitude is −scale·ln U.

    **No exact guarantee.** The floats that this can return have gaps, and the gaps of
    truth + noise depend on the truth: an observer who knows the arithmetic can rule out
    neighbours from the low bits alone (Mironov 2012). Whatever publishes such noise says
    `arithmetic="float"`; everything else uses `discrete_laplace`.

    >>> from tidegate.randomness import seeded
    >>> words = seeded(7).new_epoch().keystream("example", b"").at()
    >>> float_laplace(words, 3, 2.5).shape
    (3,)
    """
    count = whole_sampler_argument("count", count, minimum=0)
    if not (math.isfinite(scale) and scale > 0):
        raise SettingError("scale", f"must be a positive number, not {said(scale)}")
    word = words.take(count)
    draws = (word >> np.uint64(1)).astype(np.float64)
    draws += 0.5
    draws *= 2.0 ** (1 - words.bits)
    np.log(draws, out=draws)
    draws *= np.where(word & np.uint64(1), scale, -scale)
    return draws
