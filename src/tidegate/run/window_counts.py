"""What a later choice of θ needs of the values that pay for it: counts, not the values."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from tidegate.lattice import IntArray, Lattice
from tidegate.run.refinement import EARLY_SHARE
from tidegate.threshold import TailQuantile

_MOST = 1 << 12  # values that wait to be counted


class WindowCounts:
    """How many values of an open window exceed each candidate. As secret as the values.

    Counts of pieces add up to those of the whole, so that any split of the stream gives the same.
    """

    def __init__(self, stage: TailQuantile, share: Fraction, lattice: Lattice) -> None:
        self.stage, self.share = stage, share
        self._lattice = lattice
        self._counts: IntArray = np.zeros(stage.candidates(lattice).size, dtype=np.int64)
        self._waiting: list[int] = []

    @property
    def values(self) -> int:
        """How many values the window has when it ends."""
        return self.stage.holdout

    @property
    def counts(self) -> IntArray:
        """The counts so far."""
        if self._waiting:
            units = np.array(self._waiting, dtype=np.int64)
            self._waiting.clear()
            self._counts += self.stage.above(units, self._lattice)
        return self._counts

    def add(self, units: IntArray) -> None:
        """Count these, too."""
        if units.size + len(self._waiting) < _MOST:
            self._waiting += units.tolist()
        else:
            self._counts += self.stage.above(units, self._lattice)

    def add_one(self, unit: int) -> None:
        """The same for one value."""
        self._waiting.append(unit)
        if len(self._waiting) >= _MOST:
            _ = self.counts

    def wipe(self) -> None:
        """Forget the counts: they are not kept longer than needed."""
        self._counts.fill(0)
        self._waiting.clear()

    def state(self) -> dict[str, Any]:
        """All that is needed to go on."""
        early = self.share == EARLY_SHARE
        return {"early": early, "values": self.values, "counts": self.counts.copy()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self._counts[:] = state["counts"]
