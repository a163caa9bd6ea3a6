"""`HoldOut`: the raw values that choose a threshold, at the start or later."""

from __future__ import annotations

import numpy as np

from tidegate.lattice import IntArray

_FIRST = 1 << 10


class HoldOut:
    """A buffer of `size` raw values, as integers. As secret as the data."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._units: IntArray = np.empty(0, dtype=np.int64)  # room for it, once needed
        self._held = 0  # how many values are in it

    @property
    def missing(self) -> int:
        """How many more values fit."""
        return self._size - self._held

    @property
    def units(self) -> IntArray:
        """The values held so far."""
        return self._units[: self._held]

    def add(self, units: IntArray) -> None:
        """Hold these values, at most `missing`."""
        needed = self._held + units.size
        if needed > self._units.size:  # room for what came, not for what was announced
            old = self._units
            room = min(self._size, max(needed, 2 * old.size, _FIRST))
            larger: IntArray = np.zeros(room, dtype=np.int64)
            larger[: self._held] = old[: self._held]
            self._units = larger
            old.fill(0)  # it holds raw values, and its memory is given back
        self._units[self._held : self._held + units.size] = units
        self._held += units.size

    def add_one(self, unit: int) -> None:
        """Hold one value."""
        if self._held == self._units.size:
            self.add(np.array([unit]))
            return
        self._units[self._held] = unit
        self._held += 1

    def wipe(self) -> None:
        """Overwrite the values: they are kept no longer than needed."""
        self._units.fill(0)
        self._units = np.empty(0, dtype=np.int64)
        self._held = 0
