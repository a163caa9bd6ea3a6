"""What all questions have in common, and the words that answer them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol

from tidegate.lattice import IntArray
from tidegate.randomness import WordSource

# A device throws words away until one is below the total. A message with a total below this could
# keep it busy for ever: refused.
LEAST_TOTAL = 1 << 24

# The next uniform word of 32 bits.
Words = Callable[[], int]


class Question(Protocol):
    """A public question to one device."""

    @property
    def form(self) -> str:
        """Its name in messages."""
        ...

    @property
    def reports(self) -> int:
        """How many different reports there are: 0, 1, …, reports − 1."""
        ...

    @property
    def reach(self) -> tuple[float, float]:
        """How many steps below and above 0 it speaks of."""
        ...

    def check(self, epsilon: Fraction) -> None:
        """Refuse (`RefusedError`) unless one answer costs at most `epsilon`, by the weights."""
        ...

    def answer(self, value: int, words: Words) -> int:
        """The report of one device whose value is `value` steps."""
        ...

    def answers(self, values: IntArray, words: WordSource) -> IntArray:
        """The reports of many devices, each with words of its own."""
        ...

    def plain(self) -> dict[str, Any]:
        """Plain data for a message; `messages.question_from_plain` reads it."""
        ...
