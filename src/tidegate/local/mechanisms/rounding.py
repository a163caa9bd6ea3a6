"""From probabilities to whole weights, rounded toward privacy."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tidegate.errors import SettingError
from tidegate.lattice import FloatArray, IntArray
from tidegate.local.privacy_loss import WORDS, check_loss, least_weight

Rows = tuple[tuple[int, ...], ...]


def whole_weights(probabilities: FloatArray, epsilon: Fraction) -> Rows:
    """Weights near 2**32·`probabilities` whose rows add up to 2**32 and whose loss is at most ε.

    The largest weight of a column is rounded down, and no weight of the column may be less than
    ⌈largest·e^(−ε)⌉ or more than the largest: that alone bounds the loss. What a row then lacks,
    or has too much, is a few units of 2⁻³²; cells that have room between the two bounds take it.
    Means are taken of the weights as they are, so this rounding costs accuracy and no bias.

    Every total is 2**32, so that a device never has to throw a word away.

    >>> whole_weights(np.array([[0.731, 0.269], [0.269, 0.731]]), Fraction(1))
    ((3139621093, 1155346203), (1155346203, 3139621093))
    """
    ideal = probabilities * WORDS
    largest = np.floor(ideal.max(axis=0)).astype(np.int64)
    least = np.array([max(least_weight(int(each), epsilon), 1) for each in largest], dtype=np.int64)
    if np.any(least > largest):
        raise SettingError("epsilon", "is too large or too small for weights of 32 bits")
    weights: IntArray = np.clip(np.rint(ideal).astype(np.int64), least, largest)
    for row in weights:
        _settle(row, least, largest)
    check_loss(
        zip(weights.min(axis=0).tolist(), weights.max(axis=0).tolist(), strict=True), epsilon
    )
    return tuple(tuple(row) for row in weights.tolist())


def _settle(row: IntArray, least: IntArray, largest: IntArray) -> None:
    """Make the row add up to 2**32, in place, beginning where there is most room."""
    lacking = WORDS - int(row.sum())
    room = largest - row if lacking > 0 else row - least
    for column in np.argsort(-room, kind="stable"):
        step = min(abs(lacking), int(room[column]))
        row[column] += step if lacking > 0 else -step
        lacking -= step if lacking > 0 else -step
    if lacking:
        raise SettingError("epsilon", "is too small for weights of 32 bits")
