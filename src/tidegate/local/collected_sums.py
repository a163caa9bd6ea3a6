"""Range sums over collected reports, with intervals; bounded memory for any number of reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from tidegate.errors import QueryError
from tidegate.lattice import FloatArray, IntArray
from tidegate.local.canonical_json import finite_json_number, whole_json_number
from tidegate.local.running_sums import CAPACITY, RunningSums
from tidegate.record.range_queries_and_answers import Answers, paired
from tidegate.record.record import record_confidence

# Columns of the running sums. A report that is published w times counts w² in the second moments.
_COLUMNS = 6
_ESTIMATE, _OFFSET, _SQUARED, _FIRST, _SECOND, _WORST = range(_COLUMNS)
# The most that a state file may hold. Each threshold needs a survey, so they are rare.
_MOST_THRESHOLDS = 1 << 20
_HUGE = 1e100
# The variance of a range is estimated from its reports; this many reports' worth of the worst case
# is mixed in, such that the estimate from a handful of reports is not believed.
_WORST_CASE_REPORTS = 64


Numbers = TypeVar("Numbers", float, FloatArray)


def noise_variance_collected(
    *,
    count: Numbers | IntArray,
    mean: Numbers,
    squared: Numbers | int,
    first: Numbers,
    second: Numbers,
    worst: Numbers,
) -> Numbers:
    """The noise variance of a sum of reports, estimated from the reports (see `CollectedSums`).

    Args:
        count: how many there are.
        mean: of the reports.
        squared, first, second: Σ w², Σ w²y, Σ w²y² over the reports y, each published w times.
        worst: of reports and values that nobody has seen: Σ w² times the largest variance of a
            report, plus Σ w·(w − 1) times the largest variance of values.
    """
    spread = np.maximum(second - 2 * mean * first + mean**2 * squared, 0.0)
    trust = count / (count + _WORST_CASE_REPORTS)
    variance: Numbers = trust * spread + (1 - trust) * worst
    return variance


class CollectedSums:
    """The published positions, and the sums of their noise variances.

    The variance of a report depends on the value v behind it, which nobody knows. A range of
    published reports y with mean m has Σ w²(y − m)² with expectation Σ w²·(Var(y | v) + (v − m)²):
    the exact variance of the noise, plus the spread of the truncated values themselves. That is
    what is used. It is never too small on average, and hardly too large where values are mostly far
    below θ; the spread also covers that a device that answered another question is represented
    by its neighbour.

    A handful of reports shows neither, so the worst case is mixed in. A report that stands for w
    values misses their sum by w times its noise, and by the distance between w − 1 of them and its
    own value: w²·Var(y | v) + w·(w − 1)·Var(v), and no values between two ends have a larger
    variance than half at each.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.sums = RunningSums(columns=_COLUMNS, capacity=capacity)
        # (first position, θ and the least value in use from there on): all that grows, by one with
        # each change of θ.
        self.thresholds: list[tuple[int, float, float]] = []

    @property
    def count(self) -> int:
        """The number of published positions."""
        return self.sums.count

    def begin(self, threshold: float, lowest: float = 0.0) -> None:
        """Set the caps of later values: `threshold`, and `lowest` below 0."""
        self.thresholds.append((self.count, threshold, lowest))

    def push(
        self, worth: FloatArray, repeats: IntArray, *, offset: float, worst: FloatArray
    ) -> None:
        """Publish reports.

        Args:
            worth: the report that stands for each position.
            repeats: how often it was published before.
            offset: added to every report.
            worst: the largest variances of a report and of values
            (`report_variance.worst_report_variance`).
        """
        added = np.empty((_COLUMNS, worth.size))
        np.add(worth, offset, out=added[_ESTIMATE])
        added[_OFFSET] = offset
        squared, first = added[_SQUARED], added[_FIRST]
        np.multiply(repeats, 2.0, out=squared)
        squared += 1.0  # (w + 1)² − w²
        np.multiply(squared, worth, out=first)
        np.multiply(first, worth, out=added[_SECOND])
        of_report, of_values = worst
        np.multiply(squared, of_report, out=added[_WORST])
        added[_WORST] += 2.0 * of_values * repeats  # (w + 1)·w − w·(w − 1)
        self.sums.push(added)

    def queries(self, starts: ArrayLike, ends: ArrayLike, confidence: float = 0.95) -> Answers:
        """The sums over ranges [start, end) of published positions.

        The interval holds the sum of the values cut at θ with `confidence`; where the estimate
        allows for what truncation took away, `low` reaches down by as much. A position between two
        marks of the running sums is interpolated: `prediction_error` is the largest standard error
        that this has for independent values with the mean of the cut block.
        """
        from statistics import NormalDist  # on demand: importing it is slow

        confidence = record_confidence(confidence)
        begin, end = self._checked(starts, ends)
        ranges = self.sums.before(end) - self.sums.before(begin)
        estimate, offset = ranges[:, _ESTIMATE], ranges[:, _OFFSET]
        length = np.maximum(end - begin, 1)
        mean = (estimate - offset) / length
        noise = noise_variance_collected(
            count=length,
            mean=mean,
            squared=ranges[:, _SQUARED],
            first=ranges[:, _FIRST],
            second=ranges[:, _SECOND],
            worst=ranges[:, _WORST],
        )
        caps = self._caps(begin, end)
        prediction = self._cut_variance(begin, caps) + self._cut_variance(end, caps)
        errors = NormalDist().inv_cdf((1 + confidence) / 2)
        return Answers.around(
            estimate,
            begin,
            end,
            noise,
            prediction,
            errors=errors,
            allowance=offset,
            confidence=confidence,
            threshold=float(caps[:, 0].min(initial=np.inf)) if caps.size else 0.0,
            caps=caps,
        )

    def _cut_variance(self, positions: IntArray, caps: FloatArray) -> FloatArray:
        past, length = self.sums.cut(positions)
        share = past / np.maximum(length, 1)
        around = self.sums.before(positions - past + length) - self.sums.before(positions - past)
        mean = (around[:, _ESTIMATE] - around[:, _OFFSET]) / np.maximum(length, 1)
        highest, lowest = caps[:, 1], caps[:, 4]
        mean = np.clip(mean, lowest, highest)
        single = np.maximum((mean - lowest) * (highest - mean), (highest - lowest) ** 2 / 16)
        variance: FloatArray = past * (1 - share) * single
        return variance

    def _caps(self, begin: IntArray, end: IntArray) -> FloatArray:
        """The caps of the values of each range: a row of `Answers.caps`."""
        caps = np.tile((np.inf, -np.inf, 0.0, -np.inf, np.inf, 0.0), (begin.size, 1))
        stops = [start for start, *_ in self.thresholds[1:]] + [self.count]
        stops = stops[: len(self.thresholds)]  # none while the first is still to be chosen
        for (start, threshold, floor), stop in zip(self.thresholds, stops, strict=True):
            values = np.minimum(end, stop) - np.maximum(begin, start)
            inside = values > 0
            caps[inside, 0] = np.minimum(caps[inside, 0], threshold)
            caps[inside, 1] = np.maximum(caps[inside, 1], threshold)
            caps[inside, 2] += threshold * values[inside]
            caps[inside, 3] = np.maximum(caps[inside, 3], floor)
            caps[inside, 4] = np.minimum(caps[inside, 4], floor)
            caps[inside, 5] += floor * values[inside]
        nothing = np.isinf(caps[:, 0])  # empty ranges
        latest = self.thresholds[-1][1:] if self.thresholds else (0.0, 0.0)
        caps[nothing, :2], caps[nothing, 3:5] = latest
        return caps

    def _checked(self, starts: ArrayLike, ends: ArrayLike) -> tuple[IntArray, IntArray]:
        begin, end = paired(starts, ends)
        wrong = np.flatnonzero((begin > end) | (begin < 0) | (end > self.count))
        if wrong.size:
            start, stop = int(begin[wrong[0]]), int(end[wrong[0]])
            raise QueryError(
                f"range [{start}, {stop}) does not lie within the {self.count} positions published"
            )
        return begin, end

    def plain(self) -> dict[str, Any]:
        """The sums as plain data, for a state file."""
        return {"sums": self.sums.plain(), "thresholds": [list(one) for one in self.thresholds]}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> CollectedSums:
        """The sums from a state file."""
        collected = cls()
        collected.sums = RunningSums.from_plain(plain["sums"])
        if collected.sums.totals.size != _COLUMNS or len(plain["thresholds"]) > _MOST_THRESHOLDS:
            raise ValueError("other columns, or too many thresholds")
        collected.thresholds = [
            (
                whole_json_number(start, "thresholds", 0, collected.count),
                finite_json_number(threshold, "thresholds", _HUGE),
                finite_json_number(lowest, "thresholds", _HUGE),
            )
            for start, threshold, lowest in plain["thresholds"]
        ]
        return collected
