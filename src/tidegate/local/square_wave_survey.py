"""ToPL's own way to a threshold: one round of Square Wave, then the density."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from tidegate.local.mechanisms import square_wave
from tidegate.local.questions import WaveQuestion
from tidegate.local.survey import Decision, Round, Tally
from tidegate.local.wave_threshold import Objective, published_threshold

_BINS = 1024


@dataclass(frozen=True, kw_only=True)
class PublishedSurvey:
    """All devices of the hold-out report their value by Square Wave.

    Attributes:
        epsilon: what such a report may cost.
        stream_epsilon: what a report of the stream may cost.
        top: the bound in steps.
        holdout: how many devices are asked.
        horizon: the longest range that should be answered well.
        objective: which predicted error is minimised.
        smoothing: of the density (EMS instead of EM).
    """

    epsilon: Fraction
    stream_epsilon: Fraction
    top: int
    holdout: int
    horizon: int
    objective: Objective = Objective.CORRECTED
    smoothing: bool = False

    @cached_property
    def question(self) -> WaveQuestion:
        """1,024 bins as in the paper; no more than there are values."""
        return square_wave(self.top, self.epsilon, min(_BINS, self.top + 1))

    def next_round(self, tallies: Sequence[Tally]) -> Round | None:
        """One round."""
        if tallies:
            return None
        return Round(questions=(self.question,), participants=self.holdout)

    def decide(self, tallies: Sequence[Tally]) -> Decision:
        """The threshold of the least predicted error; nothing is added to reports."""
        chosen = published_threshold(
            self.question,
            np.array(tallies[0].counts[0]),
            epsilon=self.stream_epsilon,
            horizon=self.horizon,
            objective=self.objective,
            smoothing=self.smoothing,
        ).threshold
        return Decision(threshold=chosen, low=chosen, high=chosen)
