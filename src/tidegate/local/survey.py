"""How a server chooses a threshold: rounds of questions, tallies of reports, a decision.

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
from dataclasses import dataclass
from typing import Any, Protocol

from tidegate.errors import SettingError
from tidegate.local.messages import question_from_plain
from tidegate.local.questions import Question
from tidegate.local.wire import number, whole_field, whole_number

# The posterior range of the threshold within which data, not the prior, chose it.
TRUSTED_SPAN = 4.0
# Of reports, positions or steps in a state file: beyond, they would not be exact as floats.
MOST = 1 << 53


@dataclass(frozen=True, kw_only=True)
class Round:
    """Questions to ask in strict rotation, until `participants` devices have answered.

    Attributes:
        questions: none of them asks for the value itself.
        participants: how many answers close the round.
        in_stream: asked during the stream: every second device answers, the others report.
    """

    questions: tuple[Question, ...]
    participants: int
    in_stream: bool = False


@dataclass(frozen=True, kw_only=True)
class Tally:
    """The result of a round: `counts[slot][report]` devices gave that report to that question."""

    questions: tuple[Question, ...]
    counts: tuple[tuple[int, ...], ...]

    def plain(self) -> dict[str, Any]:
        """For a state file."""
        return {
            "questions": [question.plain() for question in self.questions],
            "counts": [list(row) for row in self.counts],
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Tally:
        """From a state file."""
        questions = tuple(question_from_plain(one) for one in plain["questions"])
        return cls(questions=questions, counts=counts_of(plain["counts"], questions))


def counts_of(rows: Any, questions: Sequence[Question]) -> tuple[tuple[int, ...], ...]:
    """Rows of a state file: how often each report to each of these questions was given."""
    if [len(row) for row in rows] != [question.reports for question in questions]:
        raise SettingError("counts", "must have one number for every report of every question")
    return tuple(tuple(whole_number(one, "counts", 0, MOST) for one in row) for row in rows)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A threshold, and what is known about it; all in steps of the resolution.

    Attributes:
        threshold: values are cut at this.
        offset: what truncation is expected to take from a value; added to every report.
        low, high: the 90 % posterior range of the best threshold.
    """

    threshold: int
    offset: float = 0.0
    low: float
    high: float

    @property
    def mostly_prior(self) -> bool:
        """Whether the reports left the best threshold open by more than a factor of 4."""
        return self.high > TRUSTED_SPAN * self.low

    def plain(self) -> dict[str, Any]:
        """For a state file."""
        names = ("threshold", "offset", "low", "high")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Decision:
        """From a state file."""
        low, high = (number(plain[name], name, math.inf) for name in ("low", "high"))
        return cls(
            threshold=whole_field(plain, "threshold", 1, MOST),
            offset=number(plain["offset"], "offset", float(MOST)),
            low=low,
            high=high,
        )


class Survey(Protocol):
    """The server's side of choosing a threshold."""

    def next_round(self, tallies: Sequence[Tally]) -> Round | None:
        """What to ask after these rounds; None if enough was asked.

        Rounds in the stream come after all others: a decision is made before the first of them.
        """
        ...

    def decide(self, tallies: Sequence[Tally]) -> Decision:
        """The threshold, given these rounds."""
        ...


@dataclass(frozen=True)
class Given:
    """No survey: the threshold is given.

    >>> Given(21).next_round([]), Given(21).decide([]).threshold
    (None, 21)
    """

    threshold: int

    def next_round(self, tallies: Sequence[Tally]) -> Round | None:
        """Nothing to ask."""
        return None

    def decide(self, tallies: Sequence[Tally]) -> Decision:
        """What was given."""
        return Decision(threshold=self.threshold, low=self.threshold, high=self.threshold)
