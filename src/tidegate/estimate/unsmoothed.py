"""Predict nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tidegate.estimate.smoother import Smoother
from tidegate.lattice import FloatArray
from tidegate.settings import Spec
from tidegate.stages import Noisy


@dataclass(frozen=True, kw_only=True, repr=False)
class Unsmoothed(Smoother, Spec):
    """Zero inside a block, the whole noisy sum at its end; the natural choice for blocks of one."""

    KIND: ClassVar[str] = "estimate.Unsmoothed"
    predicts: ClassVar[bool] = False

    def predictor(self, *, threshold: int, block: int, blocks: int) -> UnsmoothedRun:
        """Begin."""
        return UnsmoothedRun()


class UnsmoothedRun:
    """Publishes sums as they are; there is nothing to remember."""

    STATE: ClassVar[tuple[str, ...]] = ()
    first = 0.0

    def push(self, noisy: Noisy) -> FloatArray:
        """Zeros."""
        return np.zeros(noisy.sums.size)
