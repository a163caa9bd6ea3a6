"""The posterior of values that were withheld."""

from __future__ import annotations

import numpy as np

from tidegate.lattice import FloatArray, IntArray
from tidegate.stages import Excess, Parts, Posterior


class Unmeasured(Posterior):
    """The posterior of withheld values, which chose a threshold: a prediction was published."""

    def __init__(self, prediction: float, threshold: int, step: float, doubt: float) -> None:
        self._prediction, self._threshold, self._step = prediction, threshold, step
        self._doubt = doubt

    def parts(self, starts: IntArray, ends: IntArray) -> Parts:
        """Nothing was measured: the error is taken as a share of the threshold for each value."""
        lengths: FloatArray = (ends - starts).astype(np.float64) * self._step
        error = np.square(lengths * self._threshold * self._doubt)
        nothing = np.zeros(starts.size)
        excess = Excess.nothing(starts.size)  # values are not truncated: they are not measured
        return Parts(lengths * self._prediction, nothing, error, 0.0, excess)
