"""Range sums over leaves of one size: exact noise between leaves, estimates inside them."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from tidegate.estimate.block_shape import Shape, shapes
from tidegate.lattice import FloatArray, IntArray
from tidegate.stages import Parts, Recorded, fixed_law

RESIDUALS = 16  # how many of the last leaves say how well leaves are predicted
_CACHED = 1 << 14  # ranges at a time, whose intermediate results stay in the cache


class _Ends(NamedTuple):
    """The part of a block before a position, in lattice units."""

    share: FloatArray  # of the block's noise
    noise: FloatArray  # variance of the noise of the whole block, where there is a share
    partial: FloatArray
    variance: FloatArray  # beyond that noise
    shape: Shape | None


class BlockPosterior:
    """What was released up to `until` says about ranges; block t is leaf t of the record."""

    def __init__(self, recorded: Recorded, until: int) -> None:
        self._leaves = recorded.leaves
        self._origin = recorded.origin
        self._block = recorded.perturber.block
        self._threshold = recorded.threshold
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
        estimate = whole + after.partial - before.partial
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
        """As `contrast_variance` over these four places; the two single blocks are known."""
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
        """What lies between the beginning of each block and a position in it."""
        done, share = (blocks < self._closed) & (offsets > 0), offsets / self._block
        partial = offsets * self._leaves.predictions(blocks)
        if not done.any():
            variance = self._prediction_variance(blocks, offsets)
            nothing = np.zeros(blocks.size)
            return _Ends(nothing, nothing, partial, variance, None)
        shape = shapes(
            np.where(done, blocks, self._leaves.oldest),
            self._leaves.sums,
            self._law,
            oldest=self._leaves.oldest,
            closed=self._closed,
            unknown=(self._block * self._threshold / 2) ** 2,
        )
        bend = share * (1 - share)
        return _Ends(
            np.where(done, share, 0.0),
            shape.noise,
            np.where(done, share * shape.sums - shape.slopes * bend / 2, partial),
            np.where(
                done,
                shape.variance(offsets, self._block, self._threshold),
                self._prediction_variance(blocks, np.where(done, 0, offsets)),
            ),
            shape,
        )

    def _inside(self, blocks: IntArray, counts: IntArray, end: _Ends) -> FloatArray:
        """Variance of what a range inside one block is put at, beyond the block's noise."""
        counts = np.maximum(counts, 0)  # of ranges over several blocks, which are not meant
        predicted = self._prediction_variance(blocks, counts)
        if end.shape is None:
            return predicted
        known = end.shape.variance(counts, self._block, self._threshold)
        return np.where(blocks < self._closed, known, predicted)

    def _prediction_variance(self, blocks: IntArray, offsets: IntArray) -> FloatArray:
        """Variance of (k·prediction − sum of the first k values of the open block), in units²."""
        to = np.minimum(blocks + 1, self._closed)
        since = np.maximum(to - RESIDUALS, self._leaves.oldest)
        misses = self._leaves.squares(to) - self._leaves.squares(since)
        unknown = (self._block * self._threshold / 2) ** 2  # block 0 is predicted from nothing
        miss = np.where(blocks == 0, unknown, np.maximum(misses, 0.0) / np.maximum(to - since, 1))
        level = np.clip(self._leaves.predictions(blocks), 0, self._threshold)
        share = offsets / self._block
        spread = np.maximum(level * (self._threshold - level), self._threshold**2 / 16)
        return np.where(offsets == 0, 0.0, share**2 * miss + offsets * (1 - share) * spread)
