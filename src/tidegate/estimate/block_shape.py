"""What is known, later on, about the inside of a measured block: post-processing of block sums.

Once a block's noisy sum S and those of its neighbours are released, the sum of its first k of B
values is put at

    S·f − w·d·f(1 − f)/2,    f = k/B,    d = (S after − S before)/2,

the values of a line through the block sums: exact at both ends of the block. The slope d is mostly
noise where noise is large, so it is shrunk by w = 1 − (its noise variance)/(mean square of the
slopes around), from 0 up. The error has four parts: the noise in S·f, which is exact and counted
with that of all other sums; the scatter of k independent values in [0, θ] around their mean; the
drift of the level inside the block, whose square is put at (f(1 − f))² times the mean squared slope
(or this block's, if larger; a level that walks at random has 0.8 of that); and bursts: an excess J
over the neighbours, beyond what noise explains, lies somewhere in the block: f(1 − f)·J².
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import NamedTuple

import numpy as np

from tidegate.lattice import FloatArray, IntArray
from tidegate.stages import NoiseLaw

# How many blocks to either side say what slopes are like.
_AROUND = 8
# Blocks that are looked at together: their surroundings are twenty times as many numbers.
_PIECE = 1 << 15


class Shape(NamedTuple):
    """What is known about blocks, one entry each, in lattice units."""

    sums: FloatArray
    noise: FloatArray  # variance of the noise in them
    slopes: FloatArray  # shrunk
    slope_noise: FloatArray  # variance of the noise in these
    steepness: FloatArray  # mean squared slope around, noise and all
    bumpiness: FloatArray  # squared excess over the neighbours, without what noise explains

    def variance(self, counts: IntArray, block: int, threshold: int) -> FloatArray:
        """Of what so many values of a block are put at: scatter, drift and bursts, in units²."""
        share = counts / block
        bend = share * (1 - share)
        level = np.clip(self.sums / block, 0, threshold)
        spread = np.maximum(level * (threshold - level), threshold**2 / 16)
        found: FloatArray = (
            block * bend * spread
            + np.square(bend) * (self.steepness + self.slope_noise / 4)
            + bend * self.bumpiness
        )
        return found


def shapes(
    blocks: IntArray,
    running: Callable[[IntArray], IntArray],
    law: NoiseLaw,
    *,
    oldest: int,
    closed: int,
    unknown: float,
) -> Shape:
    """Blocks from `oldest` to before `closed`, as far as their running sums tell.

    Args:
        blocks: which; looked at once each, however often they come.
        running: the noisy sum of all blocks before each of these.
        law: the law of the noise.
        oldest: the first block that is known.
        closed: the first block that is not.
        unknown: the squared slope to assume where there are too few blocks to see any.
    """
    once, places = np.unique(blocks, return_inverse=True)
    pieces = [
        _shapes(once[at : at + _PIECE], running, law, oldest, closed, unknown)
        for at in range(0, once.size, _PIECE)
    ]
    return Shape(*(np.concatenate(column)[places] for column in zip(*pieces, strict=True)))


def _shapes(
    blocks: IntArray,
    running: Callable[[IntArray], IntArray],
    law: NoiseLaw,
    oldest: int,
    closed: int,
    unknown: float,
) -> Shape:
    # Running sums, from the farthest neighbour's neighbour on; they stand still beyond the known.
    around = blocks[:, None] + np.arange(-_AROUND - 1, _AROUND + 3)
    sums: FloatArray = np.diff(running(np.clip(around, oldest, closed)), axis=1).astype(np.float64)
    centres = around[:, 1:-2]
    known = (centres > oldest) & (centres < closed - 1)
    before, own, after = sums[:, :-2], sums[:, 1:-1], sums[:, 2:]
    slopes = np.where(known, (after - before) / 2, 0.0)
    bumps = np.where(known, own - (after + before) / 2, 0.0)
    count = known.sum(axis=1)
    mean, bumpy = (
        np.where(count > 0, np.square(all_of).sum(axis=1) / np.maximum(count, 1), unknown)
        for all_of in (slopes, bumps)
    )
    slope, bump, known = slopes[:, _AROUND], bumps[:, _AROUND], known[:, _AROUND]
    inner = np.where(known, blocks, oldest + 1)
    edges = [inner - 1, inner, inner + 1, inner + 2]
    noise, ripple = (
        contrast_variance(law, list(zip(edges, coefficients, strict=True)))
        for coefficients in ((0.5, -0.5, -0.5, 0.5), (0.5, -1.5, 1.5, -0.5))
    )
    part = np.clip(1 - noise / np.maximum(mean, 1e-300), 0.0, 1.0)
    return Shape(
        own[:, _AROUND],
        law.range_variance(blocks, blocks + 1),
        part * slope,
        np.where(known, np.square(part) * noise, 0.0),
        np.maximum(mean, np.square(slope)),
        np.maximum(np.maximum(bumpy, np.square(bump)) - ripple, 0.0),
    )


def contrast_variance(
    law: NoiseLaw, terms: list[tuple[IntArray, FloatArray | float]]
) -> FloatArray:
    """Exact variance of Σ coefficient·(noise before a block), for coefficients that sum to 0.

    −Σ c_i·c_j·Var(noise between i and j), over all pairs: the variances of ranges say it all.
    """
    total: FloatArray = np.zeros(terms[0][0].size)
    for (one, first), (two, second) in combinations(terms, 2):
        weight = np.asarray(first * second)
        if weight.any():
            low, high = np.minimum(one, two), np.maximum(one, two)
            total -= weight * law.range_variance(low, high)
    return np.maximum(total, 0.0)
