"""Answers to one-bit questions about the tail, and their likelihood given shares of values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidegate.lattice import FloatArray
from tidegate.local.integer_weights import WORDS
from tidegate.local.questions import TailQuestion
from tidegate.local.survey import SurveyTally

# Relative standard deviation of the share above a level, between rounds.
_DRIFT = 0.3


@dataclass(frozen=True)
class TailBits:
    """`ones` of `count` devices that were asked about `level` answered that they lie above it.

    A device lies with the probability `lie`, so P(1) = lie + (1 − 2·lie)·S(level), where S(x) is
    the share of values above x.
    """

    level: FloatArray
    ones: FloatArray
    count: FloatArray
    lie: FloatArray

    @classmethod
    def of(cls, tallies: Sequence[SurveyTally]) -> TailBits:
        """All answers, in the order of the questions."""
        rows = [
            (question.level, counts[1], sum(counts), question.lie / WORDS)
            for tally in tallies
            for question, counts in zip(tally.questions, tally.counts, strict=True)
            if isinstance(question, TailQuestion) and sum(counts) > 0
        ]
        level, ones, count, lie = np.array(rows, dtype=np.float64).reshape(-1, 4).T
        return cls(level, ones, count, lie)

    def above(self, level: float) -> TailBits:
        """The answers about `level` or more."""
        kept = self.level >= level
        return TailBits(self.level[kept], self.ones[kept], self.count[kept], self.lie[kept])

    def log_likelihood(self, shares: FloatArray) -> FloatArray:
        """ln P(bits) up to a constant, for each row of shares S(level).

        Normal, not binomial, with more variance than coins have: streams have days and seasons, so
        that the share above a level differs between rounds. By how much is in proportion to the
        share. So a round that met a busy hour cannot outvote the others, least of all on levels in
        the body of the data.
        """
        signal = 1 - 2 * self.lie
        chance = self.lie + signal * shares
        variance = chance * (1 - chance) / self.count + np.square(_DRIFT * signal * shares)
        misses = np.square(self.ones / self.count - chance)
        likelihood: FloatArray = -(np.log(variance) + misses / variance).sum(axis=-1) / 2
        return likelihood


def normalised_tail_weights(log_weights: FloatArray) -> FloatArray:
    """Weights that add up to 1, from logarithms up to a constant."""
    weights = np.exp(log_weights - log_weights.max())
    result: FloatArray = weights / weights.sum()
    return result


def weighted_tail_quantiles(
    columns: FloatArray, weights: FloatArray, quantiles: tuple[float, ...]
) -> FloatArray:
    """The least value in each column with this share of the weights at or below it."""
    order = np.argsort(columns, axis=0)
    cumulative = np.cumsum(weights[order], axis=0)
    found = np.empty((len(quantiles), columns.shape[1]))
    for row, quantile in enumerate(quantiles):
        index = np.minimum((cumulative < quantile).sum(axis=0), len(columns) - 1)
        found[row] = np.take_along_axis(columns, order, axis=0)[index, np.arange(columns.shape[1])]
    return found
