"""A queue of keys that wait for noise."""

from __future__ import annotations

from collections import deque

import numpy as np

from tidegate.lattice import IntArray

_NONE = np.zeros(0, dtype=np.int64)


class WaitingKeys:
    """Codes that wait, in order of arrival."""

    def __init__(self) -> None:
        self._parts: deque[IntArray] = deque()  # not one array: each part would copy it

    def add(self, codes: IntArray) -> None:
        """Add these codes."""
        if codes.size:
            self._parts.append(codes)

    def served(self, most: int) -> IntArray:
        """Remove the first codes and return them."""
        found = [_NONE]
        while most and self._parts:
            part = self._parts.popleft()
            found.append(part[:most])
            if part.size > most:
                self._parts.appendleft(part[most:])
            most -= found[-1].size
        return np.concatenate(found)

    def drop(self, codes: int | IntArray) -> None:
        """Remove these codes."""
        parts = [part[~np.isin(part, codes)] for part in self._parts]
        self._parts = deque(part for part in parts if part.size)
