"""`HeldSource`: a file that was read into memory. As secret as the file."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate._context_managers import Closed
from tidegate.io.batches import Batch, Source


class HeldSource(Closed):
    """All batches of a source, in memory: for callers that need to know all rows first.

    Args:
        source: is read to its end; an error of it is raised here. The caller closes it.
    """

    def __init__(self, source: Source) -> None:
        self.held = list(source.batches())
        self._all = sum(map(len, self.held))
        self._given = 0

    def __repr__(self) -> str:
        return "<HeldSource>"  # neither values nor their number

    @property
    def rows(self) -> int | None:
        """The number of rows."""
        return self._all

    def batches(self) -> Iterator[Batch]:
        """The rows from their start, once; they are dropped as they are returned."""
        self.held.reverse()
        while self.held:
            batch = self.held.pop()
            self._given += len(batch)
            yield batch

    def fraction(self) -> float | None:
        """The share that was returned, 0 to 1."""
        return self._given / self._all if self._all else 1.0

    def close(self) -> None:
        """Drop the rows."""
        self.held.clear()
