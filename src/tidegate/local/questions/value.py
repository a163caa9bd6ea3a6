"""An unbiased report of the value itself, from a public table of integer weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from tidegate.errors import SettingError
from tidegate.lattice import FloatArray, IntArray
from tidegate.local.loss import WORD_BITS, WORDS, check_loss
from tidegate.local.questions.bulk import (
    Guide,
    PackedArray,
    halves,
    packed,
    slices,
    whole_steps,
    word_pairs,
)
from tidegate.local.questions.question import LEAST_TOTAL, Words, drawn, number, whole_field
from tidegate.randomness import WordSource

_MOST_CELLS = 1 << 20
_LARGEST = 2.0**53
_SLOTS = 512  # a value times this is still an integer of 63 bits
_LOOKED_UP = 1 << 20  # up to this threshold, rows and coins of all values are tabulated


@dataclass(frozen=True, kw_only=True)
class ValueQuestion:
    """Your value, cut at `threshold`, as a report of a table.

    The value is cut and mapped to x in [−1, 1]. Row i of the table stands for the mean of its
    reports, means[i] = Σ weight·output/total, computed from the weights as they are: so reports
    are unbiased whatever rounding the weights went through. x lies between two such means; a coin
    takes one of the two rows such that the mean is x (to 2⁻³² of their distance), and a second word
    draws a report from it. Decoded, a report is worth (output + 1)/2·threshold.

    What is released: the number of a column. Every row gives it with probability weight/total; the
    coin only mixes rows. So it is ε-private as largest ≤ e^ε·least in every column, which
    `check` decides in integers. Which rows are mixed is decided in floats: accuracy, not privacy.

    Attributes:
        threshold: θ in steps.
        weights: one row for each mean, all with the same total of at most 2**32.
        outputs: what each column is worth on [−1, 1].

    >>> coin = ValueQuestion.fitted(10, [[3, 1], [1, 3]], [-1.0, 1.0])
    >>> coin.outputs, coin.means
    ((-2.0, 2.0), (-1.0, 1.0))
    >>> coin.variance(np.array([-1.0, 0.0]))
    array([3., 4.])
    """

    form: ClassVar[str] = "value"

    threshold: int
    weights: tuple[tuple[int, ...], ...]
    outputs: tuple[float, ...]

    def __post_init__(self) -> None:
        if not 1 <= self.threshold <= _LARGEST:
            raise SettingError("threshold", "must be from 1 to 2**53 steps")
        columns = len(self.outputs)
        if len(self.weights) < 2 or any(len(row) != columns for row in self.weights):
            raise SettingError("weights", "must be at least two rows, as wide as the outputs")
        if len({sum(row) for row in self.weights}) != 1 or not 0 < self.total <= WORDS:
            raise SettingError("weights", "rows must have one total, of at most 2**32")
        if any(weight <= 0 for row in self.weights for weight in row):
            raise SettingError("weights", "must be greater than 0")
        if not all(abs(output) <= _LARGEST for output in self.outputs):
            raise SettingError("outputs", f"must be from {-_LARGEST:g} to {_LARGEST:g}")
        means = self.means
        if not all(low < high for low, high in pairwise(means)):
            raise SettingError("weights", "the means of the rows must grow")
        if not (means[0] <= -1 and means[-1] >= 1):
            raise SettingError("outputs", "the means of the rows must reach from -1 to 1")

    @classmethod
    def fitted(
        cls, threshold: int, weights: Sequence[Sequence[int]], outputs: Sequence[float]
    ) -> ValueQuestion:
        """With the outputs stretched such that the means reach just from −1 to 1."""
        rows = tuple(tuple(int(weight) for weight in row) for row in weights)
        reach = min(-_mean(rows[0], outputs), _mean(rows[-1], outputs))
        if not reach > 0:
            raise SettingError("weights", "the means of the rows must grow through 0")
        while True:
            stretched = tuple(output / reach for output in outputs)
            if min(-_mean(rows[0], stretched), _mean(rows[-1], stretched)) >= 1:
                return cls(threshold=threshold, weights=rows, outputs=stretched)
            reach = math.nextafter(reach, 0.0)  # the division rounded to the wrong side

    def at(self, threshold: int) -> ValueQuestion:
        """The same table for values cut at another threshold."""
        return replace(self, threshold=threshold)

    @property
    def reports(self) -> int:
        """One for each column."""
        return len(self.outputs)

    @property
    def total(self) -> int:
        """The sum of a row's weights."""
        return sum(self.weights[0])

    @cached_property
    def means(self) -> tuple[float, ...]:
        """What each row's reports are worth on average, on [−1, 1]."""
        return tuple(_mean(row, self.outputs) for row in self.weights)

    @cached_property
    def _squares(self) -> tuple[float, ...]:
        return tuple(
            _mean(row, [output * output for output in self.outputs]) for row in self.weights
        )

    def variance(self, x: FloatArray) -> FloatArray:
        """The exact variance of the output for values at x in [−1, 1]."""
        squares: FloatArray = np.interp(x, self.means, self._squares)
        return squares - np.square(x)

    def check(self, epsilon: Fraction) -> None:
        """Refuse unless largest ≤ e^ε·least in every column."""
        columns = zip(*self.weights, strict=True)
        check_loss(((min(column), max(column)) for column in columns), epsilon)

    def answer(self, value: int, words: Words) -> int:
        """A coin takes the row, a word below the total takes the column."""
        row, coin = self._place(min(max(value, 0), self.threshold))
        row += words() < coin
        word = drawn(self.total, words)
        for column, weight in enumerate(self.weights[row]):
            if word < weight:
                return column
            word -= weight
        raise AssertionError("a word below the total falls into some column")

    def _place(self, value: int) -> tuple[int, int]:
        x = 2 * value / self.threshold - 1
        means = self.means
        row = 0
        while row < len(means) - 2 and means[row + 1] <= x:
            row += 1
        fraction = (x - means[row]) / (means[row + 1] - means[row])
        return row, math.floor(fraction * WORDS)

    def _places(self, values: IntArray) -> tuple[IntArray, IntArray]:
        x = 2 * values / self.threshold - 1
        means, gaps, ends, first_rows = self._steps
        rows = first_rows[values * _SLOTS // (self.threshold + 1)]
        rows += x >= ends[rows]
        again = np.flatnonzero(x >= ends[rows])  # a slot with more than one end: rare
        while again.size:
            rows[again] += 1
            again = again[x[again] >= ends[rows[again]]]
        coins = np.floor((x - means[rows]) / gaps[rows] * WORDS).astype(np.int64)
        whole = coins >> WORD_BITS  # a coin that always falls on the next row is that row
        return rows + whole, coins - whole * WORDS

    @cached_property
    def _steps(self) -> tuple[FloatArray, FloatArray, FloatArray, IntArray]:
        """Means, their gaps, where a next row begins, and the row of the first value of a slot."""
        means = np.array(self.means)
        ends = np.append(means[1:-1], np.inf)
        starts = [-(-slot * (self.threshold + 1) // _SLOTS) for slot in range(_SLOTS)]
        x = 2 * np.array(starts) / self.threshold - 1
        return means, np.diff(means), ends, np.searchsorted(ends, x, side="right")

    @cached_property
    def _lookup(self) -> PackedArray:
        """The places of all values."""
        return packed(*self._places(np.arange(self.threshold + 1)))

    @cached_property
    def _guide(self) -> Guide:
        return Guide(self.weights)

    def answers(self, values: IntArray, words: WordSource) -> IntArray:
        """The same for many devices."""
        values = whole_steps(values)
        reports: IntArray = np.empty(values.size, dtype=np.int64)
        looked_up = self.threshold < min(_LOOKED_UP, values.size)
        for part in slices(values.size):
            first, second = word_pairs(part.stop - part.start, self.total, words)
            cut = np.clip(values[part], 0, self.threshold)
            places = self._lookup[cut] if looked_up else packed(*self._places(cut))
            rows, coins = halves(places)
            chosen = np.add(rows, first < coins, dtype=np.int64)
            self._guide.columns(chosen, second, reports[part])
        return reports

    @cached_property
    def decoded(self) -> FloatArray:
        """What each report is worth, in steps."""
        return (np.array(self.outputs) + 1) / 2 * self.threshold

    def plain(self) -> dict[str, Any]:
        """For a message."""
        return {
            "form": self.form,
            "threshold": self.threshold,
            "weights": [list(row) for row in self.weights],
            "outputs": list(self.outputs),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> ValueQuestion:
        """From a message."""
        rows, outputs = plain.get("weights"), plain.get("outputs")
        if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
            raise SettingError("weights", "must be a list of rows")
        if not isinstance(outputs, list) or len(rows) * len(outputs) > _MOST_CELLS:
            raise SettingError("outputs", f"must be a list, of at most {_MOST_CELLS} cells")
        if not all(_is_whole(weight) for row in rows for weight in row):
            raise SettingError("weights", "must be whole numbers")
        question = cls(
            threshold=whole_field(plain, "threshold", 1, 2**53),
            weights=tuple(tuple(row) for row in rows),
            outputs=tuple(number(output, "outputs", _LARGEST) for output in outputs),
        )
        if question.total < LEAST_TOTAL:
            raise SettingError("weights", "rows must add up to at least 2**24")
        return question


def _mean(row: Sequence[int], outputs: Sequence[float]) -> float:
    """Σ weight·output/total, added from left to right: the same bits in every client."""
    total = 0.0
    for weight, output in zip(row, outputs, strict=True):
        total += weight * output
    return total / sum(row)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
