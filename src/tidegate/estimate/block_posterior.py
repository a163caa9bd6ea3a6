"""Range sums over leaves of one size: exact noise between leaves, estimates inside them.

Inside a measured block, estimates use later blocks too: post-processing of block sums.

With the noisy sum S of a block and those of its neighbours, the sum of its first k of B values is
estimated as

    S·f − w·d·f(1 − f)/2,    f = k/B,    d = (S after − S before)/2,

the values of a line through the block sums: exact at both ends of the block. Where noise is large
the slope d is mostly noise, so it is shrunk towards 0 (empirical Bayes, James-Stein) by
w = 1 − (its noise variance)/(mean square of the slopes around), at least 0. The error has four
parts: the noise in S·f, which is exact and counted with that of all other sums; the scatter of k
independent values in [0, θ] around their mean; the drift of the level inside the block, (f(1 − f))²
times the mean squared slope (or this block's, if larger; a random walk has 0.8 of that); and
bursts: an excess J over the neighbours, beyond what noise explains, may lie anywhere in the block:
f(1 − f)·J².
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.estimate.estimator_defaults import RESIDUALS
from tidegate.lattice import FloatArray, IntArray, divmod_by_number
from tidegate.stages import NoiseLaw, Parts, Posterior, Recorded, fixed_law

# Slopes are averaged over this many blocks on either side.
_AROUND = 8
# Blocks that are handled together: with their neighbours they are twenty times as many numbers.
_PIECE = 1 << 15


class BlockShape(NamedTuple):
    """Estimates about blocks, one entry for each, in lattice units."""

    sums: FloatArray
    noise: FloatArray  # variance of the noise in them
    slopes: FloatArray  # shrunk
    slope_noise: FloatArray  # variance of the noise in these
    slope_square: FloatArray  # mean squared slope around, noise included
    excess_square: FloatArray  # squared excess over the neighbours, noise subtracted

    def variance(self, counts: IntArray, block: int, threshold: int, below: int = 0) -> FloatArray:
        """Variance of the estimate for `counts` values of a block: scatter, drift, bursts."""
        share = counts / block
        bridge = share * (1 - share)  # 0 at both ends, as the variance of a Brownian bridge
        scatter = value_variance(self.sums / block, threshold, below)
        found: FloatArray = (
            block * bridge * scatter
            + np.square(bridge) * (self.slope_square + self.slope_noise / 4)
            + bridge * self.excess_square
        )
        return found


def value_variance(level: FloatArray, threshold: int, below: int = 0) -> FloatArray:
    """The largest variance of values in [0, θ] with this mean: p(θ − p), at least θ²/16.

    If values lie in [−`below`, θ − `below`], p is counted from there.
    """
    mean = np.clip(level + below, 0, threshold)
    return np.maximum(mean * (threshold - mean), threshold**2 / 16)


def block_shapes(
    blocks: IntArray,
    running: Callable[[IntArray], IntArray],
    law: NoiseLaw,
    *,
    oldest: int,
    closed: int,
    unknown: float,
) -> BlockShape:
    """Estimates for blocks from `oldest` to before `closed`, from running sums.

    Args:
        blocks: which; each is computed once, however often it comes.
        running: the noisy sum of all blocks before each of these.
        law: the law of the noise.
        oldest: the first block that is known.
        closed: the first block that is not.
        unknown: the squared slope to assume where there are too few blocks to see any.
    """
    once, places = np.unique(blocks, return_inverse=True)
    facts: dict[str, Any] = {"oldest": oldest, "closed": closed, "unknown": unknown}
    if once.size > _PIECE:
        slices = (once[at : at + _PIECE] for at in range(0, once.size, _PIECE))
        pieces = [block_shapes(piece, running, law, **facts) for piece in slices]
        return BlockShape(*(np.concatenate(column)[places] for column in zip(*pieces, strict=True)))
    if once.size < blocks.size or (np.diff(places) != 1).any():
        return BlockShape(*(column[places] for column in block_shapes(once, running, law, **facts)))
    # Block sums from the farthest neighbour's neighbour on: 0 beyond the known blocks.
    around = blocks[:, None] + np.arange(-_AROUND - 1, _AROUND + 3)
    sums: FloatArray = np.diff(running(np.clip(around, oldest, closed)), axis=1).astype(np.float64)
    before, own, after = sums[:, :-2], sums[:, 1:-1], sums[:, 2:]
    centres = around[:, 1:-2]
    known = (centres > oldest) & (centres < closed - 1)  # both neighbours are
    slopes = np.where(known, (after - before) / 2, 0.0)
    excesses = np.where(known, own - (after + before) / 2, 0.0)
    slope_square, excess_square = (
        _block_mean_square(differences, known, unknown) for differences in (slopes, excesses)
    )
    slope, excess, known = slopes[:, _AROUND], excesses[:, _AROUND], known[:, _AROUND]
    slope_noise, excess_noise = _block_difference_noise(np.where(known, blocks, oldest + 1), law)
    shrinkage = np.clip(1 - slope_noise / np.maximum(slope_square, 1e-300), 0.0, 1.0)  # w
    return BlockShape(
        sums=own[:, _AROUND],
        noise=law.range_variance(blocks, blocks + 1),
        slopes=shrinkage * slope,
        slope_noise=np.where(known, np.square(shrinkage) * slope_noise, 0.0),
        slope_square=np.maximum(slope_square, np.square(slope)),
        excess_square=np.maximum(np.maximum(excess_square, np.square(excess)) - excess_noise, 0.0),
    )


def _block_mean_square(
    differences: FloatArray, known: NDArray[np.bool_], unknown: float
) -> FloatArray:
    """The mean square over the known entries of each row; `unknown` where there are none."""
    count = known.sum(axis=1)
    mean = np.square(differences).sum(axis=1) / np.maximum(count, 1)
    return np.where(count > 0, mean, unknown)


def _block_difference_noise(blocks: IntArray, law: NoiseLaw) -> tuple[FloatArray, FloatArray]:
    """Noise variance in the slope and in the excess of blocks that have both neighbours.

    Both are contrasts of the running sums at the edges of the three blocks.
    """
    between = _block_pair_variances(law, [blocks - 1, blocks, blocks + 1, blocks + 2])
    slope, excess = (0.5, -0.5, -0.5, 0.5), (0.5, -1.5, 1.5, -0.5)
    return _block_contrast(slope, between), _block_contrast(excess, between)


def _block_pair_variances(law: NoiseLaw, edges: Sequence[IntArray]) -> FloatArray:
    """Noise variance between every two of these blocks, a row for each pair, in one call."""
    one, two = (np.concatenate(side) for side in zip(*combinations(edges, 2), strict=True))
    found = law.range_variance(np.minimum(one, two), np.maximum(one, two))
    return found.reshape(-1, edges[0].size)


def _block_contrast(coefficients: Sequence[FloatArray | float], between: FloatArray) -> FloatArray:
    """Exact variance of Σ coefficient·(noise before a block), for coefficients that add up to 0.

    It is −Σ c_i·c_j·Var(noise between i and j) over all pairs: the variogram identity, which needs
    the variances of ranges only (`_block_pair_variances`).
    """
    total: FloatArray = np.zeros(between.shape[1])
    for (one, two), variance in zip(combinations(coefficients, 2), between, strict=True):
        total -= one * two * variance
    return np.maximum(total, 0.0)


_CACHED = 1 << 14  # ranges at a time, so that intermediate results stay in the cache


class _BlockEnds(NamedTuple):
    """Estimates for the values of blocks before given positions, in lattice units."""

    share: FloatArray  # of the block's noise in the estimate
    noise: FloatArray  # variance of the noise of the whole block, where there is a share
    estimate: FloatArray  # of their sum
    variance: FloatArray  # of the estimate's error beyond that noise
    shape: BlockShape | None


class BlockPosterior(Posterior):
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
        first, first_offset = divmod_by_number(starts - self._origin, self._block)
        last, last_offset = divmod_by_number(ends - self._origin, self._block)
        whole = self._leaves.between(first, last, float(self._block * self._threshold))
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

    def _noise(
        self, first: IntArray, last: IntArray, before: _BlockEnds, after: _BlockEnds
    ) -> FloatArray:
        """Noise variance of a contrast of running sums at four edges.

        The estimate is (1 − b)·R(last) + b·R(last + 1) − (1 − a)·R(first) − a·R(first + 1), R the
        running sum before a block, a and b the shares of the two cut blocks. So this is
        `_block_contrast` of these edges; the pairs that are one block apart are known already.
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

    def _ends(self, blocks: IntArray, offsets: IntArray) -> _BlockEnds:
        """Estimate the sum of the first `offsets` values of each block.

        In a closed block from its sum and its neighbours (`block_shape`), in the open one from the
        prediction.
        """
        closed, share = (blocks < self._closed) & (offsets > 0), offsets / self._block
        predicted = offsets * self._leaves.predictions(blocks)
        if not closed.any():
            variance = self._prediction_variance(blocks, offsets)
            nothing = np.zeros(blocks.size)
            return _BlockEnds(nothing, nothing, predicted, variance, None)
        shape = block_shapes(
            np.where(closed, blocks, self._leaves.oldest),
            self._leaves.sums,
            self._law,
            oldest=self._leaves.oldest,
            closed=self._closed,
            unknown=(self._block * self._threshold / 2) ** 2,
        )
        bridge = share * (1 - share)
        return _BlockEnds(
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

    def _inside(self, blocks: IntArray, counts: IntArray, end: _BlockEnds) -> FloatArray:
        """Variance of the estimate for a range inside one block, without the block's noise."""
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
