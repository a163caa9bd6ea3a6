"""Sums, means and population totals by time, from the tallies of rounds.

A report y of a value v cut at θ has E[y | v] = v. The devices of a part of a round that were asked
for the threshold instead are as many more of the same kind: who is asked what does not depend on
values. So each report of the part stands for w = (all answers)/(reports) devices, and the
sum over all devices of the round that answered is estimated as Σ w·y. A part without reports is
represented by the others of its round.

**Its error.** Σ w²(y − m)² has the expectation w²·(Σ Var(y | v) + Σ (v − m)²): the noise, plus the
spread of the values, which covers what representing others costs, n·w·(w − 1)·spread. For a
population of N devices of which n answered, as if drawn from it, w = N/n, and the same holds: the
error of the estimate is w²·(noise + (1 − n/N)·spread). A handful of reports shows no spread, so
the worst case is mixed in (`CollectedSums`), of values too where reports stand for others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tidegate.errors import QueryError
from tidegate.lattice import IntArray
from tidegate.local.collected_sums import noise_variance_collected
from tidegate.local.questions import ValueQuestion
from tidegate.local.report_variance import worst_report_variance
from tidegate.local.task.task_round import RoundPart, TaskRound
from tidegate.record.range_queries_and_answers import Answers, normal_quantile
from tidegate.record.record import record_confidence


@dataclass(frozen=True)
class RoundSums:
    """The estimates from one round, or from several together.

    Attributes:
        devices: how many answered.
        reports: how many of them reported their value.
        estimate, allowance, variance: of the sum over all devices that answered; the allowance is
            what was added for truncation.
        caps: where values were cut: a row of `Answers.caps`.
    """

    devices: int = 0
    reports: int = 0
    estimate: float = 0.0
    allowance: float = 0.0
    variance: float = 0.0
    caps: tuple[float, ...] = (np.inf, -np.inf, 0.0, -np.inf, np.inf, 0.0)

    def __add__(self, other: RoundSums) -> RoundSums:
        (low, high, full, floor, lowest, empty), more = self.caps, other.caps
        caps = (min(low, more[0]), max(high, more[1]), full + more[2])
        floors = (max(floor, more[3]), min(lowest, more[4]), empty + more[5])
        return RoundSums(
            self.devices + other.devices,
            self.reports + other.reports,
            self.estimate + other.estimate,
            self.allowance + other.allowance,
            self.variance + other.variance,
            (*caps, *floors),
        )

    @classmethod
    def of(cls, opened: TaskRound, step: float, population: int | None = None) -> RoundSums:
        """The sum over the devices of a round that answered, or over a population of this size.

        Args:
            opened: the round.
            step: the resolution.
            population: how many devices there are, of which those that answered are a sample.
        """
        parts = [_CountsByTime.of(part) for part in opened.parts]
        devices = _devices_by_time(parts)
        heard = [part for part in parts if part.reports]
        if population is not None and heard and population < devices:
            raise QueryError(
                f"population: {devices} devices answered in a round: it cannot be smaller than that"
            )
        represented = devices if population is None else population
        factor = represented / max(_devices_by_time(heard), 1)
        return sum(
            (part.sums(step, factor) for part in heard), cls(devices - _devices_by_time(heard))
        )


def _devices_by_time(parts: Iterable[_CountsByTime]) -> int:
    return sum(part.devices for part in parts)


@dataclass(frozen=True)
class _CountsByTime:
    """The answers of the devices of a part.

    Attributes:
        devices: how many answered.
        value: the question for the value; None: nobody was asked for it.
        counts: how often each report to it was given.
        offset: what truncation is expected to take from a value, in units of the data.
    """

    devices: int
    value: ValueQuestion | None
    counts: IntArray
    offset: float

    @classmethod
    def of(cls, part: RoundPart) -> _CountsByTime:
        devices = sum(int(counts.sum()) for counts in part.counts)
        asked = [
            (slot.question, counts)
            for slot, counts in zip(part.slots, part.counts, strict=True)
            if isinstance(slot.question, ValueQuestion)
        ]
        if not asked:
            return cls(devices, None, np.zeros(0, dtype=np.int64), part.offset)
        return cls(devices, asked[0][0], np.sum([one[1] for one in asked], axis=0), part.offset)

    @property
    def reports(self) -> int:
        """The number of reported values."""
        return int(self.counts.sum())

    def sums(self, step: float, factor: float) -> RoundSums:
        """The sum over `factor` times the devices of the part: each report represents several."""
        if self.value is None:
            raise AssertionError("a part with reports has asked for the value")
        reports, value = self.reports, self.value
        weight = factor * self.devices / reports
        worth = value.decoded * step
        first, second = float(self.counts @ worth), float(self.counts @ np.square(worth))
        # What a report says of values that sent none is as far off as values are apart.
        of_report, of_values = worst_report_variance(value)
        worst = of_report + (1 - 1 / weight) * of_values
        variance = noise_variance_collected(
            count=reports,
            mean=first / reports,
            squared=reports,
            first=first,
            second=second,
            worst=float(reports * worst * step**2),
        )
        theta, floor, added = value.threshold * step, value.lowest * step, self.offset * reports
        full, empty = weight * theta * reports, weight * floor * reports
        return RoundSums(
            self.devices,
            reports,
            weight * (first + added),
            weight * added,
            weight**2 * float(variance),
            (theta, theta, full, floor, floor, empty),
        )


def sums_by_time(groups: Sequence[Iterable[RoundSums]], confidence: float = 0.95) -> Answers:
    """One answer for each group of rounds; `start` and `end` count devices, from 0 in each.

    The interval holds the sum of the values as they were cut; where the estimate allows for what
    cutting took away, it reaches down by as much, as in `CollectedSums.queries`.
    """
    confidence = record_confidence(confidence)
    found = [sum(group, RoundSums()) for group in groups]
    columns = np.array([(one.estimate, one.variance, one.allowance) for one in found])
    estimate, variance, allowance = columns.reshape(-1, 3).T
    caps = np.array([one.caps for one in found]).reshape(-1, 6)
    caps[~np.isfinite(caps[:, 0])] = 0.0  # without any report
    return Answers.around(
        estimate,
        np.zeros(len(found), dtype=np.int64),
        np.array([one.devices for one in found], dtype=np.int64),
        variance,
        np.zeros(len(found)),
        errors=normal_quantile(confidence),
        allowance=allowance,
        confidence=confidence,
        threshold=float(caps[:, 0].min(initial=np.inf)) if len(found) else 0.0,
        caps=caps,
    )
