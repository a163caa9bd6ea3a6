"""The default survey: one-bit questions about the tail, ever closer to the threshold.

Values on both sides of 0: some devices are asked about the one side, others about the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import chain, zip_longest

import numpy as np

from tidegate.local.mechanisms import hybrid_variance
from tidegate.local.questions import TailQuestion
from tidegate.local.survey import SurveyDecision, SurveyRound, SurveyTally
from tidegate.local.tail.survey_size import PlannedSurvey
from tidegate.local.tail.tail_bits import TailBits
from tidegate.local.tail.tail_location_and_posterior import (
    BODY,
    TailLocation,
    Tails,
    crossings_of_tail,
    located_tail,
    location_levels,
    tail_posterior,
)
from tidegate.local.tail.threshold_decision import (
    best_share_above_threshold,
    candidates_for_decision,
    decide_threshold,
    shares_to_decide_threshold,
)

# Where a second look at the order of magnitude asks: shares of the values above, as far as known.
_AROUND = (0.7, 0.4, 0.2)


@dataclass(frozen=True, kw_only=True)
class TailSurvey:
    """Locate the tail, refine it in rounds, decide; continue to ask while the stream begins.

    Attributes:
        epsilon: what an answer may cost.
        stream_epsilon: what a report of the stream may cost.
        variance: of a report of the stream on [−1, 1], for typical data.
        top: the bound in steps.
        rounds: how many devices are asked when (`tail.rounds`).
        partial: whether values may lie on the other side of 0.
        relocate: whether all answers locate the tail, or those of the rounds for it. Few are easily
            misled; of a long hold-out, a fifth is enough, and the rest knows the tail better.
    """

    epsilon: Fraction
    stream_epsilon: Fraction
    variance: float
    top: int
    rounds: tuple[PlannedSurvey, ...]
    partial: bool = False
    relocate: bool = False

    def shares(self, number: int) -> tuple[float, ...]:
        """The shares whose levels a round asks about."""
        planned = self.rounds[number]
        worst = float(hybrid_variance(np.zeros(1), self.stream_epsilon)[0])
        seen = _spread_of_survey(self.epsilon) / math.sqrt(max(planned.participants, 1))
        return shares_to_decide_threshold(best_share_above_threshold(worst, planned.horizon), seen)

    def next_round(self, tallies: Sequence[SurveyTally]) -> SurveyRound | None:
        """The planned round."""
        number = len(tallies)
        if number == len(self.rounds):
            return None  # enough is known
        planned = self.rounds[number]
        levels = self._levels(tallies) if planned.asks else ()
        return SurveyRound(
            questions=tuple(TailQuestion.at(level, self.epsilon, dither=1.0) for level in levels),
            participants=planned.participants,
            in_stream=planned.in_stream,
            reports=planned.reports,
            copies=planned.copies,
        )

    def decide(self, tallies: Sequence[SurveyTally], other: int = 0) -> SurveyDecision:
        """Decide from all bits about the tail; `other`: how far reports reach on the other side."""
        return decide_threshold(
            _tails(self, tuple(tallies)),
            self.top,
            horizon=self.rounds[len(tallies) - 1].horizon,
            variance=self.variance,
            location_span=self._location(tallies).span,
            other=other,
        )

    def _levels(self, tallies: Sequence[SurveyTally]) -> tuple[float, ...]:
        """The levels for the round after these."""
        number = len(tallies)
        if number == 0:
            return location_levels(self.top)
        if self.rounds[number].locates:
            return _survey_location(self, tuple(tallies), _AROUND).levels
        if self.rounds[number - 1].locates:
            return _survey_location(self, tuple(tallies), self.shares(number)).levels
        tails = _tails(self, tuple(tallies))
        levels = candidates_for_decision(tails, self.top)
        scale = self._location(tallies).scale
        shares = tuple(scale * share for share in self.shares(number))
        return crossings_of_tail(levels, tails.mean_shares(levels), shares)

    @property
    def locating(self) -> int:
        """How many rounds locate the tail."""
        return sum(planned.locates for planned in self.rounds)

    def mass(self, tallies: Sequence[SurveyTally]) -> float:
        """The estimated share of the values on this side of 0."""
        return self._location(tallies).mass

    def _location(self, tallies: Sequence[SurveyTally]) -> TailLocation:
        first = self.locating
        used = tallies if self.relocate else tallies[:first]
        asked = tuple(tally for tally in used if tally.questions)
        return _survey_location(self, asked, self.shares(first))


# Functions of public data, kept since rounds ask for the same ones again.


@lru_cache(maxsize=16)
def _survey_location(
    survey: TailSurvey, tallies: tuple[SurveyTally, ...], shares: tuple[float, ...]
) -> TailLocation:
    return located_tail(TailBits.of(tallies), survey.top, shares, partial=survey.partial)


@lru_cache(maxsize=16)
def _tails(survey: TailSurvey, tallies: tuple[SurveyTally, ...]) -> Tails:
    # Devices choose whom they answer: a round may close without one answer about the tail.
    answered = [one for one in (TailBits.of([tally]) for tally in tallies) if one.level.size]
    bits = TailBits.of(tallies)
    if answered:
        bits = bits.above(BODY * answered[-1].level[0])  # the top rung of the last round
    location = survey._location(tallies)
    top_share = location.scale * survey.shares(survey.locating)[0]
    return tail_posterior(bits, location.levels[0], top_share, location.mass)


def _spread_of_survey(epsilon: Fraction) -> float:
    """The standard deviation of a small share times the root of the number of answers."""
    return 1 / (2 * math.sinh(epsilon / 2))


_FEW = 0.4  # of the values


@dataclass(frozen=True)
class TwoSidedTailSurvey:
    """A survey of the values above 0 and one of those below, in the same rounds.

    Privacy: a device answers one question, about one side; which one is decided by its place in the
    rotation, never by its value. Every question costs at most ε by itself, so a value is ε-private
    as in a survey of one side (parallel composition).

    Attributes:
        above: of the values, as far as they are above 0.
        below: of their opposites, as far as these are.
    """

    above: TailSurvey
    below: TailSurvey

    def next_round(self, tallies: Sequence[SurveyTally]) -> SurveyRound | None:
        """The questions of both surveys alternately; each side has its own participants."""
        above = self.above.next_round(_side_of_survey(tallies, below=False))
        below = self.below.next_round(_side_of_survey(tallies, below=True))
        if above is None or below is None:
            return None
        if not above.questions:
            return above
        opposite = (replace(question, below=True) for question in _tail(below))
        turns = chain.from_iterable(zip_longest(_tail(above), opposite))
        return replace(
            above,
            questions=tuple(question for question in turns if question is not None),
            participants=above.participants + below.participants,
        )

    def decide(self, tallies: Sequence[SurveyTally]) -> SurveyDecision:
        """Decide both thresholds. Noise grows with their sum: each is chosen given the other.

        A side that few values seem to lie on (refunds, frost) is cut no farther out than the other:
        few answers speak of it, and what the prior thinks possible there must not rule the noise of
        all reports.
        """
        above, below = _side_of_survey(tallies, below=False), _side_of_survey(tallies, below=True)
        upper = self.above.decide(above)
        lower = self.below.decide(below)
        for _ in range(2):
            lower = self.below.decide(below, other=upper.threshold)
            upper = self.above.decide(above, other=lower.threshold)
        if self.below.mass(below) < _FEW:
            lower = _survey_no_farther(lower, upper.threshold)
        elif self.above.mass(above) < _FEW:
            upper = _survey_no_farther(upper, lower.threshold)
        return replace(upper, below=lower)


def _survey_no_farther(chosen: SurveyDecision, threshold: int) -> SurveyDecision:
    """The decision, limited to a smaller threshold, without the addition for the larger cut."""
    if chosen.threshold <= threshold:
        return chosen
    return replace(chosen, threshold=threshold, offset=0.0)


def _tail(asked: SurveyRound) -> list[TailQuestion]:
    return [question for question in asked.questions if isinstance(question, TailQuestion)]


def _side_of_survey(tallies: Sequence[SurveyTally], *, below: bool) -> tuple[SurveyTally, ...]:
    """The answers about one side."""
    sides = []
    for tally in tallies:
        mine = [
            (replace(question, below=False), counts)
            for question, counts in zip(tally.questions, tally.counts, strict=True)
            if isinstance(question, TailQuestion) and question.below == below
        ]
        sides.append(
            SurveyTally(
                questions=tuple(question for question, _ in mine),
                counts=tuple(counts for _, counts in mine),
            )
        )
    return tuple(sides)
