"""One bit: is the value above a level?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from tidegate.errors import SettingError
from tidegate.lattice import IntArray
from tidegate.local.canonical_json import finite_json_number, whole_field
from tidegate.local.integer_weights import WORDS, check_weight_loss, coin_weights
from tidegate.local.questions.question import (
    MOST_STEPS,
    Words,
    question_slices,
    question_word_pairs,
    whole_steps_in_question,
)
from tidegate.randomness import WordSource

ABOVE, BELOW = "tail", "tail-below"  # the forms of a message
LARGEST = float(MOST_STEPS)


@dataclass(frozen=True, kw_only=True)
class TailQuestion:
    """Is value + dither·(U − ½) above `level`? Answered by randomized response.

    `below` asks about the other side of 0: −value in the place of the value.

    U is uniform and drawn by the device: without it, values on a coarse grid would show steps that
    a smooth tail does not have. It is drawn whatever the value is, so it only mixes the two rows.

    What is released: one bit. P(1) is truth/2**32 or lie/2**32, whatever U was: ε-private as
    truth ≤ e^ε·lie, which `check` decides in integers.

    Attributes:
        level: in steps of the resolution.
        dither: in steps; 0 for none.
        lie: the weight, of 2**32, of the false answer.
        below: whether −value is asked about.

    >>> question = TailQuestion.at(20.0, Fraction(1), dither=1.0)
    >>> question.check(Fraction(1))
    >>> lie = question.lie / 2**32
    >>> round(lie, 4)  # 1/(e + 1)
    0.2689
    """

    reports: ClassVar[int] = 2

    level: float
    dither: float
    lie: int
    below: bool = False

    def __post_init__(self) -> None:
        for name in ("level", "dither"):
            if not 0 <= getattr(self, name) <= LARGEST:
                raise SettingError(name, f"must be from 0 to {LARGEST:g}")
        if not 0 < self.lie <= WORDS // 2:
            raise SettingError("lie", "must be from 1 to 2**31: at most every other answer")

    @property
    def form(self) -> str:
        """The name in messages, which tells the side."""
        return BELOW if self.below else ABOVE

    @classmethod
    def at(
        cls, level: float, epsilon: Fraction, *, dither: float, below: bool = False
    ) -> TailQuestion:
        """The question with the least noise that `epsilon` allows."""
        return cls(level=level, dither=dither, lie=coin_weights(epsilon)[0], below=below)

    @property
    def reach(self) -> tuple[float, float]:
        """One side of 0, as far as the level or the dither."""
        steps = max(self.level, self.dither)
        return (steps, 0.0) if self.below else (0.0, steps)

    def check(self, epsilon: Fraction) -> None:
        """Refuse unless truth ≤ e^ε·lie."""
        truth = WORDS - self.lie
        check_weight_loss([(min(self.lie, truth), max(self.lie, truth))], epsilon)

    def answer(self, value: int, words: Words) -> int:
        """The report of one device: dither first, then the coin."""
        side = -value if self.below else value
        steps = min(max(side, 0), MOST_STEPS)  # an error would tell that a value is beyond floats
        dithered = steps + self.dither * (words() / WORDS - 0.5)
        lies = words() < self.lie
        return int((dithered > self.level) != lies)

    def answers(self, values: IntArray, words: WordSource) -> IntArray:
        """The answers of many devices."""
        values = whole_steps_in_question(values)
        reports: IntArray = np.empty(values.size, dtype=np.int64)
        for part in question_slices(values.size):
            first, second = question_word_pairs(part.stop - part.start, WORDS, words)
            dithered = first * (1 / WORDS)  # as exact as a division: a power of two
            dithered -= 0.5
            dithered *= self.dither
            # Clipped before the sign is changed: the least integer of 64 bits has no opposite.
            steps = np.clip(values[part], -MOST_STEPS, MOST_STEPS)
            dithered += np.maximum(-steps if self.below else steps, 0)
            reports[part] = (dithered > self.level) != (second < self.lie)
        return reports

    def share_above(self, ones: float, count: float) -> float:
        """The unbiased estimate of the share of (dithered) values above the level."""
        lie = self.lie / WORDS
        return (ones / count - lie) / (1 - 2 * lie)

    def plain(self) -> dict[str, Any]:
        """The question as plain data for a message."""
        return {"form": self.form, "level": self.level, "dither": self.dither, "lie": self.lie}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> TailQuestion:
        """Parse the question from a message, strictly."""
        return cls(
            level=finite_json_number(plain.get("level"), "level", LARGEST),
            dither=finite_json_number(plain.get("dither"), "dither", LARGEST),
            lie=whole_field(plain, "lie", 1, WORDS // 2),
            below=plain.get("form") == BELOW,
        )
