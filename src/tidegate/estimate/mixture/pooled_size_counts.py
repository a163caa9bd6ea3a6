"""Numbers of events by size: which are sure, which θ they ask for, and what was lost.

Post-processing of `tidegate.stages.size_bands`: nothing here sees a raw value. A number has noise,
and a large size times noise is a large error. So a band counts only where its number is surely
above 0: Laplace noise of scale b exceeds t·b with probability e^−t/2, and t grows with the size.
All of it is computed with + − × ÷ √ in a fixed order, so θ is the same on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from tidegate.lattice import IntArray
from tidegate.stages.size_bands import QUARTERS, SizeBands

# t: of the band next to θ, and more for each band above. Where θ has fallen all of the sum may be
# lost: the same for all bands, and for a higher θ less will do. And for the least θ of a window,
# which lies below the present one: little is lost if chance decides about that.
_SURE, _SURER, _SURE_IF_FALLEN, _SURE_BELOW = 9.0, 1.5, 7.5, 4.0
_MOSTLY_SMALL = 0.85  # of the events that were counted, below an eighth of θ
# The mean size of a band, in its lower end, by how many events the next band has for each of it:
# that of a power law.
_MEANS = ((0.0, 1.2), (0.25, 1.333), (1.0, 1.443), (4.0, 1.556), (16.0, 1.7))
# Its standard error: sizes may be of one kind.
_SHAPE = 0.2


class CountedSizes(NamedTuple):
    """Released numbers of the events of the ticks [start, end), by band.

    Attributes:
        start, end: the ticks.
        part: of ε, that these events had, in quarters.
        counts: with noise, as `SizeBands` orders them.
    """

    start: int
    end: int
    part: int
    counts: tuple[int, ...]


def noise_of_counts(bands: SizeBands, epsilon: Fraction, part: int) -> list[Fraction]:
    """The scale of the noise of every number."""
    budget = epsilon * part / QUARTERS
    return [1 / (weight * budget) for weight in bands.weights]


class PooledCounts:
    """Numbers of several pieces, added up.

    Attributes:
        counts: their sums.
        pieces: how many there were, by the part of ε in quarters.
    """

    def __init__(self, bands: SizeBands, epsilon: Fraction) -> None:
        self._bands, self._epsilon = bands, epsilon
        self.counts = [0] * bands.number
        self.pieces = [0] * (QUARTERS + 1)

    def add(self, piece: CountedSizes) -> None:
        """Add the numbers of one more piece."""
        self.counts = [
            before + more for before, more in zip(self.counts, piece.counts, strict=True)
        ]
        self.pieces[piece.part] += 1

    def noise(self) -> tuple[list[float], list[float]]:
        """For each number the squares of the scales of its noise, added up; and the largest."""
        squares, largest = [0.0] * self._bands.number, [0.0] * self._bands.number
        for part, times in enumerate(self.pieces):
            if times:
                for at, scale in enumerate(noise_of_counts(self._bands, self._epsilon, part)):
                    squares[at] += times * float(scale) * float(scale)
                    largest[at] = max(largest[at], float(scale))
        return squares, largest

    def errors(self) -> list[float]:
        """The standard error of each number."""
        return [math.sqrt(2.0 * square) for square in self.noise()[0]]

    @property
    def fallen(self) -> bool:
        """Whether all of the sum may be lost: θ lies where it began, or near, and most are 0."""
        bands = self._bands
        most = self.counts[0] >= _MOSTLY_SMALL * sum(self.counts)
        return bands.fallen or (bands.strayed and most)

    def sure(self, side: int = 0) -> list[int]:
        """The numbers above θ; 0 where noise may be all there is."""
        return self._sure(self._bands.above(side), _SURE, 0.0 if self.fallen else _SURER)

    def _sure(self, places: range, first: float, more: float) -> list[int]:
        squares, largest = self.noise()
        found = []
        for number, at in enumerate(places):
            t = first + more * number
            limit = max(t * largest[at], math.sqrt(4.0 * t * squares[at]))
            found.append(self.counts[at] if self.counts[at] > limit else 0)
        return found

    def surely_exceeded(self) -> int:
        """The largest end of a band that surely counted events lie above; 0: none is known."""
        bands, found = self._bands, 0
        for at, count in enumerate(self._sure(bands.below, _SURE_BELOW, 0.0)):
            found = bands.edges[at] if count else found
        for side in range(1 + bands.signed):
            for octave, count in enumerate(self.sure(side)):
                found = max(found, bands.theta << octave) if count else found
        return found

    def threshold_above(self) -> int:
        """The θ that surely counted events ask for; 0: the present one is high enough."""
        bands, highest = self._bands, 0
        for side in range(1 + bands.signed):
            sure = self.sure(side)
            if self.fallen:
                sure = self._sure(bands.above(side), _SURE_IF_FALLEN, 0.0)
            for octave, count in enumerate(sure):
                if not count:
                    continue
                before = sure[octave - 1] if octave else 0
                start, end = bands.theta << octave, min(bands.theta << (octave + 1), bands.top)
                # Where bands thin out fast, few events lie in the upper half of the last one.
                thin = before > 4 * count
                highest = max(highest, (start + end + 1) // 2 if thin else end)
        # The few events that are not 0 are hardly sure: more of them lie above those that are.
        return min(2 * highest, bands.top) if self.fallen else highest


def mean_sizes(bands: SizeBands, numbers: Sequence[int]) -> list[float]:
    """The mean size of an event of each band above θ, by the numbers of the bands around it."""
    found = []
    for octave, count in enumerate(numbers):
        before = numbers[octave - 1] if octave else 0
        after = numbers[octave + 1] if octave + 1 < len(numbers) else 0
        ratio = after / count if count and after else count / before if before else 1.0
        start = float(bands.theta << octave)
        width = min(start, float(bands.top) - start)
        found.append(start + width * (_mean_in_band(ratio) - 1.0))
    return found


def _mean_in_band(ratio: float) -> float:
    for (low, first), (high, last) in pairwise(_MEANS):
        if ratio < high:
            return first + (last - first) * (ratio - low) / (high - low)
    return _MEANS[-1][1]


def lost_by_each_size(bands: SizeBands) -> list[float]:
    """What an event of each band loses, if nothing is known of the bands around it."""
    sizes = mean_sizes(bands, [0] * bands.octaves)
    return [size - _kept_in(bands, octave) for octave, size in enumerate(sizes)]


def most_lost_by_each_size(bands: SizeBands) -> list[float]:
    """What an event at the upper edge of each band loses."""
    above = bands.edges[-bands.octaves :] if bands.octaves else []
    return [float(edge - _kept_in(bands, octave)) for octave, edge in enumerate(above)]


def _kept_in(bands: SizeBands, octave: int) -> int:
    return bands.kept_far if octave else bands.kept_near


def lost_by_counted_sizes(
    bands: SizeBands, numbers: Sequence[int], errors: Sequence[float]
) -> tuple[float, float]:
    """What events of these surely counted numbers lost, on one side of 0, and its variance."""
    lost = variance = 0.0
    sizes = mean_sizes(bands, numbers)
    for octave, (count, size, error) in enumerate(zip(numbers, sizes, errors, strict=True)):
        if count:
            each = size - _kept_in(bands, octave)
            shape = _SHAPE * min(float(bands.theta << octave), size) * count
            lost += each * count
            variance += each * each * error * error + shape * shape
    return lost, variance


def counted_sizes(row: IntArray) -> CountedSizes:
    """Released numbers, from a row of a record."""
    start, end, part, *counts = row.tolist()
    return CountedSizes(start, end, part, tuple(counts))
