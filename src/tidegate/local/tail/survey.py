"""The default way to a threshold: one-bit questions about the tail, ever closer to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from tidegate.local.mechanisms import hybrid_variance
from tidegate.local.questions import TailQuestion
from tidegate.local.survey import Decision, Round, Tally
from tidegate.local.tail.bits import Bits
from tidegate.local.tail.decision import candidates, decide
from tidegate.local.tail.family import BODY, Tails, posterior
from tidegate.local.tail.location import Location, crossings, located, location_levels
from tidegate.local.tail.target import best_share, ladder_shares

_HOLDOUT_ROUNDS = 5  # one that locates the tail, four that refine it
_STREAM_ROUNDS = 6


@dataclass(frozen=True, kw_only=True)
class TailSurvey:
    """Locate the tail, refine it in rounds, decide; keep asking while the stream begins.

    Attributes:
        epsilon: what an answer may cost.
        stream_epsilon: what a report of the stream may cost.
        variance: of a report of the stream on [−1, 1], for typical data.
        top: the bound in steps.
        holdout: devices asked before the stream.
        in_stream: devices asked during the stream.
        horizon: the longest range that should be answered well.
    """

    epsilon: Fraction
    stream_epsilon: Fraction
    variance: float
    top: int
    holdout: int
    in_stream: int
    horizon: int

    @cached_property
    def best_share(self) -> float:
        """The share of values that a good threshold cuts."""
        worst = float(hybrid_variance(np.zeros(1), self.stream_epsilon)[0])
        return best_share(worst, self.horizon)

    @cached_property
    def shares(self) -> tuple[float, ...]:
        """The shares whose levels are asked about."""
        return ladder_shares(self.best_share)

    def next_round(self, tallies: Sequence[Tally]) -> Round | None:
        """Locate, then refine; the rounds of each part have nearly the same size."""
        number = len(tallies)
        if number < _HOLDOUT_ROUNDS:
            participants = _part(self.holdout, number, _HOLDOUT_ROUNDS)
        elif number < _HOLDOUT_ROUNDS + _STREAM_ROUNDS and self.in_stream:
            participants = _part(self.in_stream, number - _HOLDOUT_ROUNDS, _STREAM_ROUNDS)
        else:
            return None  # enough is known
        levels = location_levels(self.top) if number == 0 else self._ladder(tallies)
        return Round(
            questions=tuple(TailQuestion.at(level, self.epsilon, dither=1.0) for level in levels),
            participants=participants,
            in_stream=number >= _HOLDOUT_ROUNDS,
        )

    def decide(self, tallies: Sequence[Tally]) -> Decision:
        """From all bits about the tail."""
        tails = _tails(self, tuple(tallies))
        return decide(
            tails,
            self.top,
            horizon=self.horizon,
            variance=self.variance,
            location_span=_located(self, tallies[0]).span,
        )

    def _ladder(self, tallies: Sequence[Tally]) -> tuple[float, ...]:
        """The levels to ask about after these rounds."""
        if len(tallies) == 1:
            return _located(self, tallies[0]).levels
        tails = _tails(self, tuple(tallies))
        levels = candidates(tails, self.top)
        return crossings(levels, tails.mean_shares(levels), self.shares)


# Functions of public data, kept since rounds ask for the same ones again.


@lru_cache(maxsize=16)
def _located(survey: TailSurvey, first: Tally) -> Location:
    return located(Bits.of([first]), survey.top, survey.shares)


@lru_cache(maxsize=16)
def _tails(survey: TailSurvey, tallies: tuple[Tally, ...]) -> Tails:
    rung = Bits.of(tallies[-1:]).level[0]  # the top one of the last round
    bits = Bits.of(tallies).above(BODY * rung)
    anchor = _located(survey, tallies[0]).levels[0]
    return posterior(bits, anchor, survey.shares[0])


def _part(total: int, index: int, parts: int) -> int:
    """How many of `total` belong to this part, as evenly as possible."""
    return total * (index + 1) // parts - total * index // parts
