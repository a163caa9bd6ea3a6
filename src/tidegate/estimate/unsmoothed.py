"""Predict 0: publish noisy sums as they are."""

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
    """Zeros inside a block, the whole noisy sum at its end; suits blocks of one value."""

    KIND: ClassVar[str] = "estimate.Unsmoothed"
    predicts: ClassVar[bool] = False

    def predictor(self, *, threshold: int, block: int, blocks: int) -> UnsmoothedRun:
        """A new predictor."""
        return UnsmoothedRun()


class UnsmoothedRun:
    """Predicts 0; has no state."""

    STATE: ClassVar[tuple[str, ...]] = ()
    first = 0.0

    def push(self, noisy: Noisy) -> FloatArray:
        """Zeros."""
        return np.zeros(noisy.sums.size)
