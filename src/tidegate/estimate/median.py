"""Predict the median of the blocks so far."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import ClassVar

import numpy as np

from tidegate.estimate.smoother import Smoother
from tidegate.lattice import FloatArray
from tidegate.settings import Spec
from tidegate.stages import Noisy


@dataclass(frozen=True, kw_only=True, repr=False)
class Median(Smoother, Spec):
    """The median of u_0 … u_{t−1}, divided by B. (The paper forgets to divide.)

    Memory is bounded by one horizon: with each new one the collection starts again, and the last
    median takes the place of u_0.
    """

    KIND: ClassVar[str] = "estimate.Median"

    def predictor(self, *, threshold: int, block: int, blocks: int) -> MedianRun:
        """A predictor with u_0 as its only block."""
        return MedianRun(threshold / 2, block, blocks)


class MedianRun:
    """Two heaps around the median: `lower` (negated) holds as many as `upper`, or one more."""

    STATE: ClassVar[tuple[str, ...]] = ("lower", "upper", "count")

    def __init__(self, first: float, block: int, blocks: int) -> None:
        self.first = first
        self._block = block
        self._blocks = blocks
        self.lower: list[float] = [-first * block]
        self.upper: list[float] = []
        self.count = 0  # blocks of this horizon

    def push(self, noisy: Noisy) -> FloatArray:
        """The median after each block."""
        medians = np.empty(noisy.sums.size)
        for index, level in enumerate(noisy.sums.tolist()):
            if self.count == self._blocks:
                self.lower, self.upper, self.count = [-self._median()], [], 0
            self._insert(level)
            self.count += 1
            medians[index] = self._median() / self._block
        return medians

    def _insert(self, level: int) -> None:
        if level <= -self.lower[0]:
            heappush(self.lower, -level)
        else:
            heappush(self.upper, level)
        if len(self.lower) > len(self.upper) + 1:
            heappush(self.upper, -heappop(self.lower))
        elif len(self.upper) > len(self.lower):
            heappush(self.lower, -heappop(self.upper))

    def _median(self) -> float:
        if len(self.lower) > len(self.upper):
            return -self.lower[0]
        return (self.upper[0] - self.lower[0]) / 2
