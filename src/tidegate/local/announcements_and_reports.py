"""The messages of the local model: an announcement to devices, a report from each.

Plain JSON, read strictly (`wire`): a field that is missing, unknown, doubled or of another kind,
NaN, a text that is too long or another version is a `MessageError` that names the field, before
anything else happens. Numbers that must stay exact are text, "p" or "p/q"; the others are doubles,
for every reader: 3.0 is a whole number, and the same as 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol

from tidegate.errors import RefusedError, SettingError
from tidegate.exact_numbers import said
from tidegate.lattice import Lattice
from tidegate.local.canonical_json import (
    PHASES,
    VERSION,
    MessageError,
    canonical_digest,
    common_json_fields,
    exact_json_fraction,
    json_field,
    json_name,
    lower_json_fraction,
    naming_json_message,
    read_canonical_json,
    report_from_canonical_json,
    whole_field,
    written_json,
)
from tidegate.local.integer_weights import WORDS
from tidegate.local.questions import Question, TailQuestion, ValueQuestion, WaveQuestion
from tidegate.local.questions.tail_question import ABOVE, BELOW

__all__ = ["PHASES", "VERSION", "Announcement", "MessageError", "Report", "question_from_plain"]

_QUESTIONS: dict[str, type[TailQuestion | ValueQuestion | WaveQuestion]] = {
    ABOVE: TailQuestion,
    BELOW: TailQuestion,
    ValueQuestion.form: ValueQuestion,
    WaveQuestion.form: WaveQuestion,
}


@dataclass(frozen=True, kw_only=True)
class Announcement:
    """A question of a round, and the cost of answering it. Public, and the same for many devices.

    Attributes:
        round: an opaque name; a device answers a round once.
        phase: "threshold": the answers choose θ; "stream": they are the stream.
        epsilon: what an answer costs at most; devices check it by the question's weights.
        lower, bound, resolution: values are whole multiples of `resolution` from `lower` (0, unless
            the message says otherwise) to `bound`.
        slot: which of the round's questions this is.
        question: what is asked.

    >>> from tidegate.local.questions import TailQuestion
    >>> one = Fraction(1)
    >>> asked = Announcement(
    ...     round="r1",
    ...     phase="threshold",
    ...     epsilon=one,
    ...     bound=Fraction(100),
    ...     resolution=one,
    ...     slot=0,
    ...     question=TailQuestion.at(20.0, one, dither=1.0),
    ... )
    >>> Announcement.from_json(asked.json()) == asked
    True
    >>> Announcement.from_json(asked.json().replace('"r1"', "NaN"))
    Traceback (most recent call last):
        ...
    tidegate.local.canonical_json.MessageError: announcement: NaN and Infinity are no JSON
    """

    round: str
    phase: str
    epsilon: Fraction
    bound: Fraction
    resolution: Fraction
    slot: int
    question: Question
    lower: Fraction = Fraction(0)

    def plain(self) -> dict[str, Any]:
        """The announcement as plain data."""
        return {
            "tidegate": VERSION,
            "kind": "announcement",
            "round": self.round,
            "phase": self.phase,
            "epsilon": str(self.epsilon),
            **({"lower": str(self.lower)} if self.lower else {}),
            "bound": str(self.bound),
            "resolution": str(self.resolution),
            "slot": self.slot,
            "question": self.question.plain(),
        }

    def json(self) -> str:
        """The announcement as one line of text."""
        return written_json(self.plain())

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the whole announcement, by which a device recognises it."""
        return canonical_digest(self.plain())

    @classmethod
    def from_json(cls, text: str | bytes) -> Announcement:
        """Parse what `json()` returned; raises `MessageError`."""
        plain = read_canonical_json(text, "announcement", 9, optional="lower")
        with naming_json_message("announcement"):
            return cls(
                **common_json_fields(plain),
                lower=lower_json_fraction(plain, "lower"),
                bound=exact_json_fraction(plain, "bound"),
                resolution=exact_json_fraction(plain, "resolution"),
                question=_announced_question(json_field(plain, "question")),
            )

    def check_allowed(
        self,
        *,
        epsilon: Fraction,
        lower: Fraction,
        bound: Fraction,
        resolution: Fraction | None,
    ) -> None:
        """Refuse questions that cost more than `epsilon`, or ask about values beyond the bounds.

        The weights are checked in integers against the ε that is announced, and that against the
        device's own: who made the table need not be trusted. (Tables that could not be drawn from,
        or only for some values, are no messages at all, see `questions`: a device that falls silent
        for some values would give them away.) A device without a resolution takes the round's.
        """
        if self.epsilon > epsilon:
            raise RefusedError(
                f"the round asks for epsilon = {self.epsilon}; this device gives at most {epsilon} "
                "at a time"
            )
        if resolution is not None and self.resolution != resolution:
            raise RefusedError(
                f"the round has resolution {self.resolution}, this device {resolution}"
            )
        try:
            lattice = Lattice(bound, self.resolution, lower)
        except SettingError:
            raise RefusedError(
                f"the round has resolution {self.resolution}, which does not suit the bound {bound}"
            ) from None
        below, above = self.question.reach
        if self.bound > bound or above > lattice.top:
            raise RefusedError(f"the round asks beyond the bound {said(bound)}")
        if self.lower < lower or below > lattice.bottom:
            raise RefusedError(
                f"the round asks below {said(lower)}, the least value of this device"
            )
        self.question.check(self.epsilon)


