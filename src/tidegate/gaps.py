"""Stretches of the stream of which nothing was measured."""

from __future__ import annotations

import numpy as np

from tidegate.lattice import FloatArray, IntArray
from tidegate.segments import Parts


class Gap:
    """Values that chose a threshold instead of being measured: predictions were published."""

    def __init__(
        self, *, origin: int, end: int, prediction: float, threshold: int, step: float, epoch: str
    ) -> None:
        self.origin = self.start = origin
        self.end = end
        self.prediction = prediction
        self.threshold = threshold
        self.epoch = epoch
        self._step = step

    @property
    def threshold_value(self) -> float:
        """The threshold in the unit of the data."""
        return self.threshold * self._step

    @property
    def caps(self) -> list[float]:
        """At which levels values were truncated."""
        return [self.threshold_value]

    def parts(self, starts: IntArray, ends: IntArray, as_of: int | None = None) -> Parts:
        """Nothing was measured here: the error may be a quarter of the threshold for each value."""
        lengths: FloatArray = (ends - starts).astype(np.float64) * self._step
        nothing = np.zeros(starts.size)
        error = np.square(lengths * self.threshold / 4.0)
        return Parts(lengths * self.prediction, nothing, error, largest_variance=0.0)

    def joined(self, later: Gap) -> Gap:
        """A later state of the same gap is the whole of it."""
        return later
