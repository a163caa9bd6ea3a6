"""Running sums of an endless stream in bounded memory: exact at ever rarer marks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tidegate.lattice import FloatArray, IntArray

# At most so many marks; half as many at least, once there were that many positions.
CAPACITY = 1 << 16


class RunningSums:
    """Prefix sums of a few columns, kept at all multiples of a spacing.

    The spacing doubles whenever there would be more than `capacity` marks: then every second one
    is dropped. Between marks a prefix sum is interpolated. Any split of the stream into pushes
    gives the same bits: sums are added up one after the other, and the spacing is a function of
    the length.

    >>> sums = RunningSums(columns=1, capacity=2)
    >>> sums.push(np.array([[1.0], [2.0], [3.0], [4.0], [5.0]]))
    >>> sums.spacing, sums.marks.tolist()
    (2, [[3.0], [10.0]])
    >>> sums.before(np.array([3, 5])).tolist()
    [[6.5], [15.0]]
    """

    def __init__(self, columns: int, capacity: int = CAPACITY) -> None:
        self.capacity = capacity
        self.count = 0
        self.spacing = 1
        self.totals: FloatArray = np.zeros(columns)
        self.marks: FloatArray = np.zeros((0, columns))

    def push(self, increments: FloatArray) -> None:
        """Rows of what each position adds to each column."""
        if not len(increments):
            return
        totals = np.cumsum(np.vstack((self.totals, increments)), axis=0)[1:]
        first = -(self.count + 1) % self.spacing  # index of the next position that is a multiple
        self.count += len(totals)
        self.totals = totals[-1].copy()
        self.marks = np.concatenate((self.marks, totals[first :: self.spacing]))
        while len(self.marks) > self.capacity:
            self.spacing *= 2
            self.marks = self.marks[1::2].copy()

    def before(self, positions: IntArray) -> FloatArray:
        """The sums over the positions before each of `positions`; interpolated between marks."""
        past, length = self.cut(positions)
        mark = (positions // self.spacing)[:, None]
        low, high = self._at(mark), self._at(mark + 1)
        return low + (past / np.maximum(length, 1))[:, None] * (high - low)

    def _at(self, mark: IntArray) -> FloatArray:
        """The sums before each mark: none before the first, all before one that is to come."""
        if not len(self.marks):
            return np.where(mark > 0, self.totals, 0.0)
        known = self.marks[np.clip(mark[:, 0] - 1, 0, len(self.marks) - 1)]
        return np.where(mark == 0, 0.0, np.where(mark > len(self.marks), self.totals, known))

    def cut(self, positions: IntArray) -> tuple[IntArray, IntArray]:
        """How far each position is from the mark before it, and how far that is from the next."""
        start = positions // self.spacing * self.spacing
        length = np.minimum(start + self.spacing, self.count) - start
        return positions - start, length

    def plain(self) -> dict[str, Any]:
        """For a state file."""
        return {
            "capacity": self.capacity,
            "count": self.count,
            "spacing": self.spacing,
            "totals": self.totals.tolist(),
            "marks": self.marks.tolist(),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> RunningSums:
        """From a state file."""
        sums = cls(len(plain["totals"]), int(plain["capacity"]))
        sums.count, sums.spacing = int(plain["count"]), int(plain["spacing"])
        sums.totals = np.array(plain["totals"], dtype=np.float64)
        sums.marks = np.array(plain["marks"], dtype=np.float64).reshape(-1, sums.totals.size)
        return sums
