"""The result of range queries."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from tidegate.lattice import FloatArray, IntArray

if TYPE_CHECKING:
    from tidegate.record.record import Record


_CROWDED = 0.8  # of the threshold: where the mean of uncut values seldom lies
CUT = "values lie close to it: if most are cut, the true sum is larger"


@dataclass(frozen=True)
class Answer:
    """The sum over one range of values truncated at `threshold`.

    Attributes:
        start, end: the range, half-open, counted from the first released value.
        estimate: the sum of the published values (before debts, if they are made non-negative); of
            an adaptive release, the best estimate given everything released.
        noise_error: standard deviation of the noise of the completed blocks: exact. Of an adaptive
            release, the posterior standard deviation from noise and forecasts.
        prediction_error: estimated standard error of predictions in blocks that the range cuts.
        standard_error: both together.
        low, high: the interval around the estimate that holds the truncated sum with `confidence`.
            Where the estimate makes up for truncation, `low` is lower by the same amount.
        threshold: larger values counted as this, in the part of the range where it was lowest. What
            truncation took away is not known here and not part of the interval.
        highest: the same where it was highest. (None: as `threshold`.)
        full: what the sum would be if every value were cut. (None: as many times `threshold`.)
    """

    start: int
    end: int
    estimate: float
    noise_error: float
    prediction_error: float
    low: float
    high: float
    confidence: float
    threshold: float
    highest: float | None = None
    full: float | None = None

    @property
    def standard_error(self) -> float:
        """√(noise_error² + prediction_error²)."""
        return math.hypot(self.noise_error, self.prediction_error)

    @property
    def crowded(self) -> bool:
        """Whether the mean lies close to the threshold, as if most values were cut there.

        A function of the answer: free. Then the true sum may be much larger than any interval
        says.
        """
        full = self.threshold * (self.end - self.start) if self.full is None else self.full
        return self.estimate > _CROWDED * full > 0

    def __str__(self) -> str:
        half = (self.high - self.low) / 2
        return (
            f"[{self.start}, {self.end}): {self.estimate:.6g} ± {half:.3g} ({self.confidence:.0%})"
            f", sum of values truncated at {truncation(self.threshold, self.highest)}"
            f"{f' ({CUT})' if self.crowded else ''}"
        )


def truncation(lowest: float, highest: float | None) -> str:
    """One level, or from where to where it moved."""
    if highest is None or highest == lowest:
        return f"{lowest:g}"
    return f"{lowest:g} to {highest:g}"


@dataclass(frozen=True)
class Answers:
    """The sums over many ranges: the attributes of `Answer`, as arrays.

    `threshold` is the lowest of all ranges; `caps` has a row for each: lowest,
    highest, and the sum of the thresholds of all values.
    """

    start: IntArray
    end: IntArray
    estimate: FloatArray
    noise_error: FloatArray
    prediction_error: FloatArray
    low: FloatArray
    high: FloatArray
    confidence: float
    threshold: float
    caps: FloatArray | None = None

    @property
    def highest(self) -> float:
        """The highest level of all ranges at which values were truncated."""
        return (
            self.threshold if self.caps is None or not len(self) else float(self.caps[:, 1].max())
        )

    @classmethod
    def around(
        cls,
        estimate: FloatArray,
        start: IntArray,
        end: IntArray,
        noise: FloatArray,
        prediction: FloatArray,
        *,
        errors: FloatArray | float,
        allowance: FloatArray,
        confidence: float,
        threshold: float,
        caps: FloatArray | None = None,
    ) -> Answers:
        """Intervals that reach `errors` standard errors to both sides.

        `noise` and `prediction` are variances; `allowance` is what the estimate adds for values
        that truncation took away, which `low` takes back.
        """
        half = errors * np.sqrt(noise + prediction)
        return cls(
            start=start,
            end=end,
            estimate=estimate,
            noise_error=np.sqrt(noise),
            prediction_error=np.sqrt(prediction),
            low=estimate - half - allowance,
            high=estimate + half,
            confidence=confidence,
            threshold=threshold,
            caps=caps,
        )

    @property
    def standard_error(self) -> FloatArray:
        """√(noise_error² + prediction_error²)."""
        return np.hypot(self.noise_error, self.prediction_error)

    def __len__(self) -> int:
        return self.start.size

    def __getitem__(self, index: int) -> Answer:
        columns = ("estimate", "noise_error", "prediction_error", "low", "high")
        numbers = {name: float(getattr(self, name)[index]) for name in columns}
        start, end = int(self.start[index]), int(self.end[index])
        numbers["threshold"] = numbers["highest"] = self.threshold
        if self.caps is not None:
            numbers["threshold"], numbers["highest"], numbers["full"] = self.caps[index].tolist()
        return Answer(start, end, confidence=self.confidence, **numbers)


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
