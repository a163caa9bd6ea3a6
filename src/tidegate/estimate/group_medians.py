"""Publish the median of a group of similar values; answer ranges from the medians of groups."""

from __future__ import annotations

import math
from bisect import insort
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tidegate.estimate.group_means import (
    JOINS,
    GroupMeans,
    GroupPosterior,
    grouping_facts,
    groups_of,
)
from tidegate.estimate.sample_and_hold import MeasuredLeaves
from tidegate.lattice import FloatArray, IntArray
from tidegate.settings import Spec
from tidegate.stages import Perturber, Recorded, Spans


def median_variances(counts: FloatArray) -> FloatArray:
    """Variance of the median of `counts` Laplace draws of scale 1, at most 8 % too high.

    It approaches 1/n, half of the variance of a mean, but slowly: by integration 0.639 (3 draws),
    0.351 (5), 0.0963 (15), 0.00903 (127).
    """
    found: FloatArray = np.minimum(2 / counts, 1 / counts + 1.73 / counts**1.5)
    return found


@dataclass(frozen=True, kw_only=True, repr=False)
class GroupMedians(GroupMeans, Spec):
    """Every value is published as the median of the noisy values of its group so far.

    Of Laplace noise, the median of a long group varies by half as much as its mean. Where values of
    a group differ and lie unevenly around their mean, it is off: see `MedianPosterior`.
    """

    KIND: ClassVar[str] = "estimate.GroupMedians"

    def level_filter(self, *, threshold: int, perturber: Perturber) -> MedianFilter:  # type: ignore[override]
        """Begin with half the threshold."""
        return MedianFilter(threshold // 2)

    def level_variances(self, recorded: Recorded, spans: Spans) -> FloatArray:
        """The variance of the median of the group so far."""
        group = groups_of(spans.marks)
        place = np.arange(group.size) - np.searchsorted(group, group)
        scale = grouping_facts(recorded).value_scale(recorded.threshold)
        return scale**2 * median_variances((place + 1).astype(np.float64))

    def posterior(self, recorded: Recorded, until: int) -> MedianPosterior:  # type: ignore[override]
        """Sums of the medians of groups, as far as they were known at `until`."""
        return MedianPosterior(recorded, until)


class MedianFilter:
    """The level is the median of the open group, in whole units."""

    STATE: ClassVar[tuple[str, ...]] = ("level", "members")

    def __init__(self, level: int) -> None:
        self.level = float(level)
        self.members: list[int] = []  # noisy values of the open group, in order of size

    def push(self, leaves: MeasuredLeaves) -> FloatArray:
        """The median of the group so far, after each of some noisy values, rounded."""
        members, levels = list(self.members), []
        joined = (leaves.marks == JOINS).tolist()
        for number, joins in zip(leaves.numbers.tolist(), joined, strict=True):
            if not joins:
                members = [number]
                levels.append(number)
                continue
            insort(members, number)
            half, odd = divmod(len(members), 2)
            middle = members[half]
            levels.append(middle if odd else (members[half - 1] + middle + 1) // 2)
        self.members, self.level = members, float(levels[-1])
        return np.array(levels, dtype=np.float64)


class MedianPosterior(GroupPosterior):
    """Each value is estimated as the median of its whole group, as far as that is known.

    The median of a value of the group plus Laplace noise of scale s is off the mean of the values
    by at most σ²/2s·e^(θ/s), with σ² what they vary by: the distribution function of the noise is
    ½ + u/2s up to u²/4s², so it is ½ up to σ²/4s² at the mean, and it rises by e^(−θ/s)/2s at the
    least. Where that says nothing, σ is taken, the most by which a median lies off its mean. Values
    lie in [0, θ], and D bounds their deviations as a rule, so σ² ≤ θ·min(θ/4, D/n).
    """

    def _of_groups(
        self, recorded: Recorded, numbers: IntArray, opens: IntArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        sizes, scale, theta = self._sizes, self._scale, float(recorded.threshold)
        counts = sizes[:-1].astype(np.int64)
        ordered = numbers[np.lexsort((numbers, np.repeat(np.arange(counts.size), counts)))]
        low, high = ordered[opens + (counts - 1) // 2], ordered[opens + counts // 2]
        spread = theta * np.minimum(theta / 4, self._deviation / sizes)
        steep = math.exp(min(theta / scale, 700.0)) / (2 * scale)
        biases = np.where(sizes > 2, np.minimum(spread * steep, np.sqrt(spread)), 0.0)
        return (low + high) / 2 * counts, scale**2 * median_variances(sizes), biases
