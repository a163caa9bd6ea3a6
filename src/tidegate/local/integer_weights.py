"""Tables of integer weights: rounding toward privacy, checking the privacy loss, drawing.

A device that draws its report with probability weight/total from a row that its value chooses is
ε-locally private if no report is more than e^ε times likelier under one row than under another:
in every column the least weight is at least e^(−ε) times the largest. Both sides check this, the
device above all: it need not trust whoever made the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache

import numpy as np

from tidegate.errors import RefusedError, SettingError
from tidegate.lattice import FloatArray, IntArray
from tidegate.noise import exponential_bounds
from tidegate.randomness import Epoch

# Reports are drawn from words of 32 bits: what `crypto.getRandomValues` gives a browser.
WORD_BITS = 32
WORDS = 1 << WORD_BITS
_BITS = 64


def least_weight(largest: int, epsilon: Fraction) -> int:
    """The least weight that may share a column with `largest`: ⌈largest·e^(−ε)⌉, never below it.

    >>> least_weight(1000, Fraction(1))  # 1000/e = 367.9
    368
    """
    return _least_weight(largest, _shrinkage(epsilon))


@lru_cache(maxsize=64)  # a device and a server meet few different epsilons
def _shrinkage(epsilon: Fraction) -> int:
    """⌈2**64·e^(−ε)⌉"""
    return exponential_bounds(epsilon.numerator, epsilon.denominator, _BITS)[1]


def _least_weight(largest: int, shrinkage: int) -> int:
    return -(-largest * shrinkage >> _BITS)


def drawn_weight(total: int, words: Callable[[], int]) -> int:
    """A uniform integer below `total` ≤ 2**32, by rejection of larger words."""
    while True:
        word = words()
        if word < total:
            return word


def fresh_words(epoch: Epoch, digest: bytes) -> Callable[[], int]:
    """Words of 32 bits: the upper, then the lower half of each word of a keystream."""
    stream = epoch.keystream("local/report", digest).at()
    pending: list[int] = []

    def word() -> int:
        if not pending:
            both = int(stream.take(1)[0])
            pending.extend((both & 0xFFFFFFFF, both >> 32))
        return pending.pop()

    return word


def coin_weights(epsilon: Fraction) -> tuple[int, int]:
    """The weights (lie, truth) of randomized response: they add up to 2**32, truth ≤ e^ε·lie.

    >>> lie, truth = coin_weights(Fraction(1))
    >>> lie + truth == 2**32, least_weight(truth, Fraction(1)) <= lie
    (True, True)
    """
    above = _shrinkage(epsilon)
    lie = -(-(WORDS * above) // ((1 << _BITS) + above))
    return lie, WORDS - lie


def check_weight_loss(columns: Iterable[tuple[int, int]], epsilon: Fraction) -> None:
    """Refuse weights with a column whose (least, largest) differ by more than e^ε.

    >>> check_weight_loss([(1, 2), (2, 2)], Fraction(7, 10))  # e^0.7 = 2.01
    >>> check_weight_loss([(1, 2)], Fraction(69, 100))
    Traceback (most recent call last):
        ...
    tidegate.errors.RefusedError: the reports asked for would cost more than epsilon = 0.69
    """
    shrinkage = _shrinkage(epsilon) if epsilon >= 0 else None  # once, however many columns
    for least, largest in columns:
        if shrinkage is None or least < _least_weight(largest, shrinkage):
            raise RefusedError(
                f"the reports asked for would cost more than epsilon = {float(epsilon):g}"
            )


Rows = tuple[tuple[int, ...], ...]


def whole_weights(probabilities: FloatArray, epsilon: Fraction) -> Rows:
    """Integer weights near 2**32·`probabilities`: rows add up to 2**32, the loss is at most ε.

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
        _settle_weights(row, least, largest)
    check_weight_loss(
        zip(weights.min(axis=0).tolist(), weights.max(axis=0).tolist(), strict=True), epsilon
    )
    return tuple(tuple(row) for row in weights.tolist())


def _settle_weights(row: IntArray, least: IntArray, largest: IntArray) -> None:
    """Make the row add up to 2**32, in place, starting where there is most room."""
    lacking = WORDS - int(row.sum())
    room = largest - row if lacking > 0 else row - least
    for column in np.argsort(-room, kind="stable"):
        step = min(abs(lacking), int(room[column]))
        row[column] += step if lacking > 0 else -step
        lacking -= step if lacking > 0 else -step
    if lacking:
        raise SettingError("epsilon", "is too small for weights of 32 bits")
