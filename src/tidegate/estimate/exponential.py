"""Predict an exponentially weighted mean of the blocks so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tidegate.errors import SettingError
from tidegate.estimate.smoother import Smoother
from tidegate.exact_numbers import said
from tidegate.lattice import FloatArray
from tidegate.settings import Exact, Spec
from tidegate.stages import Noisy


@dataclass(frozen=True, kw_only=True, repr=False)
class Exponential(Smoother, Spec):
    """α·u_{t−1}/B + (1 − α)·(the previous prediction)."""

    KIND: ClassVar[str] = "estimate.Exponential"

    alpha: Exact = Exact(default="1/2")

    def __post_init__(self) -> None:
        if self.alpha > 1:
            raise SettingError("alpha", f"must be at most 1, not {said(self.alpha)}")

    def predictor(self, *, threshold: int, block: int, blocks: int) -> ExponentialRun:
        """A predictor that starts at half the threshold."""
        return ExponentialRun(float(self.alpha), threshold / 2, block)


class ExponentialRun:
    """Stores one float; a plain loop, so any split of the stream gives the same bits."""

    STATE: ClassVar[tuple[str, ...]] = ("prediction",)

    def __init__(self, alpha: float, first: float, block: int) -> None:
        self._alpha = alpha
        self._block = block
        self.first = first
        self.prediction = first

    def push(self, noisy: Noisy) -> FloatArray:
        """The exponentially weighted mean after each block."""
        predictions = np.empty(noisy.sums.size)
        prediction, alpha = self.prediction, self._alpha
        for index, level in enumerate((noisy.sums / self._block).tolist()):
            prediction = alpha * level + (1.0 - alpha) * prediction
            predictions[index] = prediction
        self.prediction = prediction
        return predictions
