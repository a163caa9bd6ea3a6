"""What choices of θ need of raw values, for many keys: values of warm-ups, counts of windows.

Both are as secret as the values, and are overwritten as soon as a choice was made.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidegate.lattice import IntArray, Lattice
from tidegate.state_as_bytes import State
from tidegate.threshold.choices_of_many_streams import added_up
from tidegate.threshold.tail_quantile import PARTS, all_grids, last_exceeded

_NO_ROW = -1
_NONE = np.zeros(0, dtype=np.int64)
_FIRST = 16  # values that a row has room for at first
_ONE = np.int32(1)  # of the type of what it is added to: numpy takes 40 times as long otherwise


def with_room(column: IntArray, room: int, fill: int = 0) -> IntArray:
    """A column with room for more keys."""
    rest = np.full((room - len(column), *column.shape[1:]), fill, dtype=column.dtype)
    return np.concatenate((column, rest))


class HeldValues:
    """`HoldOut` of many keys: a row of a table for each key whose warm-up is open.

    Attributes:
        count, size: by key: values that came, and that the warm-up will have.
    """

    def __init__(self) -> None:
        self.count: IntArray = np.zeros(0, dtype=np.int64)
        self.size: IntArray = np.zeros(0, dtype=np.int64)
        self._row: IntArray = np.zeros(0, dtype=np.int64)
        self._table: IntArray = np.zeros((0, _FIRST), dtype=np.int64)
        self._free: list[int] = []

    def grow(self, room: int, size: int) -> None:
        """Room for more keys, which begin with a warm-up of this size."""
        self.count, self.size = with_room(self.count, room), with_room(self.size, room, size)
        self._row = with_room(self._row, room, _NO_ROW)

    def begin(self, code: int, size: int) -> None:
        """A warm-up of a key begins."""
        self.count[code], self.size[code] = 0, size

    def add(self, codes: IntArray, counts: IntArray, units: IntArray) -> None:
        """Values of keys (none twice), key by key: so many of each."""
        after = self.count[codes] + counts
        self._make_room(codes, int(after.max()))
        rows, firsts = self._row[codes], np.cumsum(counts) - counts
        places = np.repeat(self.count[codes] - firsts, counts) + np.arange(units.size)
        self._table[np.repeat(rows, counts), places] = units
        self.count[codes] = after

    def _make_room(self, codes: IntArray, values: int) -> None:
        new = codes[self._row[codes] == _NO_ROW]
        if len(self._free) < new.size or values > self._table.shape[1]:
            old, (rows, columns) = self._table, self._table.shape
            if len(self._free) < new.size:
                rows = max(rows + new.size - len(self._free), rows + rows // 2)
            if values > columns:
                columns = max(values, columns + columns // 2)
            self._table = np.zeros((rows, columns), dtype=np.int64)
            self._table[: len(old), : old.shape[1]] = old
            self._free += range(len(old), rows)
            old.fill(0)  # it holds raw values, and its memory is given back
        if new.size:
            self._row[new] = self._free[-new.size :]
            del self._free[-new.size :]

    def of(self, code: int) -> IntArray:
        """The values of one key."""
        row = int(self._row[code])
        return _NONE if row == _NO_ROW else self._table[row, : self.count[code]].copy()

    def rows(self, codes: IntArray, count: int) -> IntArray:
        """The first values of keys that have so many: a row for each."""
        if not count:
            return np.zeros((codes.size, 0), dtype=np.int64)
        return self._table[self._row[codes], :count]

    def wipe(self, codes: int | IntArray) -> None:
        """Forget the values of keys: they are not kept longer than needed."""
        rows = np.atleast_1d(self._row[codes])
        rows = rows[rows != _NO_ROW]
        self._table[rows] = 0
        self._free += rows.tolist()
        self._row[codes] = _NO_ROW
        self.count[codes] = 0


class WindowCounts:
    """`SelectionCounts` of many keys, of values from 0 on: the counts of open windows.

    A value counts in full at all candidates before the last one that it exceeds, and in part there:
    two numbers are added for each value, whatever the candidates.

    Attributes:
        size, taken: by key: values that the window has when it ends (0: none is open), and so far.
    """

    def __init__(self, lattice: Lattice) -> None:
        self._grids = all_grids(lattice)
        self.size: IntArray = np.zeros(0, dtype=np.int64)
        self.taken: IntArray = np.zeros(0, dtype=np.int64)
        self._grid: IntArray = np.zeros(0, dtype=np.int64)
        most = max(map(len, self._grids))
        self._whole: NDArray[np.int32] = np.zeros((0, most), dtype=np.int32)
        self._parts: IntArray = np.zeros((0, most), dtype=np.int64)

    def grow(self, room: int) -> None:
        """Room for more keys, without a window."""
        for name in ("size", "taken", "_grid", "_whole", "_parts"):
            setattr(self, name, with_room(getattr(self, name), room))

    def begin(self, code: int, size: int, candidates: IntArray, known: State) -> None:
        """A window of a key begins, or continues from what `SelectionCounts` knows."""
        self.begin_empty(np.array([code]), size, candidates)
        self.taken[code] = known["taken"]
        self._parts[code, : candidates.size] = known["counts"]  # counts add up

    def begin_empty(self, codes: IntArray, size: int, candidates: IntArray) -> None:
        """Windows of keys begin, all with the same candidates."""
        self.wipe(codes)
        self.size[codes] = size
        self._grid[codes] = next(
            at for at, grid in enumerate(self._grids) if np.array_equal(grid, candidates)
        )

    def add(self, codes: IntArray, counts: IntArray, units: IntArray) -> None:
        """Values of keys with a window (none twice), key by key: so many of each."""
        self.taken[codes] += counts
        grids = self._grid[codes]
        if codes.size == units.size:
            owners, rows = codes, grids
        else:
            owners, rows = np.repeat(codes, counts), np.repeat(grids, counts)
        for number in np.unique(grids).tolist():
            mine = rows == number
            last, parts = last_exceeded(units[mine], self._grids[number])
            some = last >= 0  # none exceeds a candidate: 0
            at = owners[mine][some] * self._parts.shape[1] + last[some]
            np.add.at(self._parts.reshape(-1), at, parts[some])
            np.add.at(self._whole.reshape(-1), at, _ONE)

    def counts(self, code: int) -> IntArray:
        """What `TailQuantile.above` gives for the values so far."""
        return self._all_counts(np.array([code]))

    def rows(self, codes: IntArray, candidates: int) -> IntArray:
        """The same for keys that have so many candidates: a row for each."""
        return added_up(self._whole[codes, :candidates], self._parts[codes, :candidates])

    def wipe(self, codes: int | IntArray) -> None:
        """Forget the counts of keys: they are not kept longer than needed."""
        self._whole[codes] = 0
        self._parts[codes] = 0
        self.taken[codes] = self.size[codes] = 0

    # -- state -----------------------------------------------------------------------------------

    def state(self, start: int, end: int) -> dict[str, NDArray[np.generic]]:
        """All that is needed to continue the windows of these keys.

        Counts take as many bits as the longest window can need, whatever was counted.
        """
        size = self.size[start:end]
        opened = np.flatnonzero(size) + start
        small = int(size.max(initial=0)) * PARTS <= np.iinfo(np.int32).max
        return {
            "window": size,
            "taken": self.taken[start:end],
            "grid": self._grid[start:end].astype(np.int8),
            "counts": self._all_counts(opened).astype(np.int32 if small else np.int64),
        }

    def _all_counts(self, codes: IntArray) -> IntArray:
        """`counts` of many keys, one after another."""
        return added_up(self._whole[codes], self._parts[codes])[self._of_grid(codes)]

    def _of_grid(self, codes: IntArray) -> NDArray[np.bool_]:
        """Which entries of the rows of these keys belong to their candidates."""
        sizes = np.array([len(grid) for grid in self._grids])[self._grid[codes]]
        found: NDArray[np.bool_] = np.arange(self._parts.shape[1]) < sizes[:, np.newaxis]
        return found

    def restore(self, codes: IntArray, state: State) -> None:
        """Continue the windows of a `state`."""
        self.size[codes], self.taken[codes] = state["window"], state["taken"]
        self._grid[codes] = state["grid"]
        opened = codes[self.size[codes] > 0]
        rows = np.zeros((opened.size, self._parts.shape[1]), dtype=np.int64)
        rows[self._of_grid(opened)] = state["counts"]
        self._parts[opened] = rows  # counts add up
