"""What a source gives: batches of the stream, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tidegate._contexts import Context

BATCH_ROWS = 1 << 20
"""No batch is longer than this."""

Numbers = NDArray[np.float64] | NDArray[np.int64]
Objects = NDArray[np.object_]


@dataclass(frozen=True, slots=True, repr=False)
class Batch:
    """Consecutive rows: float64 with NaN for a missing value, or int64.

    `users` holds the user of each row, text or an integer, or None where the file has none; it is
    None altogether unless a user column was asked for. Values may be read-only.
    """

    values: Numbers
    users: Objects | None = None

    def __len__(self) -> int:
        return int(self.values.size)

    def __repr__(self) -> str:  # raw values are shown by nothing of ours
        return f"<Batch of {len(self)} rows{'' if self.users is None else ' with users'}>"


class Source(Context, Protocol):
    """An open input. A context manager; leaving it closes it."""

    @property
    def rows(self) -> int | None:
        """How many rows there are, where that is known beforehand."""

    def batches(self) -> Iterator[Batch]:
        """The stream from its start, once. What precedes a bad row is given before the error."""

    def fraction(self) -> float | None:
        """How much has been read, 0 to 1, or None where the end is not known."""

    def close(self) -> None:
        """Let go of the file. A source that follows a file ends its batches."""


def objects(items: list[Any]) -> Objects:
    """An array of exactly these objects; numpy would make numbers or text of its own of them."""
    array: Objects = np.empty(len(items), dtype=object)
    array[:] = items
    return array
