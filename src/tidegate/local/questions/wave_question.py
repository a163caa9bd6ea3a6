"""Square Wave: a report near the value is likelier than one elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from tidegate.errors import SettingError
from tidegate.lattice import IntArray
from tidegate.local.canonical_json import whole_field
from tidegate.local.integer_weights import WORDS, check_weight_loss, drawn_weight
from tidegate.local.questions.question import (
    LEAST_TOTAL,
    Words,
    question_slices,
    question_word_pairs,
    whole_steps_in_question,
)
from tidegate.randomness import WordSource

MOST_STEPS = 1 << 37  # times the number of bins, exact as a float: what a browser computes with
MOST_BINS = 1 << 16


@dataclass(frozen=True, kw_only=True)
class WaveQuestion:
    """Reports the value's bin as one of bins + 2·half cells.

    A value of v steps of 0…top lies in bin ⌊v·bins/(top+1)⌋. Its cell i + half is the middle of
    a plateau of 2·half + 1 cells of weight `high`; every other cell has weight `low`. All rows have
    the same total, so the ratio of probabilities is high/low: ε-private as high ≤ e^ε·low.

    Attributes:
        top: the largest value, in steps.
        bins: how many bins 0…top is cut into.
        half: cells on either side of the middle of the plateau.
        high: weight of a cell in the plateau.
        low: weight of any other cell.
    """

    form: ClassVar[str] = "wave"

    top: int
    bins: int
    half: int
    high: int
    low: int

    def __post_init__(self) -> None:
        if not 0 < self.top <= MOST_STEPS or not 0 < self.bins <= MOST_BINS or self.half < 0:
            raise SettingError("bins", "top, bins or half is out of range")
        if not 0 < self.low <= self.high or self.total > WORDS:
            raise SettingError("high", "weights must be positive, high ≥ low, and fit 32 bits")

    @property
    def reports(self) -> int:
        """The number of cells."""
        return self.bins + 2 * self.half

    @property
    def total(self) -> int:
        """The sum of a row's weights."""
        return (2 * self.half + 1) * self.high + (self.bins - 1) * self.low

    @property
    def reach(self) -> tuple[float, float]:
        """0 below 0: it covers no negative value."""
        return 0.0, self.top

    def check(self, epsilon: Fraction) -> None:
        """Refuse unless high ≤ e^ε·low."""
        check_weight_loss([(self.low, self.high)], epsilon)

    def answer(self, value: int, words: Words) -> int:
        """The report of one device: one word below the total chooses the cell."""
        start = min(max(value, 0), self.top) * self.bins // (self.top + 1)
        word = drawn_weight(self.total, words)
        before, plateau = start * self.low, (2 * self.half + 1) * self.high
        if word < before:
            return word // self.low
        if word < before + plateau:
            return start + (word - before) // self.high
        return start + 2 * self.half + 1 + (word - before - plateau) // self.low

    def answers(self, values: IntArray, words: WordSource) -> IntArray:
        """The answers of many devices."""
        values = whole_steps_in_question(values)
        reports: IntArray = np.empty(values.size, dtype=np.int64)
        width = 2 * self.half + 1
        plateau = width * self.high
        for part in question_slices(values.size):
            _, second = question_word_pairs(part.stop - part.start, self.total, words)
            start = np.clip(values[part], 0, self.top)
            start *= self.bins
            start //= self.top + 1
            past = second - start * self.low  # how far beyond the cells before the plateau
            after = past >= plateau
            # Before and after it, cells of weight `low`; the plateau is skipped by those after.
            outside = second - after * plateau
            outside //= self.low
            outside += after * width
            inside = past // self.high
            inside += start
            reports[part] = np.where((past < 0) | after, outside, inside)
        return reports

    def plain(self) -> dict[str, Any]:
        """The question as plain data for a message."""
        names = ("top", "bins", "half", "high", "low")
        return {"form": self.form, **{name: getattr(self, name) for name in names}}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> WaveQuestion:
        """Parse the question from a message."""
        question = cls(
            top=whole_field(plain, "top", 1, MOST_STEPS),
            bins=whole_field(plain, "bins", 1, MOST_BINS),
            half=whole_field(plain, "half", 0, MOST_BINS),
            high=whole_field(plain, "high", 1, WORDS),
            low=whole_field(plain, "low", 1, WORDS),
        )
        if question.total < LEAST_TOTAL:
            raise SettingError("high", "the weights must add up to at least 2**24")
        return question
