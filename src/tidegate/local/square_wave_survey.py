"""ToPL's own survey: one round of Square Wave, its density, the predicted error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import cached_property

import numpy as np

from tidegate.errors import SettingError
from tidegate.lattice import FloatArray, IntArray
from tidegate.local.mechanisms import hybrid_variance, square_wave
from tidegate.local.questions import WaveQuestion
from tidegate.local.square_wave_density import Progress, WaveDensity, estimate_density
from tidegate.local.survey import SurveyDecision, SurveyRound, SurveyTally

_PERCENTILE = 0.9
_SMALL = 1e-4  # a share below it is small ...
_IN_A_ROW = 5  # ... and this many small ones in a row end the density


class Objective(Enum):
    """Which predicted error the threshold minimises.

    Attributes:
        CORRECTED: (r/3)·Var + (r²/6)·excess², Var of a report on [0, θ]: (θ/2)² times that on
            [−1, 1]. This is the paper's equation and derivation.
        AUTHORS: r²/24 (a slip of the text) and θ² (of the authors' code): noise counts 16 times as
            much, so that too small thresholds are chosen, the more so the larger ε.
        PERCENTILE: none: the 90th percentile of the density, as Wang, Li and Jha (Locally
            Differentially Private Frequent Itemset Mining, S&P 2018) cut the sizes of sets.
    """

    CORRECTED = "corrected"
    PERCENTILE = "percentile"
    AUTHORS = "authors"


@dataclass(frozen=True)
class SquareWaveThreshold:
    """A chosen threshold, and the facts of its choice.

    Attributes:
        threshold: θ in steps.
        density: the estimate, before pruning.
        shares: what the threshold was chosen from: pruned, unless smoothed.
    """

    threshold: int
    density: WaveDensity
    shares: FloatArray


def square_wave_threshold(
    question: WaveQuestion,
    counts: IntArray,
    *,
    epsilon: Fraction,
    horizon: int,
    objective: Objective = Objective.CORRECTED,
    smoothing: bool = False,
    gain: float | None = None,
    progress: Progress | None = None,
) -> SquareWaveThreshold:
    """Estimate the density, prune it, and choose the threshold of least predicted error.

    With `smoothing` it is the paper's "SW" (EMS, not pruned), otherwise its "SW-W" (EM, pruned).
    Post-processing of reports: no privacy is spent here.

    Args:
        question: what the devices were asked.
        counts: how many reports fell into each cell.
        epsilon: of the stream's reports, by the Hybrid Mechanism.
        horizon: r, the longest range.
        objective: which error to predict.
        smoothing: EMS instead of EM.
        gain: of the stopping rule of `estimate_density`.
        progress: called after every step of the estimation.
    """
    density = estimate_density(question, counts, smoothing=smoothing, gain=gain, progress=progress)
    shares = density.shares if smoothing else prune_square_wave(density.shares)
    # Worst case over the values; for ε > 0.61 it is the same for all.
    variance = float(hybrid_variance(np.zeros(1), epsilon)[0])
    threshold = best_wave_threshold(question, shares, variance, horizon, objective)
    return SquareWaveThreshold(threshold, density, shares)


def prune_square_wave(shares: FloatArray) -> FloatArray:
    """Zero all shares after the first whose next five are all below 0.01 %.

    That is meant for densities that fall from their first bins on. If it would take away half of
    the density or more, even all of it, then the five were before its bulk and not after it: the
    search goes on behind them. (The paper prunes there, and then nothing is left to choose from.)

    >>> prune_square_wave(np.array([0.6, 0.3, 0.05, 0, 0, 0, 0, 0, 0, 0.05])).tolist()
    [0.6, 0.3, 0.05, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    small = np.append(0, np.cumsum(shares < _SMALL))
    runs = np.flatnonzero(small[_IN_A_ROW:] - small[:-_IN_A_ROW] == _IN_A_ROW)
    kept = np.cumsum(shares)
    qualified = runs[(runs > 0) & (kept[runs - 1] > kept[-1] / 2)]
    pruned = shares.copy()
    if qualified.size:
        pruned[qualified[0] :] = 0.0
    return pruned


def best_wave_threshold(
    question: WaveQuestion,
    shares: FloatArray,
    variance: float,
    horizon: int,
    objective: Objective = Objective.CORRECTED,
) -> int:
    """The upper end of the bin, in steps, with the least predicted error.

    Args:
        question: its bins are the candidates.
        shares: of the values in each bin.
        variance: of one report, for values on [−1, 1].
        horizon: r, the longest range.
        objective: which error to predict.
    """
    if horizon < 1:
        raise SettingError("horizon", "must be at least 1")
    steps = question.top + 1
    firsts = np.array([-(-each * steps // question.bins) for each in range(question.bins + 1)])
    candidates = np.maximum(firsts[1:] - 1, 1).astype(np.float64)
    if objective is Objective.PERCENTILE:
        return int(candidates[np.searchsorted(np.cumsum(shares), _PERCENTILE * shares.sum())])
    middles = (firsts[:-1] + firsts[1:] - 1) / 2
    # Σ_{t>θ} f_t·(t − θ), for all θ at once: sums over the bins after each.
    above = shares.sum() - np.cumsum(shares)
    excess = (shares * middles).sum() - np.cumsum(shares * middles) - above * candidates
    if objective is Objective.CORRECTED:
        noise, bias = (candidates / 2) ** 2 * variance, horizon**2 / 6
    else:
        noise, bias = candidates**2 * variance, horizon**2 / 24
    error = horizon / 3 * noise + bias * np.maximum(excess, 0.0) ** 2
    return int(candidates[np.argmin(error)])


_BINS = 1024


@dataclass(frozen=True, kw_only=True)
class SquareWaveSurvey:
    """Every device of the hold-out reports its value by Square Wave.

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
        """1,024 bins as in the paper, or fewer if there are fewer values."""
        return square_wave(self.top, self.epsilon, min(_BINS, self.top + 1))

    def next_round(self, tallies: Sequence[SurveyTally]) -> SurveyRound | None:
        """The only round."""
        if tallies:
            return None
        return SurveyRound(questions=(self.question,), participants=self.holdout)

    def decide(self, tallies: Sequence[SurveyTally]) -> SurveyDecision:
        """The threshold of least predicted error; nothing is added to reports."""
        chosen = square_wave_threshold(
            self.question,
            np.array(tallies[0].counts[0]),
            epsilon=self.stream_epsilon,
            horizon=self.horizon,
            objective=self.objective,
            smoothing=self.smoothing,
        ).threshold
        return SurveyDecision(threshold=chosen, low=chosen, high=chosen)
