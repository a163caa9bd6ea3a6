"""`Batch` and `Source`: a stream in batches, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tidegate._context_managers import Context
from tidegate.tables.repeated_items import RepeatedItems
from tidegate.timestamps import Times

BATCH_ROWS = 1 << 20
"""No batch is longer than this."""

Numbers = NDArray[np.float64] | NDArray[np.int64]
Objects = NDArray[np.object_]


@dataclass(frozen=True, slots=True, repr=False)
class Batch:
    """Consecutive rows: float64 with NaN for a missing value, or int64.

    `users` holds the user of each row: text, an integer, or None where a row names no user; or its
    key. It is None unless such a column was requested. `start` is the place of the first row,
    counted from 0 over the whole input, for sources that deliver blocks by place; None: it follows
    the batch before. `times` are those of the rows, if a time column was requested. `others` are
    the values of further columns, if several were requested. Values may be read-only.
    """

    values: Numbers
    users: Objects | RepeatedItems | None = None
    start: int | None = None
    times: Times | None = None
    others: tuple[Numbers, ...] = ()

    def part(self, start: int, end: int | None = None) -> Batch:
        """Some of the rows, without their position."""
        where = slice(start, end)
        users = None if self.users is None else self.users[where]
        times = self.times and Times(self.times.ticks[where], self.times.clock)
        others = tuple(column[where] for column in self.others)
        return Batch(self.values[where], users, times=times, others=others)

    def by_column(self) -> list[Batch]:
        """One batch for each column of values."""
        return [replace(self, values=one, others=()) for one in (self.values, *self.others)]

    def __len__(self) -> int:
        return int(self.values.size)

    def __repr__(self) -> str:  # never shows raw values
        return f"<Batch of {len(self)} rows{'' if self.users is None else ' with users'}>"


class Source(Context, Protocol):
    """An open input. A context manager; leaving it closes it."""

    @property
    def rows(self) -> int | None:
        """The number of rows. None: unknown in advance."""

    def batches(self) -> Iterator[Batch]:
        """The stream from its start, once. Rows before a bad row are yielded before the error."""

    def fraction(self) -> float | None:
        """The share that has been read, 0 to 1. None: the end is unknown."""

    def close(self) -> None:
        """Close the file. A source that follows a file ends its batches."""


def object_array(items: list[Any]) -> Objects:
    """An array of exactly these objects, without conversion by numpy."""
    array: Objects = np.empty(len(items), dtype=object)
    array[:] = items
    return array
