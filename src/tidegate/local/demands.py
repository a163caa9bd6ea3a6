"""What a device allows to be asked: decided from the announcement alone, before it has a value."""

from __future__ import annotations

import math
from fractions import Fraction

from tidegate.errors import RefusedError
from tidegate.lattice import Lattice
from tidegate.local.messages import Announcement
from tidegate.local.questions import Question, TailQuestion, ValueQuestion, WaveQuestion

# A word below the total is drawn by trial: a smaller one could take for ever.
_COARSEST = 1 << 24


def check_announcement(asked: Announcement, epsilon: Fraction, lattice: Lattice) -> None:
    """Refuse what asks for more than `epsilon`, for values beyond the lattice, or cannot be drawn.

    The weights are checked in integers against the ε that is announced, and that against the
    device's own: who made the table need not be trusted.
    """
    if asked.epsilon > epsilon:
        raise RefusedError(
            f"the round asks for epsilon = {asked.epsilon}; this device gives at most {epsilon} at "
            "a time"
        )
    if asked.resolution != lattice.resolution:
        raise RefusedError(
            f"the round has resolution {asked.resolution}, this device {lattice.resolution}"
        )
    if asked.bound > lattice.bound or _reach(asked.question) > lattice.top:
        raise RefusedError(f"the round asks beyond the bound {lattice.bound}")
    _check_drawable(asked.question)
    asked.question.check(asked.epsilon)


def _reach(question: Question) -> float:
    if isinstance(question, ValueQuestion):
        return question.threshold
    if isinstance(question, WaveQuestion):
        return question.top
    if isinstance(question, TailQuestion):
        return max(question.level, question.dither)
    raise RefusedError("this device does not know this kind of question")


def _check_drawable(question: Question) -> None:
    """A table that fails for some values only would make their devices fall silent: a leak."""
    if isinstance(question, ValueQuestion | WaveQuestion) and question.total < _COARSEST:
        raise RefusedError(f"the weights of a question must add up to at least {_COARSEST}")
    if isinstance(question, ValueQuestion) and not all(map(math.isfinite, question.means)):
        raise RefusedError("the outputs of the question are too large")
