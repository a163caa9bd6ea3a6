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
from tidegate.local.canonical_json import finite_json_number, whole_field
from tidegate.local.integer_weights import WORDS, check_weight_loss, drawn_weight
from tidegate.local.questions.question import (
    LEAST_TOTAL,
    Words,
    question_slices,
    question_word_halves,
    question_word_pairs,
    whole_steps_in_question,
)
from tidegate.local.questions.report_table_lookup import ColumnLookup, RowLookup
from tidegate.randomness import WordSource

MOST_CELLS = 1 << 15  # the largest table of `mechanisms` has half as many
LARGEST = 2.0**53


@dataclass(frozen=True, kw_only=True)
class ValueQuestion:
    """Reports a value, capped at `threshold` and at `lowest`, by a row of a table.

    The value is cut and mapped to x in [−1, 1], `lowest` to −1 and `threshold` to 1. Row i of the
    table stands for the mean of its reports, means[i] = Σ weight·output/total, computed from the
    weights as they are: so reports are unbiased whatever rounding they went through. x lies between
    two such means; a coin
    takes one of the two rows such that the mean is x (to 2⁻³² of their distance), and a second word
    draws a report from it. Decoded, a report is worth lowest + (output + 1)/2·span, where span is
    threshold − lowest.

    What is released: the number of a column. Every row gives it with probability weight/total; the
    coin only mixes rows. So it is ε-private as largest ≤ e^ε·least in every column, which
    `check` decides in integers. Which rows are mixed is decided in floats: accuracy, not privacy.

    Attributes:
        threshold: θ in steps.
        weights: one row for each mean, all with the same total of at most 2**32.
        outputs: what each column is worth on [−1, 1].
        lowest: in steps, at most 0: smaller values count as this.

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
    lowest: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.threshold <= LARGEST:
            raise SettingError("threshold", "must be from 1 to 2**53 steps")
        if self.lowest > 0 or self.span > LARGEST:
            raise SettingError("lowest", "must be at most 0, and 2**53 steps below the threshold")
        columns = len(self.outputs)
        if len(self.weights) < 2 or any(len(row) != columns for row in self.weights):
            raise SettingError("weights", "must be at least two rows, as wide as the outputs")
        if len({sum(row) for row in self.weights}) != 1 or not 0 < self.total <= WORDS:
            raise SettingError("weights", "rows must have one total, of at most 2**32")
        if min(map(min, self.weights)) <= 0:
            raise SettingError("weights", "must be greater than 0")
        if not all(abs(output) <= LARGEST for output in self.outputs):
            raise SettingError("outputs", f"must be from {-LARGEST:g} to {LARGEST:g}")
        means = self.means
        if not all(low < high for low, high in pairwise(means)):
            raise SettingError("weights", "the means of the rows must grow")
        if not (means[0] <= -1 and means[-1] >= 1):
            raise SettingError("outputs", "the means of the rows must reach from -1 to 1")

    @classmethod
    def fitted(
        cls, threshold: int, weights: Sequence[Sequence[int]], outputs: Sequence[float]
    ) -> ValueQuestion:
        """The question with outputs scaled such that the means range exactly from −1 to 1."""
        rows = tuple(tuple(int(weight) for weight in row) for row in weights)
        reach = min(
            -_mean_of_value_reports(rows[0], outputs), _mean_of_value_reports(rows[-1], outputs)
        )
        if not reach > 0:
            raise SettingError("weights", "the means of the rows must grow through 0")
        while True:
            stretched = tuple(output / reach for output in outputs)
            if (
                min(
                    -_mean_of_value_reports(rows[0], stretched),
                    _mean_of_value_reports(rows[-1], stretched),
                )
                >= 1
            ):
                return cls(threshold=threshold, weights=rows, outputs=stretched)
            reach = math.nextafter(reach, 0.0)  # the division rounded to the wrong side

    def at(self, threshold: int, lowest: int = 0) -> ValueQuestion:
        """The question with the same table, for other caps."""
        return replace(self, threshold=threshold, lowest=lowest)

    @property
    def span(self) -> int:
        """The distance between both caps, in steps."""
        return self.threshold - self.lowest

    @property
    def reports(self) -> int:
        """The number of different reports: one for each column."""
        return len(self.outputs)

    @property
    def total(self) -> int:
        """The sum of a row's weights."""
        return sum(self.weights[0])

    @cached_property
    def means(self) -> tuple[float, ...]:
        """The mean decoded report of each row, on [−1, 1]."""
        return tuple(_mean_of_value_reports(row, self.outputs) for row in self.weights)

    @cached_property
    def _squares(self) -> tuple[float, ...]:
        return tuple(
            _mean_of_value_reports(row, [output * output for output in self.outputs])
            for row in self.weights
        )

    def variance(self, x: FloatArray) -> FloatArray:
        """The exact variance of the output for values at x in [−1, 1]."""
        squares: FloatArray = np.interp(x, self.means, self._squares)
        return squares - np.square(x)

    @property
    def reach(self) -> tuple[float, float]:
        """The distances from 0 to both caps."""
        return -self.lowest, self.threshold

    def check(self, epsilon: Fraction) -> None:
        """Refuse unless largest ≤ e^ε·least in every column."""
        columns = zip(*self.weights, strict=True)
        check_weight_loss(((min(column), max(column)) for column in columns), epsilon)

    def answer(self, value: int, words: Words) -> int:
        """The report of one device: a coin chooses the row, a word below the total the column."""
        row, coin = self.place(min(max(value, self.lowest), self.threshold))
        row += words() < coin
        word = drawn_weight(self.total, words)
        for column, weight in enumerate(self.weights[row]):
            if word < weight:
                return column
            word -= weight
        raise AssertionError("a word below the total falls into some column")

    def place(self, value: int) -> tuple[int, int]:
        """The row below a value, and the probability, in 2**32nds, of the next row.

        The value is x = 2·(value − lowest)/span − 1, and the chance is such that the means of the
        two rows mix to x. In the same floats as `RowLookup` and other clients.
        """
        x = 2 * (value - self.lowest) / self.span - 1
        means = self.means
        row = 0
        while row < len(means) - 2 and means[row + 1] <= x:
            row += 1
        fraction = (x - means[row]) / (means[row + 1] - means[row])
        return row, math.floor(fraction * WORDS)

    @cached_property
    def _places(self) -> RowLookup:
        return RowLookup(self.means, self.span)

    @cached_property
    def _guide(self) -> ColumnLookup:
        return ColumnLookup(self.weights)

    def answers(self, values: IntArray, words: WordSource) -> IntArray:
        """The answers of many devices."""
        values = whole_steps_in_question(values)
        reports: IntArray = np.empty(values.size, dtype=np.int64)
        find = self._places.finder(values.size)
        for part in question_slices(values.size):
            first, second = question_word_pairs(part.stop - part.start, self.total, words)
            cut = np.clip(values[part], self.lowest, self.threshold)
            rows, coins = question_word_halves(find(cut - self.lowest if self.lowest else cut))
            chosen = np.add(rows, first < coins, dtype=np.int64)
            self._guide.columns(chosen, second, reports[part])
        return reports

    @cached_property
    def decoded(self) -> FloatArray:
        """The decoded value of each report, in steps."""
        return (np.array(self.outputs) + 1) / 2 * self.span + self.lowest

    def plain(self) -> dict[str, Any]:
        """The question as plain data for a message."""
        return {
            "form": self.form,
            **({"lowest": self.lowest} if self.lowest else {}),
            "threshold": self.threshold,
            "weights": [list(row) for row in self.weights],
            "outputs": list(self.outputs),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> ValueQuestion:
        """Parse the question from a message, strictly."""
        rows, outputs = plain.get("weights"), plain.get("outputs")
        if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
            raise SettingError("weights", "must be a list of rows")
        if not isinstance(outputs, list) or len(rows) * len(outputs) > MOST_CELLS:
            raise SettingError("outputs", f"must be a list, of at most {MOST_CELLS} cells")
        if not all(set(map(type, row)) <= {int} for row in rows):  # True is no number
            raise SettingError("weights", "must be whole numbers")
        question = cls(
            threshold=whole_field(plain, "threshold", 1, 2**53),
            weights=tuple(tuple(row) for row in rows),
            outputs=tuple(finite_json_number(output, "outputs", LARGEST) for output in outputs),
            lowest=whole_field(plain, "lowest", -(2**53), -1) if "lowest" in plain else 0,
        )
        if question.total < LEAST_TOTAL:
            raise SettingError("weights", "rows must add up to at least 2**24")
        return question


def _mean_of_value_reports(row: Sequence[int], outputs: Sequence[float]) -> float:
    """Σ weight·output/total, added from left to right: the same bits in every client."""
    total = 0.0
    for weight, output in zip(row, outputs, strict=True):
        total += weight * output
    return total / sum(row)
