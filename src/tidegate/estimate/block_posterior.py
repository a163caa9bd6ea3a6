"""Range sums over leaves of one size: exact noise between leaves, estimates inside them."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from tidegate.estimate.block_shape import Shape, shapes, value_variance
from tidegate.lattice import FloatArray, IntArray
from tidegate.stages import Parts, Recorded, fixed_law

RESIDUALS = 16  # leaves over which prediction errors are averaged
_CACHED = 1 << 14  # ranges at a time, so that intermediate results stay in the cache


class _Ends(NamedTuple):
    """The values of a block before a position, in lattice units."""

    share: FloatArray  # of the block's noise in the estimate
    noise: FloatArray  # variance of the noise of the whole block, where there is a share
    estimate: FloatArray  # of their sum
    variance: FloatArray  # of the estimate's error beyond that noise
    shape: Shape | None


class BlockPosterior:
    """Estimates of range sums from what was released up to `until`; block t is leaf t."""

    def __init__(self, recorded: Recorded, until: int) -> None:
        self._leaves = recorded.leaves
        self._origin = recorded.origin
        self._block = recorded.perturber.block
        self._threshold, self._below = recorded.threshold, recorded.below
        self._step = recorded.step
        self._law = fixed_law(recorded.perturber, recorded.threshold)
        self._closed = (until - self._origin) // self._block

    def parts(self, starts: IntArray, ends: IntArray) -> Parts:
        """The sums over [start, end)."""
        first, first_offset = np.divmod(starts - self._origin, self._block)
        last, last_offset = np.divmod(ends - self._origin, self._block)
        whole: FloatArray = (self._leaves.sums(last) - self._leaves.sums(first)).astype(np.float64)
        if self._block == 1:
            noise = self._law.range_variance(first, last)
            return self._parts(whole, noise, np.zeros(starts.size))
        before = self._ends(first, first_offset)
        after = self._ends(last, last_offset)
        inside = self._inside(last, last_offset - first_offset, after)
        apart = before.variance + after.variance
        noise = self._noise(first, last, before, after)
        estimate = whole + after.estimate - before.estimate
        return self._parts(estimate, noise, np.where(first == last, inside, apart))

    def _parts(self, estimate: FloatArray, noise: FloatArray, prediction: FloatArray) -> Parts:
        squared = self._step**2
        return Parts(
            estimate * self._step,
            noise * squared,
            prediction * squared,
            self._law.largest_variance * squared,
        )

    def _noise(self, first: IntArray, last: IntArray, before: _Ends, after: _Ends) -> FloatArray:
        """Variance of the noise: of a contrast of running sums at four edges.

        The estimate is (1 − b)·R(last) + b·R(last + 1) − (1 − a)·R(first) − a·R(first + 1), R the
        running sum before a block, a and b the shares of the two cut blocks. So this is
        `contrast_variance` of these edges; the pairs that are one block apart are known already.
        """
        starts = [(first, before.share - 1), (np.minimum(first + 1, self._closed), -before.share)]
        ends = [(last, 1 - after.share), (np.minimum(last + 1, self._closed), after.share)]
        total: FloatArray = before.share * (before.share - 1) * before.noise
        total -= after.share * (1 - after.share) * after.noise
        for at in range(0, first.size, _CACHED):
            piece = slice(at, at + _CACHED)
            for (one, left), (two, right) in product(starts, ends):
                low, high = np.minimum(one[piece], two[piece]), np.maximum(one[piece], two[piece])
                weight = left[piece] * right[piece]
                total[piece] -= weight * self._law.range_variance(low, high)
        return np.maximum(total, 0.0)

    def _ends(self, blocks: IntArray, offsets: IntArray) -> _Ends:
        """Estimate the sum of the first `offsets` values of each block.

        In a closed block from its sum and its neighbours (`block_shape`), in the open one from the
        prediction.
        """
        closed, share = (blocks < self._closed) & (offsets > 0), offsets / self._block
        predicted = offsets * self._leaves.predictions(blocks)
        if not closed.any():
            variance = self._prediction_variance(blocks, offsets)
            nothing = np.zeros(blocks.size)
            return _Ends(nothing, nothing, predicted, variance, None)
        shape = shapes(
            np.where(closed, blocks, self._leaves.oldest),
            self._leaves.sums,
            self._law,
            oldest=self._leaves.oldest,
            closed=self._closed,
            unknown=(self._block * self._threshold / 2) ** 2,
        )
        bridge = share * (1 - share)
        return _Ends(
            np.where(closed, share, 0.0),
            shape.noise,
            np.where(closed, share * shape.sums - shape.slopes * bridge / 2, predicted),
            np.where(
                closed,
                shape.variance(offsets, self._block, self._threshold, self._below),
                self._prediction_variance(blocks, np.where(closed, 0, offsets)),
            ),
            shape,
        )

    def _inside(self, blocks: IntArray, counts: IntArray, end: _Ends) -> FloatArray:
        """Variance of the estimate for a range inside one block, beyond the block's noise."""
        counts = np.maximum(counts, 0)  # those of ranges over several blocks are not used
        predicted = self._prediction_variance(blocks, counts)
        if end.shape is None:
            return predicted
        known = end.shape.variance(counts, self._block, self._threshold, self._below)
        return np.where(blocks < self._closed, known, predicted)

    def _prediction_variance(self, blocks: IntArray, offsets: IntArray) -> FloatArray:
        """Variance of (k·prediction − sum of the first k values of the open block), in units²."""
        to = np.minimum(blocks + 1, self._closed)
        since = np.maximum(to - RESIDUALS, self._leaves.oldest)
        squares = self._leaves.squares(to) - self._leaves.squares(since)
        mean_square = np.maximum(squares, 0.0) / np.maximum(to - since, 1)
        unknown = (self._block * self._threshold / 2) ** 2  # block 0 is predicted from nothing
        block_error = np.where(blocks == 0, unknown, mean_square)
        scatter = value_variance(self._leaves.predictions(blocks), self._threshold, self._below)
        share = offsets / self._block
        error = share**2 * block_error + offsets * (1 - share) * scatter
        return np.where(offsets == 0, 0.0, error)
