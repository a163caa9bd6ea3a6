"""The answers to one-bit questions, and how likely a tail makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidegate.lattice import FloatArray
from tidegate.local.loss import WORDS
from tidegate.local.questions import TailQuestion
from tidegate.local.survey import Tally


@dataclass(frozen=True)
class Bits:
    """Of `count` devices asked about `level`, `ones` said that they were above it.

    A device lies with the probability `lie`, so P(1) = lie + (1 − 2·lie)·S(level), where S(x) is
    the share of values above x.
    """

    level: FloatArray
    ones: FloatArray
    count: FloatArray
    lie: FloatArray

    @classmethod
    def of(cls, tallies: Sequence[Tally]) -> Bits:
        """All of them, in the order in which they were asked."""
        rows = [
            (question.level, counts[1], sum(counts), question.lie / WORDS)
            for tally in tallies
            for question, counts in zip(tally.questions, tally.counts, strict=True)
            if isinstance(question, TailQuestion)
        ]
        level, ones, count, lie = np.array(rows, dtype=np.float64).reshape(-1, 4).T
        return cls(level, ones, count, lie)

    def above(self, level: float) -> Bits:
        """Those asked about `level` or more."""
        kept = self.level >= level
        return Bits(self.level[kept], self.ones[kept], self.count[kept], self.lie[kept])

    def log_likelihood(self, shares: FloatArray) -> FloatArray:
        """ln P(bits) up to a constant, for each row of shares S(level)."""
        chance = self.lie + (1 - 2 * self.lie) * shares
        likelihood: FloatArray = np.log(chance) @ self.ones + np.log1p(-chance) @ (
            self.count - self.ones
        )
        return likelihood


def normalised(log_weights: FloatArray) -> FloatArray:
    """Weights that add up to 1, from logarithms up to a constant."""
    weights = np.exp(log_weights - log_weights.max())
    result: FloatArray = weights / weights.sum()
    return result
