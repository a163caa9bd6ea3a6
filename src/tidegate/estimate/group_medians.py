"""Publish the median of a group of similar values; answer ranges from the medians of groups."""

from __future__ import annotations

import math
from dataclasses import dataclass
from heapq import heappush, heappushpop
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

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
    """Variance of the median of `counts` Laplace draws of scale 1; at most 8 % too high.

    It approaches 1/n, half of the variance of a mean, but slowly: by integration 0.639 (3 draws),
    0.351 (5), 0.0963 (15), 0.00903 (127).
    """
    found: FloatArray = np.minimum(2 / counts, 1 / counts + 1.73 / counts**1.5)
    return found


@dataclass(frozen=True, kw_only=True, repr=False)
class GroupMedians(GroupMeans, Spec):
    """Publishes every value as the median of the noisy values of its group so far.

    Of Laplace noise, the median of a long group varies by half as much as its mean. Where values of
    a group differ and lie unevenly around their mean, it is off: see `MedianPosterior`.
    """

    KIND: ClassVar[str] = "estimate.GroupMedians"

    def level_filter(self, *, threshold: int, perturber: Perturber) -> MedianFilter:  # type: ignore[override]
        """A filter that starts at half the threshold."""
        return MedianFilter(threshold // 2)

    def level_variances(self, recorded: Recorded, spans: Spans) -> FloatArray:
        """The variance of the median of the group so far."""
        group = groups_of(spans.marks)
        place = np.arange(group.size) - np.searchsorted(group, group)
        scale = grouping_facts(recorded).value_scale(recorded.threshold)
        return scale**2 * median_variances((place + 1).astype(np.float64))

    def posterior(self, recorded: Recorded, until: int) -> MedianPosterior:  # type: ignore[override]
        """Sums of the medians of groups, from what was released until `until`."""
        return MedianPosterior(recorded, until)


class MedianFilter:
    """The level is the median of the open group, in whole units.

    Two heaps hold the group: the larger half, and the smaller half with its signs changed. A value
    costs two steps in them, however long the group is. The first dozen of a group, which are most
    values where groups are short, are done in arrays.
    """

    STATE: ClassVar[tuple[str, ...]] = ("level", "members")

    def __init__(self, level: int) -> None:
        self.level = float(level)
        self._upper: list[int] = []  # as long as the other, or one longer
        self._lower: list[int] = []

    @property
    def members(self) -> list[int]:
        """The noisy values of the open group, sorted."""
        return sorted([*self._upper, *(-one for one in self._lower)])

    @members.setter
    def members(self, members: list[int]) -> None:
        self._upper, self._lower = _heaps_of_group(members)

    def push(self, leaves: MeasuredLeaves) -> FloatArray:
        """The rounded median of the group so far, after each of these noisy values."""
        numbers, opened = leaves.numbers, leaves.marks != JOINS
        listed: list[int] = numbers.tolist()
        upper, lower = list(self._upper), list(self._lower)
        if numbers.size < _FEW or int(np.abs(numbers).max()) >= _SAFE:
            levels = np.empty(numbers.size)
            for place, (number, opens) in enumerate(zip(listed, opened.tolist(), strict=True)):
                if opens:
                    upper, lower = [], []
                levels[place] = _medians_of_grown_group(upper, lower, [number])[0]
        else:
            levels, upper, lower = _group_medians_in_arrays(numbers, listed, opened, upper, lower)
        self._upper, self._lower, self.level = upper, lower, float(levels[-1])
        return levels


_FIRST = 12  # values of a group that are done in arrays, where a row is sorted in 0.1 µs or so
_FEW = 64  # values, below which arrays take longer
_SAFE = 1 << 61  # sums of two are 64-bit integers


def _heaps_of_group(members: list[int]) -> tuple[list[int], list[int]]:
    """The heaps of a group from its sorted values: a sorted list is a heap."""
    half = len(members) // 2
    return members[half:], [-one for one in reversed(members[:half])]


def _medians_of_grown_group(upper: list[int], lower: list[int], numbers: list[int]) -> list[int]:
    """The median of a group after each of these additional numbers."""
    levels: list[int] = []
    put, longer = levels.append, len(upper) > len(lower)
    for number in numbers:
        if longer:
            heappush(lower, -heappushpop(upper, number))
            put((upper[0] - lower[0] + 1) >> 1)
        else:
            heappush(upper, -heappushpop(lower, -number))
            put(upper[0])
        longer = not longer
    return levels


def _group_medians_in_arrays(
    numbers: IntArray,
    listed: list[int],
    opened: NDArray[np.bool_],
    upper: list[int],
    lower: list[int],
) -> tuple[FloatArray, list[int], list[int]]:
    """Medians after each of many more numbers, and the heaps of the last group."""
    levels, opens = _first_medians(numbers, opened), np.flatnonzero(opened)
    first = int(opens[0]) if opens.size else numbers.size
    levels[:first] = _medians_of_grown_group(
        upper, lower, listed[:first]
    )  # the group that was open
    stops = np.append(opens[1:], numbers.size)
    kept = stops - opens > _FIRST
    kept[-1:] = True  # may go on
    for start, stop in zip(opens[kept].tolist(), stops[kept].tolist(), strict=True):
        done = min(start + _FIRST, stop)
        upper, lower = _heaps_of_group(sorted(listed[start:done]))
        levels[done:stop] = _medians_of_grown_group(upper, lower, listed[done:stop])
    return levels.astype(np.float64), upper, lower


def _first_medians(numbers: IntArray, opened: NDArray[np.bool_]) -> IntArray:
    """Medians after the first values of every group; other entries keep their numbers."""
    levels, at = numbers.copy(), np.flatnonzero(opened)
    for size in range(2, _FIRST + 1):
        at = at[at + 1 < numbers.size] + 1
        at = at[~opened[at]]  # the value of this place, in groups that have one
        members = np.sort(numbers[at[:, np.newaxis] - np.arange(size)], axis=1)
        half, odd = divmod(size, 2)
        low = members[:, half if odd else half - 1]
        levels[at] = (low + members[:, half] + 1) >> 1
    return levels


class MedianPosterior(GroupPosterior):
    """Estimates each value as the median of its whole group, as far as it is released.

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
