"""Rows of many keys: released rows, and rows grouped by key and block.

`KeyedRows` are released rows. Engines, whatever runs the streams, are handed rows grouped by key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tidegate.clock import Clock
from tidegate.lattice import FloatArray, IntArray
from tidegate.tables.tables_from_numpy import Tabular


class KeyedRowRuns(NamedTuple):
    """Runs of consecutive rows of one key that publish the same numbers.

    Attributes:
        of_row: the run of each row.
        first: the first row of each run.
    """

    of_row: NDArray[np.int32]
    first: IntArray


@dataclass(frozen=True, repr=False)
class KeyedRows(Tabular):
    """Released rows in the order of their inputs; the rows of a key are ordered by position.

    Attributes:
        names: all keys.
        codes: which of the names each row has.
        positions: of each row within its key, counted from 0.
        values: what was released; sums are made of it, and single ones look wild.
        levels: what a value is expected to be: smooth, within the bounds, for people to look at.
        times: as they were given, in nanoseconds since 1970; None: none were.
        clock: of the times.
        groups: the rows by key, if someone has grouped them.
        runs: which rows publish the same numbers, if someone knows.
    """

    names: Sequence[str]
    codes: IntArray
    positions: IntArray
    values: FloatArray
    levels: FloatArray
    times: IntArray | None = None
    clock: Clock | None = None
    groups: KeyedRowGroups | None = field(default=None, compare=False)
    runs: KeyedRowRuns | None = field(default=None, compare=False)

    def __len__(self) -> int:
        return self.values.size

    def __repr__(self) -> str:
        return f"<KeyedRows of {len(self)} rows>"

    @property
    def zone(self) -> str | None:
        """The zone of the times, if they have one."""
        return None if self.clock is None else self.clock.zone

    @property
    def keys(self) -> NDArray[Any]:
        """The key of each row."""
        return np.array(self.names, dtype=np.str_)[self.codes]

    def of(self, key: str) -> KeyedRows:
        """The rows of one key."""
        mine = np.flatnonzero(self.codes == list(self.names).index(key))
        return self.part(mine)

    def part(self, rows: IntArray | slice) -> KeyedRows:
        """Some of the rows."""
        return KeyedRows(
            self.names,
            self.codes[rows],
            self.positions[rows],
            self.values[rows],
            self.levels[rows],
            None if self.times is None else self.times[rows],
            self.clock,
        )

    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns: key, time (if there is one), position, value, level."""
        times = {} if self.times is None else {"time": self.times.astype("datetime64[ns]")}
        numbers = {"position": self.positions, "value": self.values, "level": self.levels}
        return {"key": self.keys, **times, **numbers}


@dataclass
class KeyedReleased:
    """The result for each row of a push; `released` is false for rows that were held out."""

    released: NDArray[np.bool_]
    positions: IntArray
    values: FloatArray
    levels: FloatArray
    runs: KeyedRowRuns | None = None

    @classmethod
    def empty(cls, rows: int) -> KeyedReleased:
        """Zeros, never uninitialised memory."""
        released = np.zeros(rows, dtype=np.bool_)
        return cls(released, np.zeros(rows, dtype=np.int64), np.zeros(rows), np.zeros(rows))

    def put(self, rows: NDArray[np.bool_], found: KeyedReleased) -> None:
        """Store the result for these rows."""
        if rows.all():
            vars(self).update(vars(found))
            return
        self.runs = None
        for name in ("released", "positions", "values", "levels"):
            getattr(self, name)[rows] = getattr(found, name)


_SMALL = 1 << 15

Kind = TypeVar("Kind", bound=np.generic)


class KeyedRowGroups:
    """Rows with codes ≥ 0, grouped by key on demand.

    Attributes:
        codes: of all rows.
    """

    def __init__(self, codes: IntArray) -> None:
        self.codes = codes

    @cached_property
    def once(self) -> bool:
        """Whether each key has at most one row."""
        codes = self.codes
        if codes.size < 2 or self.in_order:
            return bool((codes[1:] > codes[:-1]).all())
        keys = int(codes.max()) + 1
        if codes.size > keys:
            return False
        mark = np.zeros(keys, dtype=np.int32)
        places = np.arange(codes.size, dtype=np.int32)
        mark[codes] = places
        return bool((mark[codes] == places).all())

    @cached_property
    def in_order(self) -> bool:
        """Whether rows are already sorted by code, so that nothing need be moved."""
        return bool((self.codes[1:] >= self.codes[:-1]).all())

    @cached_property
    def order(self) -> IntArray:
        """The row indices sorted by key; rows of a key keep their order."""
        if self.in_order:
            return np.arange(self.codes.size)
        # Numbers of 16 bits are sorted by digits: several times as fast.
        small = not self.codes.size or self.codes.max() < _SMALL
        keys = self.codes.astype(np.int16) if small else self.codes
        return np.argsort(keys, kind="stable")

    @cached_property
    def starts(self) -> IntArray:
        """The beginning of each key in `order`."""
        codes = self.by_key(self.codes)
        begins = np.ones(codes.size, dtype=np.bool_)
        begins[1:] = codes[1:] != codes[:-1]
        return np.flatnonzero(begins)

    @property
    def present(self) -> IntArray:
        """The codes that occur, ascending."""
        return self.codes[self.starts if self.in_order else self.order[self.starts]]

    def by_key(self, column: NDArray[Kind]) -> NDArray[Kind]:
        """A column of the rows, sorted by key."""
        return column if self.in_order else column[self.order]

    def as_given(self, column: NDArray[Kind]) -> NDArray[Kind]:
        """A column that is sorted by key, back in the order of the rows."""
        if self.in_order:
            return column
        found = np.empty_like(column)
        found[self.order] = column
        return found

    def parts(self) -> Iterator[tuple[int, IntArray]]:
        """Each code with its rows."""
        starts = [*self.starts.tolist(), self.codes.size]
        for at, code in enumerate(self.present.tolist()):
            yield code, self.order[starts[at] : starts[at + 1]]


class KeyedSegments:
    """Pieces of one key and one block each, in the order of `groups.order`.

    Attributes:
        keys, counts: the codes that there are, and how many rows each has.
        positions: of each row within its key.
        starts, sizes: of each piece, in rows.
        codes, leaves: of each piece: its key, and its block, counted over all horizons.
        closes: whether a piece fills its block.
        first, last: of each key, the first and the last piece.
    """

    def __init__(self, groups: KeyedRowGroups, position: IntArray, block: int) -> None:
        self.keys = groups.present
        self.counts = np.diff(groups.starts, append=groups.codes.size)
        begun = position[self.keys]
        rows = np.repeat(begun - groups.starts, self.counts)
        self.positions: IntArray = np.arange(groups.codes.size) + rows
        leaf = begun // block
        ends = begun + self.counts
        pieces = (ends - 1) // block - leaf + 1
        self.last: IntArray = np.cumsum(pieces) - 1
        self.first: IntArray = self.last - pieces + 1
        self.codes = np.repeat(self.keys, pieces)
        within = np.arange(self.codes.size) - np.repeat(self.first, pieces)
        self.leaves: IntArray = np.repeat(leaf, pieces) + within
        # Pieces begin with a block, the first of a key wherever the key is.
        self.starts: IntArray = np.repeat(groups.starts - begun, pieces) + self.leaves * block
        self.starts[self.first] = groups.starts
        self.sizes = np.diff(self.starts, append=groups.codes.size)
        self.closes: NDArray[np.bool_] = np.ones(self.codes.size, dtype=np.bool_)
        self.closes[self.last] = ends % block == 0
