"""`KnownAnswers`: a cache of results that depend on a pipeline and a public question only.

Keys of one pipeline ask the same again and again: how noise is keyed, which stage makes a choice.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

_MOST = 4096

Known = TypeVar("Known")


class KnownAnswers:
    """A cache of results by question; it is emptied when it is full."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, Any] = {}

    def of(self, question: Hashable, answer: Callable[[], Known]) -> Known:
        """The cached result of `answer`, which may depend on pipeline and question only."""
        found = self._answers.get(question)
        if found is None:
            if len(self._answers) >= _MOST:
                self._answers.clear()
            found = self._answers[question] = answer()
        return cast("Known", found)
