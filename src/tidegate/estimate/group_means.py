"""Publish the mean of a group of similar values; answer ranges from the means of whole groups."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar, Protocol

import numpy as np

from tidegate.estimate.sample_and_hold import MeasuredLeaves, SampleAndHold, known_until
from tidegate.lattice import FloatArray, IntArray
from tidegate.settings import Spec
from tidegate.stages import Parts, Perturber, Posterior, Recorded, Spans

_SAFE = 1 << 61  # sums below may be doubled
OPENS, JOINS = 1, 2  # marks: a value begins a group, or belongs to that of the value before


class GroupingPerturber(Protocol):
    """The members of a perturber that marks groups which error bars need."""

    def value_scale(self, threshold: int) -> int:
        """The Laplace scale of the noise on every value."""
        ...

    def usual_deviation(self, threshold: int) -> float:
        """The usual upper limit of Σ |value − mean| in a group."""
        ...


@dataclass(frozen=True, kw_only=True, repr=False)
class GroupMeans(SampleAndHold, Spec):
    """Publishes every value as the mean of the noisy values of its group so far."""

    KIND: ClassVar[str] = "estimate.GroupMeans"

    def level_filter(self, *, threshold: int, perturber: Perturber) -> GroupFilter:
        """A filter that starts at half the threshold."""
        return GroupFilter(threshold // 2)

    def level_variances(self, recorded: Recorded, spans: Spans) -> FloatArray:
        """The variance of the mean of the group so far."""
        group = groups_of(spans.marks)
        place = np.arange(group.size) - np.searchsorted(group, group)  # in its group
        variance = 2.0 * grouping_facts(recorded).value_scale(recorded.threshold) ** 2
        found: FloatArray = variance / (place + 1)
        return found

    def posterior(self, recorded: Recorded, until: int) -> GroupPosterior:  # type: ignore[override]
        """Sums of the means of groups, from what was released until `until`."""
        return GroupPosterior(recorded, until)


class GroupFilter:
    """The level is the mean of the open group, in whole units."""

    STATE: ClassVar[tuple[str, ...]] = ("level", "total", "count")

    def __init__(self, level: int) -> None:
        self.level = float(level)
        self.total = 0
        self.count = 0

    def push(self, leaves: MeasuredLeaves) -> FloatArray:
        """The rounded mean of the group so far, after each of these noisy values."""
        numbers, marks = leaves.numbers, leaves.marks
        places = np.arange(numbers.size)
        joins = marks == JOINS
        opened = np.maximum.accumulate(np.where(joins, 0, places))  # where its group began
        inherited = opened[0] == 0 and bool(joins[0])
        before = np.concatenate(([0], np.cumsum(numbers, dtype=np.int64)))
        largest = abs(self.total) + int(np.abs(numbers).max()) * numbers.size
        if largest >= _SAFE:  # of 64 bits: exact in Python's integers
            before = np.array([0, *accumulate(numbers.tolist())], dtype=object)
        totals = before[1:] - before[opened]
        counts = places - opened + 1
        if inherited:
            first = opened == 0
            totals[first] += self.total
            counts[first] += self.count
        self.total, self.count = int(totals[-1]), int(counts[-1])
        levels = ((2 * totals + counts) // (2 * counts)).astype(np.float64)
        self.level = float(levels[-1])
        return levels


class GroupPosterior(Posterior):
    """Estimates each value as the mean of its whole group, as far as it is released.

    A range that covers m of the n values of a group has the error

    - of noise: m²·2s²/n, with s the scale of the noise of a value; groups are independent;
    - of the group: the m values may lie off the mean. They do so by at most half of the group's
      deviation Σ |value − mean|, so by D/4·√(4m(n − m)/n²) as a standard error, with D what the
      grouper allows as a rule;
    - of a level that is off on average (not that of means). Groups may be off alike, so these add
      up; half of their sum counts as a standard error.
    """

    def __init__(self, recorded: Recorded, until: int) -> None:
        known = known_until(recorded.leaves.spans(), until)
        perturber = grouping_facts(recorded)
        self._scale = perturber.value_scale(recorded.threshold)
        self._variance = 2.0 * self._scale**2
        self._deviation = perturber.usual_deviation(recorded.threshold)
        self._step = recorded.step
        first = int(known.edges[0])
        opens = np.flatnonzero(np.diff(groups_of(known.marks), prepend=-1))
        self._edges = np.append(opens, known.marks.size) + first
        self._sizes = np.append(np.diff(self._edges), 1).astype(np.float64)
        sums, self._errors, self._biases = self._of_groups(recorded, known.numbers, opens)
        self._means = np.append(sums, 0) / self._sizes
        self._before = np.concatenate(([0.0], np.cumsum(sums)))
        whole = self._sizes[:-1]
        self._errors_before = _running_group_sums(np.square(whole) * self._errors[:-1])
        self._biases_before = _running_group_sums(whole * self._biases[:-1])

    def _of_groups(
        self, recorded: Recorded, numbers: IntArray, opens: IntArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Estimated sums, then variances and biases of group levels, with one extra entry."""
        sums = np.add.reduceat(numbers, opens) if opens.size else np.zeros(0)
        return sums, self._variance / self._sizes, np.zeros(self._sizes.size)

    def parts(self, starts: IntArray, ends: IntArray) -> Parts:
        """The sums over [start, end)."""
        left, into = self._place(starts)
        right, beyond = self._place(ends)
        same = left == right
        sizes = self._sizes
        first = np.where(same, ends - starts, sizes[left] - into)
        estimate = self._before[right] - self._before[left]
        estimate += beyond * self._means[right] - into * self._means[left]
        after = np.minimum(left + 1, right)
        last = np.where(same, 0, beyond)
        noise = np.square(first) * self._errors[left] + np.square(last) * self._errors[right]
        noise += np.where(same, 0.0, self._errors_before[right] - self._errors_before[after])
        bias = first * self._biases[left] + last * self._biases[right]
        bias += np.where(same, 0.0, self._biases_before[right] - self._biases_before[after])
        cut = first * (sizes[left] - first) / np.square(sizes[left])
        cut += last * (sizes[right] - last) / np.square(sizes[right])
        squared = self._step**2
        return Parts(
            estimate * self._step,
            noise * squared,
            (cut * (self._deviation**2 / 4) + np.square(bias) / 4) * squared,
            self._variance * squared,
        )

    def _place(self, positions: IntArray) -> tuple[IntArray, IntArray]:
        """The group of a position, and how many of its values lie before the position."""
        group = np.searchsorted(self._edges, positions, side="right") - 1
        return group, positions - self._edges[group]


def _running_group_sums(numbers: FloatArray) -> FloatArray:
    found: FloatArray = np.concatenate(([0.0], np.cumsum(numbers)))
    return found


def groups_of(marks: IntArray) -> IntArray:
    """Increasing group numbers, one for each leaf; the stored leaves may begin inside a group."""
    found: IntArray = np.cumsum(marks != JOINS)
    return found


def grouping_facts(recorded: Recorded) -> GroupingPerturber:
    """The perturber, as one that marks groups; refuses others."""
    perturber = recorded.perturber
    if not hasattr(perturber, "usual_deviation"):
        raise AssertionError("a perturber that marks groups is needed")
    return perturber  # type: ignore[return-value]
