"""Discrete Laplace noise from words that are known before its scale is: logarithms first.

`one_discrete_laplace` takes the magnitude ⌊−scale·ln U⌋ and the sign from one word, where floats
can decide. The logarithms of many words can be computed at once, before it is known which of them
are used, and with what scale; a multiplication gives the noise then.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tidegate.lattice import FloatArray
from tidegate.noise.discrete_laplace import least_cell, proposal_doubt

_BITS = 63  # of a word of 64, without the sign
_ONE = np.uint64(1)
_LEAST = least_cell(_BITS)
# `edge` of all scales below 2**33 is smaller than 1/256: less to compute for a single product.
USUAL_SCALES = 1 << 33
USUAL_EDGE = 1 / 256


def signed_logarithms(words: NDArray[np.uint64]) -> FloatArray:
    """−ln U with the sign of each word; 0 where integers must decide.

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
    """The same for one word, by `math.log` and without arrays: the last bits may differ.

    >>> int(1000 * one_signed_logarithm(0x1234_5678_9ABC_DEF0))
    2643
    """
    cell = word >> 1
    if cell < _LEAST:
        return 0.0
    found = -math.log((cell + 0.5) * 2.0**-_BITS)
    return -found if word & 1 else found


def edge(scale: int) -> float:
    """How near to an integer a product must not be; at least 1 if integers must decide all."""
    return proposal_doubt(scale, _BITS)
