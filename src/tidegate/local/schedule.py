"""Which round comes next: a survey, then the stream, and from time to time a survey within it.

    survey │ stream, with the survey's last questions in between │ stream │ survey in between │ …
             └───────────── `rest` positions without questions ──────────┘

Nothing here looks at a value: the next round is a function of the tallies of earlier rounds and of
how many reports came in. A device answers the one question that it is asked, about the tail or for
its value, so a second survey costs no value more than it costs anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tidegate.local.questions import Question, ValueQuestion
from tidegate.local.survey import Decision, Round, Survey, Tally

# From a threshold, in steps, to the question for values cut at it.
Reporter = Callable[[int], ValueQuestion]


@dataclass(frozen=True)
class Repetition:
    """The threshold is chosen again and again, since the stream may have changed.

    Attributes:
        survey: asked within the stream, from its first round on, each time as if it were new.
        rest: how many positions without questions come before it.
    """

    survey: Survey
    rest: int


@dataclass(frozen=True)
class Opening:
    """A round to open.

    Attributes:
        questions: asked in rotation.
        participants: this many reports close the round; None: it never closes.
        decision: the threshold that holds in it; None: none is chosen yet.
        copies: how many positions a report stands for.
    """

    questions: tuple[Question, ...]
    participants: int | None
    decision: Decision | None
    copies: int = 1


@dataclass(frozen=True)
class Schedule:
    """Which round comes next.

    Attributes:
        survey: how the threshold is chosen first.
        reporter: the question for the values themselves.
        again: how it is chosen later on; None: never, the last round has no end.
    """

    survey: Survey
    reporter: Reporter
    again: Repetition | None = None

    def complete(self, tallies: Sequence[Tally], *, repeated: bool) -> bool:
        """Whether the present survey has asked all that it wanted to."""
        survey = self.again.survey if repeated and self.again is not None else self.survey
        return survey.next_round(tallies) is None

    def opening(
        self, tallies: Sequence[Tally], decision: Decision | None, *, repeated: bool
    ) -> Opening:
        """The round after these.

        Args:
            tallies: of the rounds of the present survey.
            decision: the last one.
            repeated: whether this is a later survey.
        """
        survey = self.again.survey if repeated and self.again is not None else self.survey
        asked = survey.next_round(tallies)
        if asked is not None and not asked.in_stream and not repeated:
            return Opening(asked.questions, asked.participants, None)  # before the stream
        if not repeated:  # decided anew after each round of the first survey
            standing = survey.decide(tallies)
        elif asked is None:  # a later survey decides at its end
            standing = _revised(decision, survey.decide(tallies))
        else:
            standing = _chosen(decision)
        value = self.reporter(standing.threshold).at(standing.threshold, standing.lowest)
        if asked is None:
            rest = None if self.again is None else self.again.rest
            return Opening((value,), rest, standing)
        if not asked.questions:
            return Opening((value,), asked.participants, standing, asked.copies)
        positions = (asked.reports + 1) * asked.participants
        return Opening(_in_turns(value, asked), positions, standing)


def _in_turns(value: ValueQuestion, asked: Round) -> tuple[Question, ...]:
    """Each question of a survey after questions for the value.

    In this order every device that is asked otherwise has a report before it that stands for it.
    """
    return tuple(
        one for question in asked.questions for one in (*[value] * asked.reports, question)
    )


def _revised(old: Decision | None, new: Decision) -> Decision:
    """The new decision, unless the old threshold lies in its interval; for each side of 0.

    Each survey alone errs. Where nothing has changed, following it would only add its error.
    """
    if old is None:
        return new
    kept = old if new.low <= old.threshold <= new.high else new
    if new.below is None or kept.below is None:
        return kept
    return replace(kept, below=_revised(old.below, new.below))


def _chosen(decision: Decision | None) -> Decision:
    if decision is None:
        raise AssertionError("a first survey is decided before a later one begins")
    return decision
