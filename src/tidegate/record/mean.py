"""`Mean`: a sum over the number of its rows, which is public. Post-processing: it costs nothing."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.errors import QueryError
from tidegate.record.answer import Answer


@dataclass(frozen=True)
class Mean:
    """The mean of the values of a range, with its interval; of events, of the sums of its ticks.

    Attributes:
        sum: of the range.
        rows: how many it has.

    >>> import tidegate as tg
    >>> release = tg.flat(epsilon=1, bound=10, holdout=0).start()
    >>> _ = release.push([4] * 100)
    >>> mean = Mean.of(release.query(0, 100))
    >>> mean.low < mean.estimate < mean.high
    True
    """

    sum: Answer
    rows: int

    @classmethod
    def of(cls, answer: Answer) -> Mean:
        """The mean of a sum over all its rows.

        Raises:
            QueryError: it has none.
        """
        rows = answer.end - answer.start
        if not rows:
            raise QueryError("there is no row in this range, and so no mean")
        return cls(answer, rows)

    @property
    def estimate(self) -> float:
        """The mean."""
        return self.sum.estimate / self.rows

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.sum.low / self.rows

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self.sum.high / self.rows

    @property
    def standard_error(self) -> float:
        """Of the estimate."""
        return self.sum.standard_error / self.rows

    @property
    def confidence(self) -> float:
        """With which the interval holds the mean."""
        return self.sum.confidence

    def __str__(self) -> str:
        note = f". {self.sum.note}" if self.sum.note else ""
        return (
            f"mean of {self.rows:,} rows: {self.estimate:.6g} "
            f"({self.confidence:.0%}: {self.low:.6g} to {self.high:.6g}), "
            f"values were {self.sum.cut}{note}"
        )
