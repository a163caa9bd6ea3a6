"""Predict the mean of the last few blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tidegate.estimate.smoother import Smoother
from tidegate.lattice import FloatArray, IntArray
from tidegate.settings import Spec, Whole
from tidegate.stages import NO_SUMS, Noisy


@dataclass(frozen=True, kw_only=True, repr=False)
class MovingAverage(Smoother, Spec):
    """The mean of the last `window` blocks; of all of u_0, u_1, … while there are fewer."""

    KIND: ClassVar[str] = "estimate.MovingAverage"

    window: Whole = Whole(minimum=1, default=8)

    def predictor(self, *, threshold: int, block: int, blocks: int) -> MovingAverageRun:
        """A predictor with u_0 as its only block."""
        return MovingAverageRun(self.window, threshold / 2, block)


class MovingAverageRun:
    """Stores the last `window` sums; integer differences of running totals are exact."""

    STATE: ClassVar[tuple[str, ...]] = ("recent", "count")

    def __init__(self, window: int, first: float, block: int) -> None:
        self._window = window
        self.first = first
        self._block = block
        self.recent: IntArray = NO_SUMS
        self.count = 1  # u_0 counts

    def push(self, noisy: Noisy) -> FloatArray:
        """The mean of the last blocks after each block."""
        sums = np.concatenate((self.recent, noisy.sums))
        totals = np.concatenate(([0], np.cumsum(sums)))
        ends = np.arange(self.recent.size + 1, sums.size + 1)
        counts = self.count + np.arange(1, noisy.sums.size + 1)  # blocks known, u_0 among them
        inside = totals[ends] - totals[np.maximum(ends - self._window, 0)]
        young = counts <= self._window  # u_0 is still in the window
        self.recent = sums[max(0, sums.size - self._window) :].copy()
        self.count += noisy.sums.size
        means: FloatArray = np.where(
            young,
            (inside + self.first * self._block) / (counts * self._block),
            inside / (self._window * self._block),
        )
        return means
