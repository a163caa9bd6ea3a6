"""Predict that the next block equals the last one: the paper's default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tidegate.estimate.smoother import Smoother
from tidegate.lattice import FloatArray
from tidegate.settings import Spec
from tidegate.stages import Noisy


@dataclass(frozen=True, kw_only=True, repr=False)
class Recent(Smoother, Spec):
    """The mean of the previous block, u_{t−1}/B. (The paper's index t is not causal.)"""

    KIND: ClassVar[str] = "estimate.Recent"

    def predictor(self, *, threshold: int, block: int, blocks: int) -> RecentRun:
        """A predictor that starts at half the threshold."""
        return RecentRun(threshold / 2, block)


class RecentRun:
    """Predicts the last sum; has no other state."""

    STATE: ClassVar[tuple[str, ...]] = ()

    def __init__(self, first: float, block: int) -> None:
        self.first = first
        self._block = block

    def push(self, noisy: Noisy) -> FloatArray:
        """Each block predicts the next."""
        return noisy.sums / self._block
