"""Running sums of an endless stream in bounded memory: exact at marks that become ever sparser."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

import numpy as np

from tidegate.lattice import FloatArray, IntArray
from tidegate.local.canonical_json import whole_field

# At most this many marks (an even number); half of them, once there were as many positions.
CAPACITY = 1 << 16
# This many neighbours are added up first where no mark falls between them: sums of rows are several
# times as fast as running sums.
_UNIT = 64
_MOST_COLUMNS = 64


class RunningSums:
    """Prefix sums of a few columns, kept at all multiples of a spacing.

    The spacing doubles whenever there would be more than `capacity` marks: then every second one
    is dropped. Between marks a prefix sum is interpolated. Any split of the stream into pushes
    gives the same bits: what is added to what is a function of the positions alone. Neighbours
    that lie in one unit (the spacing, at most 64) are added up, and units one after the other; of a
    unit that is not complete the increments are kept.

    >>> sums = RunningSums(columns=1, capacity=2)
    >>> sums.push(np.array([[1.0, 2.0, 3.0, 4.0]]))
    >>> sums.spacing, sums.marks.tolist()
    (2, [[3.0], [10.0]])
    >>> sums.push(np.array([[5.0]]))
    >>> sums.spacing, sums.marks.tolist()
    (4, [[10.0]])
    >>> sums.before(np.array([2, 5])).tolist()
    [[5.0], [15.0]]
    """

    def __init__(self, columns: int, capacity: int = CAPACITY) -> None:
        self.capacity = capacity
        self.count = 0
        self.spacing = 1
        self._kept: FloatArray = np.zeros((capacity, columns))
        self._marks = 0
        self._settled: FloatArray = np.zeros(columns)  # the sums of all complete units
        self._waiting: FloatArray = np.zeros((columns, 0))  # increments of the one that is not

    @property
    def marks(self) -> FloatArray:
        """The sums before each multiple of the spacing."""
        return self._kept[: self._marks]

    @property
    def totals(self) -> FloatArray:
        """The sums over all positions."""
        totals: FloatArray = self._settled + self._waiting.sum(axis=1)
        return totals

    def push(self, increments: FloatArray) -> None:
        """Add the numbers of each position: one row for each column of the sums."""
        start, length = 0, increments.shape[1]
        while start < length:
            if self.count == self.capacity * self.spacing:
                self._keep_every_second()
            end = min(length, start + self.capacity * self.spacing - self.count)
            self._add(increments[:, start:end])
            start = end

    def _keep_every_second(self) -> None:
        self.spacing *= 2
        half = self.marks[1::2].copy()
        self._marks = len(half)
        self._kept[: self._marks] = half

    def _add(self, increments: FloatArray) -> None:
        """Add positions up to the next change of the spacing: a multiple of all earlier units."""
        unit = min(self.spacing, _UNIT)
        settled = self.count - self._waiting.shape[1]
        self.count += increments.shape[1]
        if self._waiting.shape[1]:
            increments = np.concatenate((self._waiting, increments), axis=1)
        length = increments.shape[1]
        whole = length - length % unit
        if whole:
            sums = np.cumsum(
                np.concatenate(
                    (self._settled[:, None], _unit_sums(increments[:, :whole], unit)), axis=1
                ),
                axis=1,
            )[:, 1:]
            every = self.spacing // unit
            first = -(settled // unit + 1) % every  # of the next unit that ends at a mark
            new = sums[:, first::every].T
            self._kept[self._marks : self._marks + len(new)] = new
            self._marks += len(new)
            self._settled = sums[:, -1].copy()
        self._waiting = increments[:, whole:].copy()

    def before(self, positions: IntArray) -> FloatArray:
        """The sums over the positions before each of `positions`; interpolated between marks."""
        past, length = self.cut(positions)
        mark = (positions // self.spacing)[:, None]
        low, high = self._at(mark), self._at(mark + 1)
        return low + (past / np.maximum(length, 1))[:, None] * (high - low)

    def _at(self, mark: IntArray) -> FloatArray:
        """The sums before each mark: 0 before the first, all sums before a future one."""
        totals = self.totals
        known = self._kept[np.clip(mark[:, 0] - 1, 0, self.capacity - 1)]
        return np.where(mark == 0, 0.0, np.where(mark > self._marks, totals, known))

    def cut(self, positions: IntArray) -> tuple[IntArray, IntArray]:
        """The distance of each position from the mark before it, and of that mark from the next."""
        start = positions // self.spacing * self.spacing
        length = np.minimum(start + self.spacing, self.count) - start
        return positions - start, length

    def plain(self) -> dict[str, Any]:
        """The sums as plain data, for a state file."""
        return {
            "capacity": self.capacity,
            "count": self.count,
            "spacing": self.spacing,
            "settled": self._settled.tolist(),
            "waiting": self._waiting.tolist(),
            "marks": _running_sums_as_text(self.marks),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> RunningSums:
        """The sums from a state file."""
        columns = len(plain["settled"])
        capacity = whole_field(plain, "capacity", 2, CAPACITY)
        spacing = whole_field(plain, "spacing", 1, 1 << 50)
        count = whole_field(plain, "count", 0, capacity * spacing)
        marks = _running_sums_as_floats(plain["marks"]).reshape(-1, columns)
        settled = np.array(plain["settled"], dtype=np.float64)
        waiting = np.array(plain["waiting"], dtype=np.float64).reshape(columns, -1)
        if (
            columns > _MOST_COLUMNS
            or spacing & (spacing - 1)  # a power of two
            or len(marks) != count // spacing
            or waiting.shape[1] != count % min(spacing, _UNIT)
            or not all(np.isfinite(one).all() for one in (marks, settled, waiting))
        ):
            raise ValueError("no running sums")
        sums = cls(columns, capacity)
        sums.count, sums.spacing = count, spacing
        sums._settled, sums._waiting = settled, waiting
        sums._marks = len(marks)
        sums._kept[: sums._marks] = marks
        return sums


def _unit_sums(increments: FloatArray, unit: int) -> FloatArray:
    """Sums of `unit` neighbours, a power of two: pairs, pairs of pairs, ...

    Not by `sum`, in which the order of additions is numpy's choice and depends on the array.
    """
    while unit > 1:
        increments = increments[:, 0::2] + increments[:, 1::2]
        unit //= 2
    return increments


def _running_sums_as_text(numbers: FloatArray) -> str:
    """The bytes in base 64: half a million numbers as digits would take half a second."""
    return b64encode(numbers.astype("<f8").tobytes()).decode("ascii")


def _running_sums_as_floats(text: str) -> FloatArray:
    return np.frombuffer(b64decode(text, validate=True), dtype="<f8").astype(np.float64)