class AskedQuestion(Protocol):
    """The question of a slot: an announcement, or a place in a rotation."""

    @property
    def question(self) -> Question:
        """The question itself."""

    @property
    def phase(self) -> str:
        """The purpose of the question."""

    @property
    def epsilon(self) -> Fraction:
        """The cost of an answer."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """A device's answer to an announcement.

    Attributes:
        round, phase, epsilon, slot: those of the announcement.
        client: who answers: one report is taken per client and round.
        report: the answer, a number from 0 to the question's `reports` − 1.

    >>> text = '''{"tidegate": 1, "kind": "report", "round": "r1", "phase": "stream",
    ...     "epsilon": "1/2", "slot": 0, "client": "5f", "report": 3}'''
    >>> Report.from_json(text).epsilon
    Fraction(1, 2)
    >>> Report.from_json(text.replace("3}", "3.5}"))
    Traceback (most recent call last):
        ...
    tidegate.local.canonical_json.MessageError: report: report: must be a whole number from 0 to ...
    """

    round: str
    phase: str
    epsilon: Fraction
    slot: int
    client: str
    report: int

    def plain(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "tidegate": VERSION,
            "kind": "report",
            "round": self.round,
            "phase": self.phase,
            "epsilon": str(self.epsilon),
            "slot": self.slot,
            "client": self.client,
            "report": self.report,
        }

    def json(self) -> str:
        """The report as one line of text."""
        return written_json(self.plain())

    @classmethod
    def from_json(cls, text: str | bytes) -> Report:
        """Parse what `json()` returned; raises `MessageError`."""
        if (fields := report_from_canonical_json(text, WORDS)) is not None:
            return cls(**fields)
        plain = read_canonical_json(text, "report", 8)
        with naming_json_message("report"):
            return cls(
                **common_json_fields(plain),
                client=json_name(plain, "client"),
                report=whole_field(plain, "report", 0, WORDS - 1),
            )

    def problem(self, announced: Sequence[Announcement]) -> str | None:
        """The reason (`report_checks.REASONS`) why this report answers none of these, or None.

        `announced` are the announcements of the open round, in the order of their slots.
        """
        if self.round != announced[0].round:
            return "round"
        if not 0 <= self.slot < len(announced):
            return "slot"
        return self.problem_with(announced[self.slot])

    def problem_with(self, asked: AskedQuestion) -> str | None:
        """The reason why this report does not answer the question of its slot, or None."""
        if not 0 <= self.report < asked.question.reports:
            return "domain"
        if self.phase != asked.phase:
            return "phase"
        return None if self.epsilon == asked.epsilon else "epsilon"


def parsed_report(message: Report | str | bytes) -> Report | str:
    """The strictly parsed report, or the reason to reject it. Needs no lock: it reads no state."""
    try:
        return Report.from_json(message.json() if isinstance(message, Report) else message)
    except MessageError as error:
        return error.reason


def question_from_plain(plain: object) -> Question:
    """The question from what `plain()` returned; an error names a malformed field."""
    if not isinstance(plain, Mapping):
        raise SettingError("question", "must be an object")
    read: Mapping[str, Any] = plain
    form = read.get("form")
    if not isinstance(form, str) or form not in _QUESTIONS:
        raise SettingError("question", f"its form must be one of {', '.join(sorted(_QUESTIONS))}")
    return _QUESTIONS[form].from_plain(read)


def _announced_question(plain: Any) -> Question:
    question = question_from_plain(plain)
    if set(plain) != set(question.plain()):
        raise SettingError("question", "has fields that do not belong to it")
    return question
