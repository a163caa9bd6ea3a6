"""What a device allows to be asked: decided from the announcement alone, before it has a value."""

from __future__ import annotations

from fractions import Fraction

from tidegate.errors import RefusedError, SettingError
from tidegate.lattice import Lattice
from tidegate.local.messages import Announcement
from tidegate.local.questions import Question, TailQuestion, ValueQuestion, WaveQuestion


def check_announcement(
    asked: Announcement, epsilon: Fraction, bound: Fraction, resolution: Fraction | None
) -> None:
    """Refuse what asks for more than `epsilon`, or about values beyond the bound.

    The weights are checked in integers against the ε that is announced, and that against the
    device's own: who made the table need not be trusted. (Tables that could not be drawn from, or
    only for some values, are no messages at all, see `questions`: a device that falls silent for
    some values would give them away.) A device without a resolution takes that of the round.
    """
    if asked.epsilon > epsilon:
        raise RefusedError(
            f"the round asks for epsilon = {asked.epsilon}; this device gives at most {epsilon} at "
            "a time"
        )
    if resolution is not None and asked.resolution != resolution:
        raise RefusedError(f"the round has resolution {asked.resolution}, this device {resolution}")
    try:
        lattice = Lattice(bound, asked.resolution)
    except SettingError:
        raise RefusedError(
            f"the round has resolution {asked.resolution}, which does not suit the bound {bound}"
        ) from None
    if asked.bound > bound or _reach(asked.question) > lattice.top:
        raise RefusedError(f"the round asks beyond the bound {bound}")
    asked.question.check(asked.epsilon)


def _reach(question: Question) -> float:
    if isinstance(question, ValueQuestion):
        return question.threshold
    if isinstance(question, WaveQuestion):
        return question.top
    if isinstance(question, TailQuestion):
        return max(question.level, question.dither)
    raise RefusedError("this device does not know this kind of question")
