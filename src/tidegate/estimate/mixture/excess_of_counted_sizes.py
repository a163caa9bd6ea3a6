"""What truncation took from sums of events, by the released numbers of events in bands of sizes.

Post-processing. What surely counted events lost is added to the estimate; events whose number is
not sure move the ends of intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tidegate.estimate.mixture.pooled_size_counts import (
    CountedSizes,
    PooledCounts,
    counted_sizes,
    lost_by_counted_sizes,
    lost_by_each_size,
    most_lost_by_each_size,
)
from tidegate.estimate.mixture.truncated_tail import TailLevels
from tidegate.lattice import FloatArray, IntArray
from tidegate.stages import Recorded
from tidegate.stages.size_bands import SizeBands, size_bands

# The standard error of an excess that was not counted yet, as a part of it; and how much of the
# variance of a part of a piece is left that may have all of its excess or none.
_GUESSED, _ANYWHERE = 0.5, 0.5
# Upper ends: so many bands above θ may have events whose number is not sure: up to so many standard
# errors more in all pieces; in a single one only from this many on, and one more for each band.
_UNSURE, _MORE, _FROM = 2, 1.5, 2.0
# Where θ has fallen, in all bands.
_MORE_IF_FALLEN = 3.0
# Above this many times the mean level of what was counted, events that follow may be larger ones.
_RISEN = 2.5


class _ExcessOfPiece(NamedTuple):
    start: int
    end: int
    lost: float  # expected, in lattice units; below 0: of values below 0
    variance: float
    above: float  # more, at the upper end
    beneath: float  # more, at the lower end


class CountedExcess:
    """What truncation took from ranges of ticks, where sizes were counted.

    Each part of a piece has a share of its excess, as it has of the sum (`ExcessWeights`).
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
        self.fallen = every.fallen
        self._pieces = [
            _ExcessOfPiece(piece.start, piece.end, *self._lost(one))
            for piece, one in zip(pieces, each, strict=True)
        ]
        self._rest = _ExcessOfPiece(pieces[0].start, pieces[-1].end, *self._rest_of(every, each))

    def _lost(self, counts: PooledCounts) -> tuple[float, float, float, float]:
        """What a piece surely lost, the variance of that, and what it may have lost in addition."""
        bands, errors = self.bands, counts.errors()
        total, variance, ends = 0.0, 0.0, [0.0, 0.0]
        for side in range(1 + bands.signed):
            sure, own = counts.sure(side), bands.above(side)
            lost, more = lost_by_counted_sizes(bands, sure, [errors[at] for at in own])
            total += -lost if side else lost
            variance += more
            each = lost_by_each_size(bands)
            for octave, at in enumerate(own[:_UNSURE]):
                if not sure[octave] and counts.counts[at] > (_FROM + octave) * errors[at]:
                    ends[side] += each[octave] * (counts.counts[at] + _MORE * errors[at])
        return total, variance, ends[0], ends[1]

    def _rest_of(
        self, every: PooledCounts, each: Sequence[PooledCounts]
    ) -> tuple[float, float, float, float]:
        """The same of what all pieces together have surely lost, and none of them alone."""
        bands, errors = self.bands, every.errors()
        total, variance, ends = 0.0, 0.0, [0.0, 0.0]
        usual, fallen = (_MORE, _UNSURE), (_MORE_IF_FALLEN, bands.octaves)
        most, reach = fallen if every.fallen else usual
        # Most values may be alike there, and lie at the upper edge of a band.
        short = (most_lost_by_each_size if every.fallen else lost_by_each_size)(bands)
        for side in range(1 + bands.signed):
            own, numbers = bands.above(side), every.sure(side)
            known = [sum(one) for one in zip(*(one.sure(side) for one in each), strict=True)]
            rest = [max(0, all_ - some) for all_, some in zip(numbers, known, strict=True)]
            lost, more = lost_by_counted_sizes(bands, rest, [errors[at] for at in own])
            total += -lost if side else lost
            variance += more
            seen, square = 0.0, 0.0
            for octave, at in enumerate(own[:reach]):
                if not numbers[octave]:
                    seen += short[octave] * (every.counts[at] - known[octave])
                    square += (short[octave] * errors[at]) ** 2
            ends[side] = max(0.0, seen + most * math.sqrt(square))
        return total, variance, ends[0], ends[1]

    def between(self, starts: IntArray, ends: IntArray, before: ExcessWeights) -> FloatArray:
        """Rows: what was lost, its variance, and more at the upper and the lower end."""
        found = np.zeros((4, starts.size))
        for piece in (*self._pieces, self._rest):
            if any(piece[2:]):
                share = _share_of_weight(before, starts, ends, piece.start, piece.end)
                found[0] += piece.lost * share
                found[1] += piece.variance * share
                found[1] += _ANYWHERE * piece.lost**2 * share * (1.0 - share)
                found[2] += piece.above * share
                found[3] += piece.beneath * share
        if self._rest.end < self._end:
            found += self._uncounted(starts, ends, before)
        return found

    def _uncounted(self, starts: IntArray, ends: IntArray, before: ExcessWeights) -> FloatArray:
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


class ExcessWeights:
    """The expected sum before each tick, in any unit: it grows."""

    def __init__(self, known: TailLevels) -> None:
        edges, sums = known.edges, known.sums
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
    before: ExcessWeights, starts: IntArray, ends: IntArray, start: int, end: int
) -> FloatArray:
    first, last = before(np.array([start, end])).tolist()
    inside = before(np.clip(ends, start, end)) - before(np.clip(starts, start, end))
    found: FloatArray = np.clip(inside / max(last - first, 1e-12), 0.0, 1.0)
    return found
