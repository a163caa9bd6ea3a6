"""`Misfits`: how far the variances of a model are to be trusted, by its innovations."""

from __future__ import annotations

import numpy as np

from tidegate.lattice import FloatArray, IntArray

# Leaves around a range that count in its misfit, and how many the mean over everything counts as.
_NEAR, _PRIOR = 3, 2.0


class Misfits:
    """How much larger innovations were than a model expects, over ranges of leaves: reduced χ².

    If a model expects too little, so may all that it says. Innovations are public, so variances can
    be scaled by them. How wrong a model is changes: after a level has moved, the newest answers are
    worse than all answers are in the mean. So the scale is that of the range: the mean of e²/s over
    its leaves and three more to both sides, shrunk towards the mean over everything. It is never
    below 1: noise is the larger part of most innovations, and its variance is known.

    `distances` has e²/s of all leaves, one chain after the other, `counts` how many each has.
    """

    def __init__(self, distances: FloatArray, counts: IntArray) -> None:
        self._counts, ends = counts, np.cumsum(counts)
        # One more than leaves for each chain.
        self._firsts = ends - counts + np.arange(counts.size)
        self._sums: FloatArray = np.zeros(distances.size + counts.size)
        bounds = zip(ends.tolist(), counts.tolist(), self._firsts.tolist(), strict=True)
        for end, count, first in bounds:  # each by itself: the bits that it has alone
            np.cumsum(distances[end - count : end], out=self._sums[first + 1 : first + 1 + count])
        whole = self._sums[self._firsts + counts]
        self._means = np.maximum(whole / np.maximum(counts, 1), 1.0)

    def between(self, chains: IntArray, starts: IntArray, ends: IntArray) -> FloatArray:
        """The misfit of ranges between `starts` and `ends`: how many leaves ended by then."""
        first, last = np.maximum(starts - _NEAR, 0), np.minimum(ends + _NEAR, self._counts[chains])
        begin = self._firsts[chains]
        found = self._sums[begin + last] - self._sums[begin + first]
        found += _PRIOR * self._means[chains]
        found /= last - first + _PRIOR
        result: FloatArray = np.maximum(found, 1.0)
        return result
