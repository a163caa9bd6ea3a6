"""`KeyedRows`: released rows of many keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.clock import Clock
from tidegate.lattice import FloatArray, IntArray
from tidegate.tables.from_numpy import Tabular


@dataclass(frozen=True, repr=False)
class KeyedRows(Tabular):
    """Released rows in the order of their inputs; the rows of a key are in order of position.

    Attributes:
        names: all keys.
        codes: which of the names each row has.
        positions: of each row within its key, counted from 0.
        values: what was released; sums are made of it, and single ones look wild.
        levels: what a value is expected to be: smooth, within the bounds, for people to look at.
        times: as they were given, in nanoseconds since 1970; None: none were.
        clock: of the times.
    """

    names: Sequence[str]
    codes: IntArray
    positions: IntArray
    values: FloatArray
    levels: FloatArray
    times: IntArray | None = None
    clock: Clock | None = None

    def __len__(self) -> int:
        return self.values.size

    def __repr__(self) -> str:
        return f"<KeyedRows of {len(self)} rows>"

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
        """The rows as columns: key, time if they have one, position, value, level."""
        times = {} if self.times is None else {"time": self.times.astype("datetime64[ns]")}
        numbers = {"position": self.positions, "value": self.values, "level": self.levels}
        return {"key": self.keys, **times, **numbers}
