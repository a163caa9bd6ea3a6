"""Raw values of many keys that choose θ: the values of warm-ups.

They are secret, and are overwritten as soon as a choice was made.
"""

from __future__ import annotations

import numpy as np

from tidegate.lattice import IntArray

_NO_ROW = -1
_NONE = np.zeros(0, dtype=np.int64)
_FIRST = 16  # values that a row has room for at first


def with_room_for_keys(column: IntArray, room: int, fill: int = 0) -> IntArray:
    """A column with room for more keys."""
    rest = np.full((room - len(column), *column.shape[1:]), fill, dtype=column.dtype)
    return np.concatenate((column, rest))


class HeldRawValues:
    """`HoldOut` for many keys: a table row for each key whose warm-up is open.

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
        """Make room for more keys, which begin with a warm-up of this size."""
        self.count, self.size = (
            with_room_for_keys(self.count, room),
            with_room_for_keys(self.size, room, size),
        )
        self._row = with_room_for_keys(self._row, room, _NO_ROW)

    def begin(self, code: int, size: int) -> None:
        """Begin a warm-up of a key."""
        self.count[code], self.size[code] = 0, size

    def add(self, codes: IntArray, counts: IntArray, units: IntArray) -> None:
        """Hold values of distinct keys, key by key: this many of each."""
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
        """The first values of keys that have this many: one row for each."""
        if not count:
            return np.zeros((codes.size, 0), dtype=np.int64)
        return self._table[self._row[codes], :count]

    def wipe(self, codes: int | IntArray) -> None:
        """Erase the values of keys: they are kept no longer than needed."""
        rows = np.atleast_1d(self._row[codes])
        rows = rows[rows != _NO_ROW]
        self._table[rows] = 0
        self._free += rows.tolist()
        self._row[codes] = _NO_ROW
        self.count[codes] = 0
