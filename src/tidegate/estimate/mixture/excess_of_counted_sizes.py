"""What truncation took from sums of events, by the released numbers of events in bands of sizes.

Post-processing of `tidegate.stages.size_bands`: nothing here sees a raw value. A number has noise,
and a large size times noise is a large error. So a band counts only where its number is surely
above 0: Laplace noise of scale b exceeds t·b with probability e^−t/2, and t grows with the size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tidegate.lattice import FloatArray, IntArray
from tidegate.stages import Recorded
from tidegate.stages.size_bands import QUARTERS, SizeBands, size_bands

# t: of the band next to θ, and more for each band above. Where θ has fallen all of the sum may be
# lost, so less will do, for all bands.
_SURE, _SURER, _SURE_IF_FALLEN = 9.0, 1.5, 6.0
# The mean size of a band, in its lower end, by how many events the next band has for each of it:
# that of a power law.
_MEANS = ((0.0, 1.2), (0.25, 1.333), (1.0, 1.443), (4.0, 1.556), (16.0, 1.7))
# Its standard error: sizes may be of one kind.
_SHAPE = 0.2
# Of an excess that was not counted yet, or that lies in a part of what was counted together.
_GUESSED = 0.5
# Upper ends: so many bands above θ may have events whose number is not sure: up to so many standard
# errors more in all pieces; in a single one only from this many on, and one more for each band.
_UNSURE, _MORE, _FROM = 3, 1.5, 2.0
# Where θ has fallen, in all bands.
_MORE_IF_FALLEN = 3.0
# Above this many times the mean level of what was counted, events that follow may be larger ones.
_RISEN = 2.5


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
        self.counts = [before + more for before, more in zip(self.counts, piece.counts, strict=True)]
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

    def sure(self, side: int = 0) -> list[int]:
        """The numbers above θ; 0 where noise may be all there is."""
        if self._bands.fallen:
            return self._sure(self._bands.above(side), _SURE_IF_FALLEN, 0.0)
        return self._sure(self._bands.above(side), _SURE, _SURER)

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
        for at, count in enumerate(self._sure(bands.below, _SURE, 0.0)):
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
            for octave, count in enumerate(sure):
                if not count:
                    continue
                before = sure[octave - 1] if octave else 0
                start, end = bands.theta << octave, min(bands.theta << (octave + 1), bands.top)
                # Where bands thin out fast, few events lie in the upper half of the last one.
                thin = before > 4 * count
                highest = max(highest, (start + end + 1) // 2 if thin else end)
        return highest


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
    for (low, first), (high, last) in zip(_MEANS, _MEANS[1:], strict=False):
        if ratio < high:
            return first + (last - first) * (ratio - low) / (high - low)
    return _MEANS[-1][1]


class _LostPiece(NamedTuple):
    start: int
    end: int
    lost: float  # expected, in lattice units; below 0: of values below 0
    variance: float
    above: float  # more, at the upper end
    beneath: float  # more, at the lower end


def _lost_by_each(bands: SizeBands) -> list[float]:
    """What an event of each band loses, if nothing is known of the bands around it."""
    sizes = mean_sizes(bands, [0] * bands.octaves)
    return [size - _kept_in(bands, octave) for octave, size in enumerate(sizes)]


def _kept_in(bands: SizeBands, octave: int) -> int:
    return bands.kept_far if octave else bands.kept_near


def lost_to_truncation(
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


class CountedExcess:
    """What truncation took from ranges of ticks, where sizes were counted.

    `weights(t)` is the expected sum before each tick of t: an excess goes with the level.
    """

    def __init__(
        self, bands: SizeBands, epsilon: Fraction, pieces: Sequence[CountedSizes], end: int
    ) -> None:
        self.bands, self._end = bands, end
        every, each = PooledCounts(bands, epsilon), []
        for piece in pieces:
            one = PooledCounts(bands, epsilon)
            one.add(piece)
            every.add(piece)
            each.append(one)
        self._pieces = [
            _LostPiece(piece.start, piece.end, *self._lost(one))
            for piece, one in zip(pieces, each, strict=True)
        ]
        self._rest = _LostPiece(pieces[0].start, pieces[-1].end, *self._rest_of(every, each))

    def _lost(self, counts: PooledCounts) -> tuple[float, float, float, float]:
        """What a piece surely lost, the variance of that, and what it may have lost in addition."""
        bands, errors = self.bands, counts.errors()
        total, variance, ends = 0.0, 0.0, [0.0, 0.0]
        for side in range(1 + bands.signed):
            sure, own = counts.sure(side), bands.above(side)
            lost, more = lost_to_truncation(bands, sure, [errors[at] for at in own])
            total += -lost if side else lost
            variance += more
            each = _lost_by_each(bands)
            for octave, at in enumerate(own[:_UNSURE]):
                if not sure[octave] and counts.counts[at] > (_FROM + octave) * errors[at]:
                    ends[side] += each[octave] * (counts.counts[at] + _MORE * errors[at])
        return total, variance, *ends

    def _rest_of(
        self, every: PooledCounts, each: Sequence[PooledCounts]
    ) -> tuple[float, float, float, float]:
        """The same of what all pieces together have surely lost, and none of them alone."""
        bands, errors = self.bands, every.errors()
        total, variance, ends = 0.0, 0.0, [0.0, 0.0]
        most, reach = (
            (_MORE_IF_FALLEN, bands.octaves) if bands.fallen else (_MORE, _UNSURE)
        )
        for side in range(1 + bands.signed):
            own, numbers = bands.above(side), every.sure(side)
            known = [sum(one) for one in zip(*(one.sure(side) for one in each), strict=True)]
            rest = [max(0, all_ - some) for all_, some in zip(numbers, known, strict=True)]
            lost, more = lost_to_truncation(bands, rest, [errors[at] for at in own])
            total += -lost if side else lost
            variance += more
            short = _lost_by_each(bands)
            for octave, at in enumerate(own[:reach]):
                if not numbers[octave]:
                    highest = every.counts[at] - known[octave] + most * errors[at]
                    ends[side] += short[octave] * max(0.0, highest)
        return total, variance, *ends

    def between(self, starts: IntArray, ends: IntArray, before: WeightBefore) -> FloatArray:
        """Rows: what was lost, its variance, and more at the upper and the lower end."""
        found = np.zeros((4, starts.size))
        for piece in (*self._pieces, self._rest):
            if any(piece[2:]):
                share = _share_of_weight(before, starts, ends, piece.start, piece.end)
                spread = _GUESSED * piece.lost * share * (1.0 - share)
                found[0] += piece.lost * share
                found[1] += piece.variance * share + spread * spread
                found[2] += piece.above * share
                found[3] += piece.beneath * share
        if self._rest.end < self._end:
            found += self._uncounted(starts, ends, before)
        return found

    def _uncounted(self, starts: IntArray, ends: IntArray, before: WeightBefore) -> FloatArray:
        """After the last piece: as much is lost as in it; and more, if the level has risen."""
        last, found = self._pieces[-1], np.zeros((4, starts.size))
        start, done = self._rest.start, self._rest.end
        first, begun, counted, end = before(np.array([start, last.start, done, self._end])).tolist()
        share = _share_of_weight(before, starts, ends, done, self._end)
        times = (end - counted) / max(counted - begun, 1e-9)
        guessed = last.lost * min(times, 2.0) * share
        found[0], found[1] = guessed, np.square(_GUESSED * guessed)
        usual = (counted - first) / max(done - start, 1)
        risen = end - counted - _RISEN * usual * (self._end - done)
        if risen > 0.0:  # all of that may be large events that were cut
            found[2] = risen * share * self.bands.top / max(self.bands.kept_far, 1)
        return found


def counted_excess(recorded: Recorded, until: int) -> CountedExcess | None:
    """What truncation took from a stretch, by what was counted `until` then; None: nothing was."""
    if not recorded.sizes:
        return None
    top = max(recorded.ceiling, recorded.depth)
    bands = size_bands(recorded.threshold, top, recorded.grain, signed=recorded.depth > 0)
    pieces = [counted_sizes(row) for row in recorded.sizes if row[1] <= until]
    epsilon = Fraction(recorded.perturber.guarantee.epsilon)
    return CountedExcess(bands, epsilon, pieces, until) if pieces else None


def counted_sizes(row: IntArray) -> CountedSizes:
    """Released numbers, from a row of a record."""
    start, end, part, *counts = row.tolist()
    return CountedSizes(start, end, part, tuple(counts))


class WeightBefore:
    """The expected sum before each tick, in any unit: it grows."""

    def __init__(self, edges: IntArray, sums: FloatArray) -> None:
        widths = np.diff(edges)
        grown = np.maximum(np.diff(sums), 0.0)
        least = 0.05 * (float(grown.sum()) + 1e-9) / max(int(widths.sum()), 1)
        self._edges = edges
        self._before = np.concatenate(([0.0], np.cumsum(np.maximum(grown, least * widths))))

    def __call__(self, places: IntArray) -> FloatArray:
        """The sum before each of these ticks."""
        edges, before = self._edges, self._before
        if edges.size < 2:
            return places.astype(np.float64)
        within = np.clip(np.searchsorted(edges, places, side="right") - 1, 0, edges.size - 2)
        share = np.clip((places - edges[within]) / (edges[within + 1] - edges[within]), 0.0, 1.0)
        found: FloatArray = before[within] + share * (before[within + 1] - before[within])
        return found


def _share_of_weight(
    before: WeightBefore, starts: IntArray, ends: IntArray, start: int, end: int
) -> FloatArray:
    first, last = before(np.array([start, end])).tolist()
    inside = before(np.clip(ends, start, end)) - before(np.clip(starts, start, end))
    found: FloatArray = np.clip(inside / max(last - first, 1e-12), 0.0, 1.0)
    return found
