"""`RoundSchedule`: which round comes next: a survey, the stream, or a survey within the stream.

    survey │ stream, with the survey's last questions in between │ stream │ survey in between │ …
             └───────────── `rest` positions without questions ──────────┘

Nothing here looks at a value: the next round is a function of the tallies of earlier rounds and of
how many reports came in. A device answers the one question that it is asked, about the tail or for
its value, so a second survey costs no value more than it costs anyway.

It is also decided here which surveys a specification asks for, and which fleets are too small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from tidegate.errors import SettingError
from tidegate.local.canonical_json import exact_json_fraction
from tidegate.local.questions import Question, ValueQuestion
from tidegate.local.report_variance import expected_variance
from tidegate.local.square_wave_survey import Objective, SquareWaveSurvey
from tidegate.local.survey import (
    GivenThresholdSurvey,
    Survey,
    SurveyDecision,
    SurveyRound,
    SurveyTally,
)
from tidegate.local.tail.survey_size import (
    PlannedSurvey,
    growing_survey,
    halved_survey,
    least_survey_fleet,
    survey_of_hold_out,
    survey_size,
)
from tidegate.local.tail.tail_survey import TailSurvey, TwoSidedTailSurvey

if TYPE_CHECKING:
    from tidegate.local.topl import Topl

# From a threshold, in steps, to the question for values cut at it.
Reporter = Callable[[int], ValueQuestion]


@dataclass(frozen=True)
class RoundRepetition:
    """The settings for choosing the threshold again, since the stream may have changed.

    Attributes:
        survey: asked within the stream, from its first round on, each time as if it were new.
        rest: how many positions without questions come before it.
    """

    survey: Survey
    rest: int


@dataclass(frozen=True)
class RoundOpening:
    """The next round to open.

    Attributes:
        questions: asked in rotation.
        participants: this many reports close the round; None: it never closes.
        decision: the threshold that holds in it; None: none is chosen yet.
        copies: how many positions a report stands for.
    """

    questions: tuple[Question, ...]
    participants: int | None
    decision: SurveyDecision | None
    copies: int = 1


@dataclass(frozen=True)
class RoundSchedule:
    """Decides which round comes next.

    Attributes:
        survey: how the threshold is chosen first.
        reporter: the question for the values themselves.
        again: how it is chosen later on; None: never, the last round has no end.
    """

    survey: Survey
    reporter: Reporter
    again: RoundRepetition | None = None

    def complete(self, tallies: Sequence[SurveyTally], *, repeated: bool) -> bool:
        """Whether the present survey has all its answers."""
        survey = self.again.survey if repeated and self.again is not None else self.survey
        return survey.next_round(tallies) is None

    def opening(
        self, tallies: Sequence[SurveyTally], decision: SurveyDecision | None, *, repeated: bool
    ) -> RoundOpening:
        """The round that follows these.

        Args:
            tallies: of the rounds of the present survey.
            decision: the last one.
            repeated: whether this is a later survey.
        """
        survey = self.again.survey if repeated and self.again is not None else self.survey
        asked = survey.next_round(tallies)
        if asked is not None and not asked.in_stream and not repeated:
            return RoundOpening(asked.questions, asked.participants, None)  # before the stream
        if not repeated:  # decided anew after each round of the first survey
            standing = survey.decide(tallies)
        elif asked is None:  # a later survey decides at its end
            standing = _revised_round(decision, survey.decide(tallies))
        else:
            standing = _chosen_by_schedule(decision)
        value = self.reporter(standing.threshold).at(standing.threshold, standing.lowest)
        if asked is None:
            rest = None if self.again is None else self.again.rest
            return RoundOpening((value,), rest, standing)
        if not asked.questions:
            return RoundOpening((value,), asked.participants, standing, asked.copies)
        positions = (asked.reports + 1) * asked.participants
        return RoundOpening(_rounds_in_turns(value, asked), positions, standing)


def _rounds_in_turns(value: ValueQuestion, asked: SurveyRound) -> tuple[Question, ...]:
    """Mix the questions of a survey into questions for values.

    In this order every device that is asked otherwise has a report before it that stands for it.
    """
    return tuple(
        one for question in asked.questions for one in (*[value] * asked.reports, question)
    )


def _revised_round(old: SurveyDecision | None, new: SurveyDecision) -> SurveyDecision:
    """The new decision, unless the old threshold lies in its interval; for each side of 0.

    Each survey alone errs. Where nothing has changed, following it would only add its error.
    """
    if old is None:
        return new
    kept = old if new.low <= old.threshold <= new.high else new
    if new.below is None or kept.below is None:
        return kept
    return replace(kept, below=_revised_round(old.below, new.below))


def _chosen_by_schedule(decision: SurveyDecision | None) -> SurveyDecision:
    if decision is None:
        raise AssertionError("a first survey is decided before a later one begins")
    return decision


ADAPTIVE, PUBLISHED, AUTHORS = "adaptive", "published", "published-authors"
PERCENTILE = "percentile"
_OBJECTIVES = {
    PUBLISHED: Objective.CORRECTED,
    AUTHORS: Objective.AUTHORS,
    PERCENTILE: Objective.PERCENTILE,
}
_PUBLISHED_HOLDOUT = 65_536  # the paper's
_PERIOD = 16  # a later survey asks one device in 16
# Suggested where a fleet is too small for what it may spend.
_EPSILONS = tuple(Fraction(one) for one in ("1/5", "1/2", "1", "2", "4"))


def first_scheduled_survey(topl: Topl) -> Survey:
    """The survey that chooses the first threshold."""
    if topl.threshold is not None:
        steps = max(1, round(topl.threshold / topl.resolution))
        return GivenThresholdSurvey(steps, -min(steps, topl.lattice.bottom))
    if topl.scheme != ADAPTIVE:
        return SquareWaveSurvey(
            epsilon=topl.survey_epsilon,
            stream_epsilon=topl.epsilon,
            top=topl.lattice.top,
            holdout=asked_in_first_round(topl),
            horizon=topl.horizon,
            objective=_OBJECTIVES[topl.scheme],
            smoothing=topl.smoothing,
        )
    if topl.holdout is None:
        size = asked_in_first_round(topl)
        return _asking_in_round(
            topl, growing_survey(size, topl.horizon, topl.fleet, keep_asking=topl.keep_asking)
        )
    # Every second device of the first eighth of the horizon.
    in_stream = topl.horizon // 16 if topl.keep_asking else 0
    return _asking_in_round(topl, survey_of_hold_out(topl.holdout, in_stream, topl.horizon))


def later_scheduled_surveys(topl: Topl) -> RoundRepetition | None:
    """The surveys that choose the threshold again. None: it stays."""
    if not topl.keep_asking or topl.scheme != ADAPTIVE or topl.threshold is not None:
        return None
    period = max(topl.horizon, _PERIOD * asked_in_first_round(topl))
    asked = period // _PERIOD
    # From one survey's beginning to the next one's; only the first is of another size.
    return RoundRepetition(
        _asking_in_round(topl, survey_of_hold_out(asked, 0, topl.horizon)), period - 2 * asked
    )


def asked_in_first_round(topl: Topl) -> int:
    """How many devices answer about the threshold before the stream begins."""
    if topl.holdout is not None:
        return topl.holdout
    if topl.scheme != ADAPTIVE:
        return _PUBLISHED_HOLDOUT
    return survey_size(topl.survey_epsilon, topl.fleet, sides=2 if topl.lower else 1)


def refuse_hopeless_rounds(topl: Topl) -> None:
    """Refuse a fleet that is too small for any answer, judged by public settings."""
    if topl.fleet is None:
        return
    needed = least_survey_fleet(topl.epsilon, topl.survey_epsilon)
    if topl.fleet < needed:
        enough = next(
            (one for one in _EPSILONS if least_survey_fleet(one, one) <= topl.fleet), _EPSILONS[-1]
        )
        raise SettingError(
            "fleet",
            f"{topl.fleet:,} reports at epsilon = {float(topl.epsilon):g} cannot give a useful "
            f"sum, whatever the values are: {needed:,} are needed, or epsilon = "
            f"{float(enough):g} with at least {least_survey_fleet(enough, enough):,}",
        )


def check_round_is_announceable(topl: Topl) -> None:
    """Refuse numbers with too many digits for the parser of announcements."""
    for name in ("epsilon", "threshold_epsilon", "bound", "resolution"):
        if getattr(topl, name) is not None:
            exact_json_fraction({name: str(getattr(topl, name))}, name)


def _asking_in_round(topl: Topl, rounds: tuple[PlannedSurvey, ...]) -> Survey:
    """One-bit questions about the tail, on both sides of 0 if values may be negative."""
    above = TailSurvey(
        epsilon=topl.survey_epsilon,
        stream_epsilon=topl.epsilon,
        variance=expected_variance(topl.question(1), both_sides=bool(topl.lower)),
        top=topl.lattice.top,
        rounds=rounds,
        relocate=topl.holdout is None or bool(topl.lower),
    )
    if not topl.lower:
        return above
    halves = tuple(halved_survey(planned) for planned in rounds)
    above = replace(above, rounds=halves, partial=True)
    return TwoSidedTailSurvey(above, replace(above, top=topl.lattice.bottom))
