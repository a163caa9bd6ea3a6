"""`query` and `queries`: sums over ranges, the same for everything that has a record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from tidegate.record.answer import Answer, Answers

if TYPE_CHECKING:
    from tidegate.record.record import Record


class RangeQueries(ABC):
    """Answers range queries from a record, which `_answered` provides."""

    @abstractmethod
    def _answered(self, ask: Callable[[Record], Answers]) -> Answers:
        """Call `ask` with the record, under the lock that guards it."""

    def query(
        self, start: int, end: int, confidence: float = 0.95, *, as_of: int | None = None
    ) -> Answer:
        """The sum of the released values [start, end), counted from 0, with its interval.

        `as_of=t`: as it would have been answered when t values were released.
        """
        return self.queries([start], [end], confidence, as_of=as_of)[0]

    def queries(
        self,
        starts: ArrayLike,
        ends: ArrayLike,
        confidence: float = 0.95,
        *,
        as_of: int | None = None,
    ) -> Answers:
        """The sums over many ranges [start, end) at once: see `Record.answers`."""
        return self._answered(lambda record: record.answers(starts, ends, confidence, as_of))
