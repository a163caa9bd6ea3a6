"""`HeldSource`: a file that was read to its end, and waits in memory. As secret as the file."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate._context_managers import Closed
from tidegate.io.batches import Batch, Source


class HeldSource(Closed):
    """The batches of a source, read at once: for whoever must know all rows before the first.

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
        """How many rows there are."""
        return self._all

    def batches(self) -> Iterator[Batch]:
        """The rows from their start, once; what was given is not held any more."""
        self.held.reverse()
        while self.held:
            batch = self.held.pop()
            self._given += len(batch)
            yield batch

    def fraction(self) -> float | None:
        """How much was given, 0 to 1."""
        return self._given / self._all if self._all else 1.0

    def close(self) -> None:
        """Forget the rows."""
        self.held.clear()
