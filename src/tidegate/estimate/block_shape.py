"""Estimates inside a measured block, once later blocks are released: post-processing of block sums.

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
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.lattice import FloatArray, IntArray
from tidegate.stages import NoiseLaw

# Slopes are averaged over this many blocks on either side.
_AROUND = 8
# Blocks that are handled together: with their neighbours they are twenty times as many numbers.
_PIECE = 1 << 15


class Shape(NamedTuple):
    """Estimates about blocks, one entry each, in lattice units."""

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


def shapes(
    blocks: IntArray,
    running: Callable[[IntArray], IntArray],
    law: NoiseLaw,
    *,
    oldest: int,
    closed: int,
    unknown: float,
) -> Shape:
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
        pieces = [shapes(piece, running, law, **facts) for piece in slices]
        return Shape(*(np.concatenate(column)[places] for column in zip(*pieces, strict=True)))
    if once.size < blocks.size or (np.diff(places) != 1).any():
        return Shape(*(column[places] for column in shapes(once, running, law, **facts)))
    # Block sums from the farthest neighbour's neighbour on: 0 beyond the known blocks.
    around = blocks[:, None] + np.arange(-_AROUND - 1, _AROUND + 3)
    sums: FloatArray = np.diff(running(np.clip(around, oldest, closed)), axis=1).astype(np.float64)
    before, own, after = sums[:, :-2], sums[:, 1:-1], sums[:, 2:]
    centres = around[:, 1:-2]
    known = (centres > oldest) & (centres < closed - 1)  # both neighbours are
    slopes = np.where(known, (after - before) / 2, 0.0)
    excesses = np.where(known, own - (after + before) / 2, 0.0)
    slope_square, excess_square = (
        _mean_square(differences, known, unknown) for differences in (slopes, excesses)
    )
    slope, excess, known = slopes[:, _AROUND], excesses[:, _AROUND], known[:, _AROUND]
    slope_noise, excess_noise = _difference_noise(np.where(known, blocks, oldest + 1), law)
    shrinkage = np.clip(1 - slope_noise / np.maximum(slope_square, 1e-300), 0.0, 1.0)  # w
    return Shape(
        sums=own[:, _AROUND],
        noise=law.range_variance(blocks, blocks + 1),
        slopes=shrinkage * slope,
        slope_noise=np.where(known, np.square(shrinkage) * slope_noise, 0.0),
        slope_square=np.maximum(slope_square, np.square(slope)),
        excess_square=np.maximum(np.maximum(excess_square, np.square(excess)) - excess_noise, 0.0),
    )


def _mean_square(differences: FloatArray, known: NDArray[np.bool_], unknown: float) -> FloatArray:
    """Over the known ones of each row; `unknown` where there are none."""
    count = known.sum(axis=1)
    mean = np.square(differences).sum(axis=1) / np.maximum(count, 1)
    return np.where(count > 0, mean, unknown)


def _difference_noise(blocks: IntArray, law: NoiseLaw) -> tuple[FloatArray, FloatArray]:
    """Variance of the noise in the slope and in the excess of blocks that have both neighbours.

    Both are contrasts of the running sums at the edges of the three blocks.
    """
    between = _pair_variances(law, [blocks - 1, blocks, blocks + 1, blocks + 2])
    slope, excess = (0.5, -0.5, -0.5, 0.5), (0.5, -1.5, 1.5, -0.5)
    return _contrast(slope, between), _contrast(excess, between)


def contrast_variance(
    law: NoiseLaw, terms: list[tuple[IntArray, FloatArray | float]]
) -> FloatArray:
    """Exact variance of Σ coefficient·(noise before a block), for coefficients that sum to 0.

    It is −Σ c_i·c_j·Var(noise between i and j) over all pairs: the variogram identity, which needs
    the variances of ranges only.
    """
    edges, coefficients = zip(*terms, strict=True)
    return _contrast(coefficients, _pair_variances(law, edges))


def _pair_variances(law: NoiseLaw, edges: Sequence[IntArray]) -> FloatArray:
    """Variance of the noise between every two of these, a row for each pair: in one call."""
    one, two = (np.concatenate(side) for side in zip(*combinations(edges, 2), strict=True))
    found = law.range_variance(np.minimum(one, two), np.maximum(one, two))
    return found.reshape(-1, edges[0].size)


def _contrast(coefficients: Sequence[FloatArray | float], between: FloatArray) -> FloatArray:
    total: FloatArray = np.zeros(between.shape[1])
    for (one, two), variance in zip(combinations(coefficients, 2), between, strict=True):
        total -= one * two * variance
    return np.maximum(total, 0.0)
