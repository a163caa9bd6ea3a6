"""A survey: rounds of questions, tallies of reports, and a decision about the threshold.

A survey is public and has no state: which round comes next and what is decided are functions of
the tallies of the rounds before. So whoever knows the tallies can check every step, and a server
that was killed asks the same questions again.

Privacy: a device answers one question about one value. The questions of a round depend on earlier
rounds' reports and on nothing else (sequentially interactive), and the place of a device in the
rotation is its place in the queue, never its value. Every question costs at most the ε that it is
checked against, so every value is ε-private, whatever is made of the reports later.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from tidegate.errors import SettingError
from tidegate.local.announcements_and_reports import question_from_plain
from tidegate.local.canonical_json import finite_json_number, whole_field, whole_json_number
from tidegate.local.questions import Question

# The posterior range of the threshold within which data, not the prior, chose it.
TRUSTED_SPAN = 4.0
# The most reports, positions or steps in a state file: larger numbers are not exact as floats.
MOST = 1 << 53


@dataclass(frozen=True, kw_only=True)
class SurveyRound:
    """Questions in strict rotation, until `participants` devices have answered.

    Attributes:
        questions: none of them asks for the value itself. None at all: a part of the stream in
            which everybody reports, until `participants` have.
        participants: how many answers close the round.
        in_stream: asked during the stream: others report in between.
        reports: how many devices report for one that is asked in the stream.
        copies: how many positions a report stands for, in a part without questions.
    """

    questions: tuple[Question, ...]
    participants: int
    in_stream: bool = False
    reports: int = 1
    copies: int = 1


@dataclass(frozen=True, kw_only=True)
class SurveyTally:
    """The result of a round: `counts[slot][report]` devices gave that report to that question.

    It is empty for a part of the stream without questions.
    """

    questions: tuple[Question, ...]
    counts: tuple[tuple[int, ...], ...]

    def plain(self) -> dict[str, Any]:
        """The tally as plain data, for a state file."""
        return {
            "questions": [question.plain() for question in self.questions],
            "counts": [list(row) for row in self.counts],
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> SurveyTally:
        """The tally from a state file."""
        questions = tuple(question_from_plain(one) for one in plain["questions"])
        return cls(questions=questions, counts=survey_counts_of(plain["counts"], questions))


def survey_counts_of(rows: Any, questions: Sequence[Question]) -> tuple[tuple[int, ...], ...]:
    """Rows of a state file: how often each report to each question was given."""
    if [len(row) for row in rows] != [question.reports for question in questions]:
        raise SettingError("counts", "must have one number for every report of every question")
    return tuple(tuple(whole_json_number(one, "counts", 0, MOST) for one in row) for row in rows)


@dataclass(frozen=True, kw_only=True)
class SurveyDecision:
    """A threshold and the facts known about it, in steps of the resolution.

    Attributes:
        threshold: values are cut at this.
        offset: what truncation is expected to take from a value; added to every report.
        low, high: the 90 % posterior range of the best threshold.
        below: the same for the values below 0, as if they were positive; None: there are none.
    """

    threshold: int
    offset: float = 0.0
    low: float
    high: float
    below: SurveyDecision | None = None

    @property
    def lowest(self) -> int:
        """The lower cap: 0, or below it."""
        return 0 if self.below is None else -self.below.threshold

    @property
    def added(self) -> float:
        """What is added to every report: the expected loss at both caps."""
        return self.offset - (0.0 if self.below is None else self.below.offset)

    @property
    def mostly_prior(self) -> bool:
        """Whether the reports leave the best threshold uncertain by more than a factor of 4.

        On the side that decides about the noise, if there are two.
        """
        if self.below is not None and self.below.threshold > self.threshold:
            return self.below.mostly_prior
        return self.high > TRUSTED_SPAN * self.low

    def plain(self) -> dict[str, Any]:
        """The decision as plain data, for a state file."""
        names = ("threshold", "offset", "low", "high")
        plain = {name: getattr(self, name) for name in names}
        return plain if self.below is None else {**plain, "below": self.below.plain()}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> SurveyDecision:
        """The decision from a state file."""
        low, high = (finite_json_number(plain[name], name, math.inf) for name in ("low", "high"))
        return cls(
            threshold=whole_field(plain, "threshold", 1, MOST),
            offset=finite_json_number(plain["offset"], "offset", float(MOST)),
            low=low,
            high=high,
            below=cls.from_plain(plain["below"]) if "below" in plain else None,
        )


class Survey(Protocol):
    """The server's side of choosing a threshold."""

    def next_round(self, tallies: Sequence[SurveyTally]) -> SurveyRound | None:
        """The questions that follow these rounds; None if there are enough answers.

        Rounds in the stream come after all others: a decision is made before the first of them.
        """
        ...

    def decide(self, tallies: Sequence[SurveyTally]) -> SurveyDecision:
        """The threshold, from these rounds."""
        ...


@dataclass(frozen=True)
class GivenThresholdSurvey:
    """No survey: the thresholds are given; `lowest` is the lower cap.

    >>> GivenThresholdSurvey(21).next_round([]), GivenThresholdSurvey(21).decide([]).threshold
    (None, 21)
    """

    threshold: int
    lowest: int = 0

    def next_round(self, tallies: Sequence[SurveyTally]) -> SurveyRound | None:
        """None: there is nothing to ask."""
        return None

    def decide(self, tallies: Sequence[SurveyTally]) -> SurveyDecision:
        """The given thresholds."""
        given = SurveyDecision(threshold=self.threshold, low=self.threshold, high=self.threshold)
        if not self.lowest:
            return given
        reach = -self.lowest
        return replace(given, below=SurveyDecision(threshold=reach, low=reach, high=reach))
