"""`SegmentMethod`: how the values of a record were measured, as far as it must know."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.lattice import IntArray
from tidegate.stages import BlockBudgets, Estimator, Perturber
from tidegate.stages.size_bands import SIZE_FACTS, size_bands


@dataclass(frozen=True)
class SegmentMethod:
    """How the values of a pipeline are measured and estimated, as far as a record needs it."""

    perturber: Perturber
    estimator: Estimator
    ceiling: int  # the largest threshold above 0, in lattice units
    step: float  # one lattice unit, in the unit of the data
    history: int  # how many values are kept
    bounded: bool = True  # whether a value lies below the threshold; False: a sum of many does not
    budgets: BlockBudgets | None = None  # of its blocks, if they pay for choices of θ
    depth: int = 0  # how far below 0 values can count, in lattice units
    grain: int = 1  # lattice units from one threshold to the next, at the least

    def size_rows(self, threshold: int, numbers: IntArray) -> tuple[IntArray, ...]:
        """Released numbers of events by size, a row for each piece."""
        if not numbers.size:
            return ()
        top, signed = max(self.ceiling, self.depth), self.depth > 0
        bands = size_bands(threshold, top, self.grain, signed=signed)
        return tuple(numbers.reshape(-1, bands.number + SIZE_FACTS))
