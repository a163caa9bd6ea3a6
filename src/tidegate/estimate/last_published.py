"""Publish the last measured number until the next one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tidegate.estimate.sample_and_hold import SampleAndHold
from tidegate.lattice import FloatArray, IntArray
from tidegate.settings import Spec
from tidegate.stages import Perturber, Recorded, Spans


@dataclass(frozen=True, kw_only=True, repr=False)
class LastPublished(SampleAndHold, Spec):
    """Every value is published as the last number that was."""

    KIND: ClassVar[str] = "estimate.LastPublished"

    def level_filter(self, *, threshold: int, perturber: Perturber) -> Last:
        """Begin with half the threshold."""
        return Last(threshold // 2)

    def level_variances(self, recorded: Recorded, spans: Spans) -> FloatArray:
        """That of the noise, independent from number to number; a mark is its Laplace scale.

        A discrete Laplace law of scale s has a variance of just below 2s².
        """
        return 2.0 * np.square(spans.marks.astype(np.float64))


class Last:
    """The level is the last number."""

    STATE: ClassVar[tuple[str, ...]] = ("level",)

    def __init__(self, level: float) -> None:
        self.level = float(level)

    def push(self, numbers: IntArray, spans: IntArray, marks: IntArray) -> FloatArray:
        """A measured number is the new level."""
        last = np.maximum.accumulate(np.where(marks, np.arange(1, marks.size + 1), 0))
        levels = np.concatenate(([self.level], numbers))[last]
        self.level = float(levels[-1])
        return levels
