"""The density behind reports of Square Wave: expectation-maximisation, O(bins) per step.

A report falls into cell c with probability low + (high − low)·[i ≤ c ≤ i + 2·half] if the value is
in bin i. So the matrix of these probabilities is a constant plus a band of ones, and both products
of a step with it are differences of running sums. Everything here is post-processing of reports.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import InputError, SettingError
from tidegate.lattice import FloatArray, IntArray
from tidegate.local.questions import WaveQuestion

# Called after every step with its number and by how much it raised the log-likelihood.
Progress = Callable[[int, float], object]

_GAIN = 1e-3  # of e^ε, in log-likelihood
_STEPS = 10_000


@dataclass(frozen=True)
class WaveDensity:
    """An estimated density.

    Attributes:
        shares: the share of values in each bin; they add up to 1.
        steps: how many steps were made.
        converged: whether the stopping rule ended them, and not their number.
    """

    shares: FloatArray
    steps: int
    converged: bool


def estimate_density(
    question: WaveQuestion,
    counts: IntArray,
    *,
    smoothing: bool = False,
    gain: float | None = None,
    steps: int = _STEPS,
    progress: Progress | None = None,
) -> WaveDensity:
    """The maximum-likelihood density of the reports (EM), or a smoothed one (EMS).

    Starts from equal shares. **Stopping rule**: a step changes the log-likelihood of all reports by
    less than `gain` (10⁻³·e^ε if not given), or `steps` were made. The rule matters: what is left
    of the equal shares is false mass far out, where it moves a threshold most. Half the gain halves
    the error of the threshold on `pos_length` at ε = 0.2, and does little for ε ≥ 1.

    Args:
        question: what the devices were asked.
        counts: how many reports fell into each cell.
        smoothing: after each step, average neighbouring shares by (1, 2, 1)/4: the black-box
            Square Wave of the paper; without it, its white-box variant.
        gain: the least gain worth another step.
        steps: the most steps.
        progress: called after every step with its number and its gain.

    >>> from tidegate.local.questions import WaveQuestion
    >>> question = WaveQuestion(top=3, bins=4, half=0, high=700, low=100)
    >>> estimate_density(question, np.array([70, 10, 10, 10])).shares.round(3)
    array([0.974, 0.009, 0.009, 0.009])
    """
    step = _DensityStep(question, _checked_density(question, counts))
    if gain is None:
        gain = _GAIN * question.high / question.low
    if not gain > 0 or steps < 1:
        raise SettingError("gain", "must be greater than 0, with at least one step")
    before = -np.inf
    shares = np.full(question.bins, 1 / question.bins)
    for number in range(1, steps + 1):
        shares, likelihood = step(shares)
        if smoothing:
            shares = _smooth_density(shares)
        risen, before = likelihood - before, likelihood
        if progress is not None:
            progress(number, risen)
        if abs(risen) < gain:
            return WaveDensity(shares, number, True)
    return WaveDensity(shares, steps, False)


class _DensityStep:
    """One step: shareᵢ ← shareᵢ·Σ_c count_c·P(c|i)/P(c) / n, with P(c) = Σᵢ shareᵢ·P(c|i).

    In units of high − low, so that the band is ones and the constant is `low`: the unit cancels.
    """

    def __init__(self, question: WaveQuestion, counts: FloatArray) -> None:
        bins, width = question.bins, 2 * question.half + 1
        self._low = question.low / (question.high - question.low)
        self._number = counts.sum()
        self._counts = counts / self._number
        # Σ shares before a bin, with as many zeros before and ones after as a plateau is wide.
        before = np.zeros(bins + 2 * width - 1)
        before[width + bins :] = 1.0
        self._before = before[width : width + bins]
        self._upper, self._lower = before[width:], before[:-width]
        weighed = np.zeros(counts.size + 1)
        self._weighed = weighed[1:]
        self._last, self._first = weighed[width:], weighed[:-width]
        self._cells, self._logarithms = np.empty(counts.size), np.empty(counts.size)

    def __call__(self, shares: FloatArray) -> tuple[FloatArray, float]:
        """The next shares, and the log-likelihood of the ones given (up to a constant)."""
        cells, logarithms, weighed = self._cells, self._logarithms, self._weighed
        shares.cumsum(out=self._before)
        np.subtract(self._upper, self._lower, out=cells)
        cells += self._low
        np.log(cells, out=logarithms)
        likelihood = self._number * float(self._counts.dot(logarithms))
        np.divide(self._counts, cells, out=cells)
        cells.cumsum(out=weighed)
        gathered: FloatArray = self._last - self._first
        gathered += self._low * weighed[-1]
        gathered *= shares  # they add up to 1 again: Σ_c count_c/n·P(c)/P(c)
        return gathered, likelihood


def _smooth_density(shares: FloatArray) -> FloatArray:
    """Average with weights (1, 2, 1)/4; at both ends with those inside, (2, 1)/3."""
    smooth: FloatArray = 2 * shares
    smooth[1:] += shares[:-1]
    smooth[:-1] += shares[1:]
    smooth /= 4
    if shares.size > 1:
        smooth[0] *= 4 / 3
        smooth[-1] *= 4 / 3
    smooth /= smooth.sum()
    return smooth


def _checked_density(question: WaveQuestion, counts: NDArray[np.int64]) -> FloatArray:
    if question.high == question.low:
        raise SettingError("high", "must be above low: such reports say nothing about the values")
    array = np.asarray(counts)
    if array.shape != (question.reports,) or array.dtype.kind not in "iu" or (array < 0).any():
        raise InputError(f"counts must be {question.reports} whole numbers, one for each cell")
    if not array.any():
        raise InputError("counts must hold at least one report")
    return array.astype(np.float64)
