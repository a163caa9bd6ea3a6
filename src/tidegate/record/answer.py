"""What a range query gives back."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tidegate.lattice import FloatArray, IntArray


@dataclass(frozen=True)
class Answer:
    """The sum over one range, of values truncated at `threshold`.

    Attributes:
        start, end: the range, half-open, counted from the first released value.
        estimate: the sum of the published values (before debts, if they are made non-negative); of
            an adaptive release, the best estimate given everything released.
        noise_error: standard deviation of the noise of the completed blocks: exact. Of an adaptive
            release, the posterior standard deviation that noise and forecasts leave.
        prediction_error: estimated standard error of predictions in blocks that the range cuts.
        standard_error: both together.
        low, high: the interval around the estimate that holds the truncated sum with `confidence`.
            Where the estimate allows for what truncation took away, `low` reaches down by as much.
        threshold: larger values counted as this much, in the part of the range where it was least.
            What truncation took away is not known here and not part of the interval.
        highest: the same where it was most. (None: as `threshold`.)
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

    @property
    def standard_error(self) -> float:
        """√(noise_error² + prediction_error²)."""
        return math.hypot(self.noise_error, self.prediction_error)

    def __str__(self) -> str:
        half = (self.high - self.low) / 2
        return (
            f"[{self.start}, {self.end}): {self.estimate:.6g} ± {half:.3g} ({self.confidence:.0%})"
            f", sum of values truncated at {truncation(self.threshold, self.highest)}"
        )


def truncation(lowest: float, highest: float | None) -> str:
    """One level, or from where to where it moved."""
    if highest is None or highest == lowest:
        return f"{lowest:g}"
    return f"{lowest:g} to {highest:g}"


@dataclass(frozen=True)
class Answers:
    """The sums over many ranges: the attributes of `Answer`, as arrays.

    `threshold` is the lowest of all ranges; `caps` has a row for each: lowest and highest.
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
        return self.threshold if self.caps is None or not len(self) else float(self.caps.max())

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
            numbers["threshold"], numbers["highest"] = self.caps[index].tolist()
        return Answer(start, end, confidence=self.confidence, **numbers)
