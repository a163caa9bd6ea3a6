"""What is asked when: a survey, then the stream, and from time to time a survey within it.

    survey │ stream, with the survey's last questions in between │ stream │ again, in between │ …
             └────────────────────── until then: `rest` ─────────────────┘

Nothing here looks at a value: which questions come next is a function of the tallies of earlier
rounds and of how many reports came in. A device answers the one question that it is asked, about
the tail or for its value, so asking again costs no value more than it costs anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidegate.local.questions import Question, ValueQuestion
from tidegate.local.survey import Decision, Survey, Tally

# From a threshold, in steps, to the question for values cut at it.
Reporter = Callable[[int], ValueQuestion]


@dataclass(frozen=True)
class Again:
    """The threshold is chosen again, for ever: what the stream was like is no longer believed.

    Attributes:
        survey: asked within the stream, from its first round on, each time as if it were new.
        rest: so many positions without questions come before it.
    """

    survey: Survey
    rest: int


@dataclass(frozen=True)
class Opening:
    """A round to open.

    Attributes:
        questions: in rotation.
        participants: so many reports close the round; None: it never closes.
        decision: what is known of the threshold.
    """

    questions: tuple[Question, ...]
    participants: int | None
    decision: Decision | None


@dataclass(frozen=True)
class Agenda:
    """Which round comes next.

    Attributes:
        survey: how the threshold is chosen first.
        reporter: the question for the values themselves.
        again: how it is chosen later on; None: not at all, the last round has no end.
    """

    survey: Survey
    reporter: Reporter
    again: Again | None = None

    def opening(
        self, tallies: Sequence[Tally], decision: Decision | None, *, repeated: bool
    ) -> Opening:
        """The round after these.

        Args:
            tallies: of the rounds of the survey that is going on, or has just ended.
            decision: the last one.
            repeated: whether it is a later survey: until it ends, the last decision stands.
        """
        survey = self.again.survey if repeated and self.again is not None else self.survey
        asked = survey.next_round(tallies)
        if asked is None or (asked.in_stream and not repeated):
            decided = survey.decide(tallies)
            if not (repeated and decision is not None and _still_good(decision, decided)):
                decision = decided
        if asked is not None and not asked.in_stream and not repeated:
            return Opening(asked.questions, asked.participants, None)
        assert decision is not None  # noqa: S101  # a first survey is decided before a later one
        value = self.reporter(decision.threshold)
        if asked is None:
            return Opening((value,), None if self.again is None else self.again.rest, decision)
        # A report first, so that there is one to stand for the device that is asked next.
        pairs = tuple(one for question in asked.questions for one in (value, question))
        return Opening(pairs, 2 * asked.participants, decision)


def _still_good(old: Decision, new: Decision) -> bool:
    """Whether the old threshold may be the best one for all that later answers say.

    Each survey alone errs. Where nothing has changed, following it would only add its error.
    """
    return new.low <= old.threshold <= new.high
