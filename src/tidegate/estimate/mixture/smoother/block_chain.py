"""Kalman filter and smoother from block to block; a block passes on three numbers only.

Between blocks the state is the running sum, the level and the swing (`HANDED_ON`): the leaves of a
block are closed, and its noise is its own. Later measurements depend on the level and the swing
only. So the past is smoothed from block to block first, forward and backward; what happens inside
the blocks is then computed for many at once (`forward_backward_passes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tidegate.estimate.mixture.cap_steps import moved_cap_step
from tidegate.estimate.mixture.kalman_filter.state_space_models import LEVEL_MEAN, LEVEL_VARIANCE
from tidegate.estimate.mixture.smoother.block_batches import HANDED_ON, BatchTransition, BlockBatch
from tidegate.lattice import FloatArray, IntArray

_SIZE = len(HANDED_ON)
# Of one stream, or of each of many: everything below is written for both, entry by entry.
Number = float | FloatArray
Vector = list[Number]
Matrix = list[Vector]
Pairs = Any  # two rows of two numbers


class ChainBlock(NamedTuple):
    """The transition of one block, or of the blocks at one place in many streams."""

    across: Matrix
    noise: Matrix
    information: Matrix
    shift: Vector
    hint: Vector
    moved: Number  # by how much of itself another cap may have moved the level; 0: the same cap


class BlockChain(NamedTuple):
    """The distribution of the state at the beginning of each block: one entry per block.

    Attributes:
        means, covariances: of the running sum, the level and the swing, given all blocks before.
        adjoints: Λ of the level and the swing, and λ as the last column, of the Bryson-Frazier
            smoother (see `ModelSmoother`): what the block and all later ones tell about
            that state.
        after: the same where the block ends; nothing follows the last one of a stream.
        blocks: the transitions that it was solved with.
    """

    means: FloatArray
    covariances: FloatArray
    adjoints: FloatArray
    after: FloatArray
    blocks: BatchTransition


def solve_chain(
    parts: Sequence[BlockBatch],
    cap_steps: Sequence[int],
    lengths: Sequence[int],
    swings: Sequence[float],
) -> BlockChain:
    """Filter forward and smooth backward over the blocks of many streams.

    Args:
        parts: the blocks of all streams, numbered one stream after the other.
        cap_steps: of each block.
        lengths: how many blocks each stream has.
        swings: the variance of the swing in the model of each stream.
    """
    count = len(cap_steps)
    every = _block_transitions(parts, count)
    caps = np.array(cap_steps, dtype=np.int64)
    changes = np.zeros(count)
    for at in np.flatnonzero(caps[1:] != caps[:-1]).tolist():
        changes[at + 1] = moved_cap_step(cap_steps[at], cap_steps[at + 1])
    firsts = np.cumsum([0, *lengths[:-1]])
    changes[firsts[np.array(lengths, dtype=np.int64) > 0]] = 0.0
    found = BlockChain(
        np.empty((count, _SIZE)),
        np.empty((count, _SIZE, _SIZE)),
        np.empty((count, 2, 3)),
        np.zeros((count, 2, 3)),
        every,
    )
    solve = (
        _chain_of_one_stream
        if len(lengths) == 1
        else partial(_chains_of_many_streams, firsts, lengths)
    )
    solve((*every, changes), swings, found)
    later = np.delete(np.arange(count), firsts[np.array(lengths, dtype=np.int64) > 0])
    found.after[later - 1] = found.adjoints[later]
    return found


def _chain_of_one_stream(
    numbers: Sequence[FloatArray], swings: Sequence[float], found: BlockChain
) -> None:
    """Solve block by block, in floats: ten times as fast as arrays of one number."""
    if not numbers[-1].size:
        return
    blocks = [ChainBlock(*one) for one in zip(*(part.tolist() for part in numbers), strict=True)]
    means, covariances, inflations = _blocks_forward(blocks, swings[0])
    found.means[:], found.covariances[:] = means, covariances
    found.adjoints[:] = _blocks_backward(blocks, means, covariances, inflations)


def _chains_of_many_streams(
    firsts: IntArray,
    lengths: Sequence[int],
    numbers: Sequence[FloatArray],
    swings: Sequence[float],
    found: BlockChain,
) -> None:
    """Solve the blocks at one place of all streams in arrays: the same bits."""
    # The longest stream first: those that have a block at a place are then the first ones.
    order = np.argsort(-np.array(lengths, dtype=np.int64), kind="stable")
    left = -np.sort(-np.array(lengths, dtype=np.int64))
    rows = [
        firsts[order[: int(np.count_nonzero(left > place))]] + place
        for place in range(max(lengths, default=0))
    ]
    blocks = [ChainBlock(*(_entries_of_chains(part[row]) for part in numbers)) for row in rows]
    means, covariances, inflations = _blocks_forward(blocks, np.array(swings)[order])
    adjoints = _blocks_backward(blocks, means, covariances, inflations)
    for row, *parts in zip(rows, means, covariances, adjoints, strict=True):
        for whole, entries in zip(found[:3], parts, strict=True):
            whole[row] = np.moveaxis(np.array(entries, dtype=np.float64), -1, 0)


def _block_transitions(parts: Sequence[BlockBatch], count: int) -> BatchTransition:
    """The transitions of all blocks in order: one entry for each in every array."""
    shapes = ((_SIZE, _SIZE), (_SIZE, _SIZE), (2, 2), (_SIZE,), (2,))
    every = BatchTransition(*(np.empty((count, *shape)) for shape in shapes))
    for part in parts:
        for found, each in zip(every, part.transition(), strict=True):
            found[part.numbers] = each
    return every


def _entries_of_chains(of_each: FloatArray) -> Any:
    """Arrays over streams, entry by entry, in place of one array of numbers, vectors, matrices."""
    moved_last = np.ascontiguousarray(np.moveaxis(of_each, 0, -1))
    if moved_last.ndim == 1:
        return moved_last
    return list(moved_last) if moved_last.ndim == 2 else [list(row) for row in moved_last]


def _blocks_forward(
    blocks: Sequence[ChainBlock], swing: Number
) -> tuple[list[Vector], list[Matrix], list[Number]]:
    """Kalman filter: mean m and covariance P at the beginning of each block, and added variances.

    The measurements of a block have information J and information vector η about the state in
    which it begins. By Woodbury, with G = (I + J·P)⁻¹, the update is m + P·G·(η − J·m) and P·G;
    then the block's transition F is applied. J is 2×2 (level and swing); the running sum is
    corrected through its covariances with these, and F adds to it: its first column is 1, 0, 0.
    Written out, since calls on so few numbers cost more than the numbers.
    """
    means, covariances, inflations = [], [], []
    nothing = 0.0 * swing
    m, p = [nothing, LEVEL_MEAN + nothing, nothing], [nothing] * 9
    p[4], p[8] = LEVEL_VARIANCE + nothing, swing
    for across, noise, ((j, k), (i, n)), shift, hint, change in blocks:
        (m0, m1, m2), (p00, p01, p02, p10, p11, p12, p20, p21, p22) = (
            _first_chains(m, change),
            _first_chains(p, change),
        )
        inflation = _chain_inflation(change, m1)
        inflations.append(inflation)
        # Another cap may have moved the level. (`np.any` of one float takes longer than the rest.)
        if change if isinstance(change, float) else change.any():
            p11 = _where_in_chains(change, p11 + inflation, p11)
        means.append([m0, m1, m2])
        covariances.append([[p00, p01, p02], [p10, p11, p12], [p20, p21, p22]])
        (g, h), (o, q) = _chain_woodbury(((j, k), (i, n)), ((p11, p12), (p21, p22)))
        a0, a1 = p01 * g + p02 * o, p01 * h + p02 * q  # the gain P·G
        b0, b1 = p11 * g + p12 * o, p11 * h + p12 * q
        c0, c1 = p21 * g + p22 * o, p21 * h + p22 * q
        r0, r1 = hint[0] - (j * m1 + k * m2), hint[1] - (i * m1 + n * m2)
        m0, m1, m2 = m0 + (a0 * r0 + a1 * r1), m1 + (b0 * r0 + b1 * r1), m2 + (c0 * r0 + c1 * r1)
        first = p00 - (a0 * (j * p10 + k * p20) + a1 * (i * p10 + n * p20))
        (_, u, v), (_, w, x), (_, y, z) = across
        m = [
            m0 + u * m1 + v * m2 + shift[0],
            w * m1 + x * m2 + shift[1],
            y * m1 + z * m2 + shift[2],
        ]
        # F·P, row by row, and then ·Fᵀ.
        rows = (
            (first + u * a0 + v * a1, a0 + u * b0 + v * c0, a1 + u * b1 + v * c1),
            (w * a0 + x * a1, w * b0 + x * c0, w * b1 + x * c1),
            (y * a0 + z * a1, y * b0 + z * c0, y * b1 + z * c1),
        )
        p = [
            moved + more
            for (d, e, f), added in zip(rows, noise, strict=True)
            for moved, more in zip(
                (d + e * u + f * v, e * w + f * x, e * y + f * z), added, strict=True
            )
        ]
    return means, covariances, inflations


def _blocks_backward(
    blocks: Sequence[ChainBlock],
    means: list[Vector],
    covariances: list[Matrix],
    inflations: list[Number],
) -> list[Matrix]:
    """Information filter from the last block to the first: Λ and λ at the beginning of each block.

    J and η of all later blocks are taken back over a block's transition F with noise C:
    J ← Fᵀ·(I + J·C)⁻¹·J·F, and η alike. Against the filter's (m, P), Λ = (I + J·P)⁻¹·J and
    λ = −(I + J·P)⁻¹·(η − J·m).
    """
    adjoints: list[Matrix] = []
    known: Vector = [0.0] * 6  # J, and η
    for at in range(len(blocks) - 1, -1, -1):
        across, noise, own, shift, hint, change = blocks[at]
        j, k, i, n, e0, e1 = _filled_chains(known, change)
        (_, w, x), (_, y, z) = across[1:]
        (g, h), (o, q) = _chain_woodbury(((j, k), (i, n)), (noise[1][1:], noise[2][1:]))
        s0, s1 = e0 - (j * shift[1] + k * shift[2]), e1 - (i * shift[1] + n * shift[2])
        s0, s1 = g * s0 + h * s1, o * s0 + q * s1
        e0, e1 = hint[0] + (w * s0 + y * s1), hint[1] + (x * s0 + z * s1)
        # (I + J·C)⁻¹·J, ·F, and then Fᵀ·.
        a, b, c, d = g * j + h * i, g * k + h * n, o * j + q * i, o * k + q * n
        a, b, c, d = a * w + b * y, a * x + b * z, c * w + d * y, c * x + d * z
        j, k = own[0][0] + (w * a + y * c), own[0][1] + (w * b + y * d)
        i, n = own[1][0] + (x * a + z * c), own[1][1] + (x * b + z * d)
        (_, m1, m2), (_, (_, p11, p12), (_, p21, p22)) = means[at], covariances[at]
        (g, h), (o, q) = _chain_woodbury(((j, k), (i, n)), ((p11, p12), (p21, p22)))
        s0, s1 = e0 - (j * m1 + k * m2), e1 - (i * m1 + n * m2)
        adjoints.append(
            [
                [g * j + h * i, g * k + h * n, -(g * s0 + h * s1)],
                [o * j + q * i, o * k + q * n, -(o * s0 + q * s1)],
            ]
        )
        # What added variance leaves of it: (I + J·C)⁻¹ with C = the inflation of the level.
        inflation = inflations[at]
        left, told = 1.0 + j * inflation, i * inflation
        known = [j / left, k / left, i - told * j / left, n - told * k / left]
        known += [e0 / left, e1 - told * e0 / left]
    return adjoints[::-1]


def _first_chains(vector: Vector, like: Number) -> Vector:
    """Keep the entries of streams that have a block here: the first ones."""
    if isinstance(like, float):
        return vector
    return [each[: like.size] for each in vector]  # type: ignore[index]  # arrays, as `like` is


def _filled_chains(vector: Vector, like: Number) -> Vector:
    """Append zeros for streams that end with this block, which have no later information."""
    if isinstance(like, float):
        return vector
    found: Vector = []
    for each in vector:
        more = np.zeros(like.size)
        more[: np.size(each)] = each if np.ndim(each) else 0.0
        found.append(more)
    return found


def _chain_inflation(change: Number, level: Number) -> Number:
    """The inflation, squared in the same way as for one stream: the same bits."""
    if isinstance(change, float):
        return (change * level) ** 2
    return np.array([each**2 for each in (change * level).tolist()])


def _where_in_chains(change: Number, one: Number, other: Number) -> Number:
    return one if isinstance(change, float) else np.where(change, one, other)


def _chain_woodbury(information: Pairs, covariance: Pairs) -> Pairs:
    """(I + J·C)⁻¹ for 2×2 matrices: the part of an information J that noise C leaves."""
    ((j, k), (i, n)), ((p, q), (r, s)) = information, covariance
    a, b, c, d = 1.0 + (j * p + k * r), j * q + k * s, i * p + n * r, 1.0 + (i * q + n * s)
    determinant = a * d - b * c
    return (d / determinant, -b / determinant), (-c / determinant, a / determinant)
