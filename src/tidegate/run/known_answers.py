"""`KnownAnswers`: what follows from a pipeline and a public question, kept for the next who asks.

Keys of one pipeline ask the same again and again: how noise is keyed, which stage makes a choice.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

_MOST = 4096

Known = TypeVar("Known")


class KnownAnswers:
    """Answers by question; all are forgotten when there are too many."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, Any] = {}

    def of(self, question: Hashable, answer: Callable[[], Known]) -> Known:
        """What `answer` gives: it must follow from the pipeline and the question alone."""
        found = self._answers.get(question)
        if found is None:
            if len(self._answers) >= _MOST:
                self._answers.clear()
            found = self._answers[question] = answer()
        return cast("Known", found)
