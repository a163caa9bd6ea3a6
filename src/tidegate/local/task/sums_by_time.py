"""Sums, means and population totals by time, from the tallies of rounds.

A report y of a value v cut at θ has E[y | v] = v. The devices of a part of a round that were asked
for the threshold instead are as many more of the same kind: who is asked what does not depend on
values. So each report of the part stands for w = (all answers)/(reports) devices, and the
sum over all devices of the round that answered is estimated as Σ w·y. A part without reports is
represented by the others of its round.

**Its error.** Σ w²(y − m)² has the expectation w²·(Σ Var(y | v) + Σ (v − m)²): the noise, plus the
spread of the values, which covers what representing others costs, n·w·(w − 1)·spread. For a
population of N devices of which n answered, as if drawn from it, w = N/n, and the same holds: the
error of the estimate is w²·(noise + (1 − n/N)·spread).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tidegate.errors import QueryError
from tidegate.local.collected_sums import noise_variance
from tidegate.local.questions import ValueQuestion
from tidegate.local.report_variance import largest_variance
from tidegate.local.task.task_round import RoundPart, TaskRound
from tidegate.record.range_queries_and_answers import Answers, normal_quantile
from tidegate.record.record import checked_confidence


@dataclass(frozen=True)
class RoundSums:
    """What is known of one round, or of several together.

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

    def times(self, factor: float) -> RoundSums:
        """The same for this many times the devices."""
        low, high, full, floor, lowest, empty = self.caps
        return RoundSums(
            self.devices,
            self.reports,
            factor * self.estimate,
            factor * self.allowance,
            factor**2 * self.variance,
            (low, high, factor * full, floor, lowest, factor * empty),
        )

    @classmethod
    def of(cls, opened: TaskRound, step: float, population: int | None = None) -> RoundSums:
        """The sum over the devices of a round that answered, or over a population of this size.

        Args:
            opened: the round.
            step: the resolution.
            population: how many devices there are, of which those that answered are a sample.
        """
        parts = [_sums_of_part(part, step) for part in opened.parts]
        found = sum((one for one in parts if one.reports), cls())
        silent = sum(one.devices for one in parts if not one.reports)
        if not found.reports:
            return cls(devices=silent)
        factor = (found.devices + silent) / found.devices
        if population is not None:
            if population < found.devices + silent:
                raise QueryError(
                    f"population: {found.devices + silent} devices answered in a round: it cannot "
                    "be smaller than that"
                )
            factor = population / found.devices
        whole = found.times(factor)
        return cls(found.devices + silent, *(getattr(whole, name) for name in _REST))


_REST = ("reports", "estimate", "allowance", "variance", "caps")


def _sums_of_part(part: RoundPart, step: float) -> RoundSums:
    """The devices of a part: those that reported their value stand for all of them."""
    devices = sum(int(counts.sum()) for counts in part.counts)
    value = next(
        (slot.question for slot in part.slots if isinstance(slot.question, ValueQuestion)), None
    )
    if value is None:
        return RoundSums(devices)
    counts = sum(
        counts
        for slot, counts in zip(part.slots, part.counts, strict=True)
        if isinstance(slot.question, ValueQuestion)
    )
    reports = int(np.sum(counts))
    if not reports:
        return RoundSums(devices)
    worth = value.decoded * step
    first, second = float(counts @ worth), float(counts @ np.square(worth))
    variance = noise_variance(
        count=reports,
        mean=first / reports,
        squared=reports,
        first=first,
        second=second,
        worst=reports * largest_variance(value) * step**2,
    )
    theta, floor = value.threshold * step, value.lowest * step
    added = part.offset * reports
    caps = (theta, theta, theta * reports, floor, floor, floor * reports)
    all_reports = RoundSums(reports, reports, first + added, added, float(variance), caps)
    weighted = all_reports.times(devices / reports)
    return RoundSums(devices, *(getattr(weighted, name) for name in _REST))


def sums_by_time(groups: Sequence[Iterable[RoundSums]], confidence: float = 0.95) -> Answers:
    """One answer for each group of rounds; `start` and `end` count devices, from 0 in each.

    The interval holds the sum of the values as they were cut; where the estimate allows for what
    cutting took away, it reaches down by as much, as in `CollectedSums.queries`.
    """
    confidence = checked_confidence(confidence)
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
