"""Kalman filter and smoother from block to block: three numbers are all that a block hands on.

Between blocks the state is the running sum, the level and the swing (`HANDED_ON`): the leaves of a
block are closed, and its noise is its own. Later measurements depend on the level and the swing
only. So the past is smoothed from block to block first, forward and backward; what happens inside
the blocks is then computed for many at once (`model_smoother`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tidegate.estimate.mixture.block_batches import HANDED_ON, BlockBatch, BlockTransition
from tidegate.estimate.mixture.cap_steps import moved
from tidegate.estimate.mixture.models import LEVEL_MEAN, LEVEL_VARIANCE
from tidegate.lattice import FloatArray

_SIZE = len(HANDED_ON)
# Of one stream, or of each of many: everything below is written for both, entry by entry.
Number = float | FloatArray
Vector = list[Number]
Matrix = list[Vector]


class Block(NamedTuple):
    """Of one block, or of the blocks at one place in many streams (`BlockTransition`)."""

    across: Matrix
    noise: Matrix
    information: Matrix
    shift: Vector
    hint: Vector
    moved: Number  # by how much of itself another cap may have moved the level; 0: the same cap


class BlockChain(NamedTuple):
    """One entry per block, about the state in which it begins.

    Attributes:
        means, covariances: of the running sum, the level and the swing, given all blocks before.
        adjoints: Λ of the level and the swing, and λ as the last column, of the Bryson-Frazier
            smoother (see `model_smoother`): what the block and all later ones tell about
            that state.
        after: the same where the block ends; nothing follows the last one of a stream.
    """

    means: FloatArray
    covariances: FloatArray
    adjoints: FloatArray
    after: FloatArray


def solve_chain(
    parts: Sequence[BlockBatch],
    cap_steps: Sequence[int],
    lengths: Sequence[int],
    swings: Sequence[float],
) -> BlockChain:
    """Filter forward and smooth backward, in many streams at once.

    Args:
        parts: the blocks of all streams, numbered one stream after the other.
        cap_steps: of each block.
        lengths: how many blocks each stream has.
        swings: the variance of the swing in the model of each stream.
    """
    count = len(cap_steps)
    every = _transitions(parts, count)
    caps = np.array(cap_steps, dtype=np.int64)
    changes = np.zeros(count)
    for at in np.flatnonzero(caps[1:] != caps[:-1]).tolist():
        changes[at + 1] = moved(cap_steps[at], cap_steps[at + 1])
    firsts = np.cumsum([0, *lengths[:-1]])
    changes[firsts[np.array(lengths, dtype=np.int64) > 0]] = 0.0
    found = BlockChain(
        np.empty((count, _SIZE)),
        np.empty((count, _SIZE, _SIZE)),
        np.empty((count, 2, 3)),
        np.zeros((count, 2, 3)),
    )
    # The longest stream first: those that have a block at a place are then the first ones.
    order = sorted(range(len(lengths)), key=lambda stream: -lengths[stream])
    rows = [
        np.array([firsts[one] + place for one in order if lengths[one] > place])
        for place in range(max(lengths, default=0))
    ]
    numbers = (*every, changes)
    if len(lengths) == 1:
        # Block by block, on a few numbers each: lists of floats take a third of the time of arrays
        # that small. Terms are added in the order of `covariances.product`: the same bits.
        blocks = [Block(*one) for one in zip(*(part.tolist() for part in numbers), strict=True)]
        swing: Number = swings[0]
    else:
        blocks = [Block(*(_entries(part[row]) for part in numbers)) for row in rows]
        swing = np.array(swings)[order]
    means, covariances, inflations = _forward(blocks, swing)
    adjoints = _backward(blocks, means, covariances, inflations)
    for row, mean, covariance, adjoint in zip(rows, means, covariances, adjoints, strict=True):
        for whole, entries in zip(found, (mean, covariance, adjoint), strict=False):
            each = np.array(entries, dtype=np.float64)
            whole[row] = each if isinstance(swing, float) else np.moveaxis(each, -1, 0)
    later = np.delete(np.arange(count), firsts[np.array(lengths, dtype=np.int64) > 0])
    found.after[later - 1] = found.adjoints[later]
    return found


def _transitions(parts: Sequence[BlockBatch], count: int) -> BlockTransition:
    """The transitions of all blocks, in their order: one entry each in every array."""
    shapes = ((_SIZE, _SIZE), (_SIZE, _SIZE), (2, 2), (_SIZE,), (2,))
    every = BlockTransition(*(np.empty((count, *shape)) for shape in shapes))
    for part in parts:
        for found, each in zip(every, part.transition(), strict=True):
            found[part.numbers] = each
    return every


def _entries(of_each: FloatArray) -> Any:
    """Arrays over streams, entry by entry, in place of one array of numbers, vectors, matrices."""
    moved_last = np.ascontiguousarray(np.moveaxis(of_each, 0, -1))
    if moved_last.ndim == 1:
        return moved_last
    return list(moved_last) if moved_last.ndim == 2 else [list(row) for row in moved_last]


def _forward(
    blocks: Sequence[Block], swing: Number
) -> tuple[list[Vector], list[Matrix], list[Matrix]]:
    """Kalman filter: mean m and covariance P at the beginning of each block, and added variances.

    The measurements of a block have information J and information vector η about the state in
    which it begins. By Woodbury, with G = (I + J·P)⁻¹, the update is m + P·G·(η − J·m) and P·G;
    then the block's transition is applied. J is 2×2 (level and swing); the running sum is corrected
    through its covariances with these.
    """
    means, covariances, inflations = [], [], []
    nothing = 0.0 * swing
    mean: Vector = [nothing, LEVEL_MEAN + nothing, nothing]
    covariance: Matrix = [
        [nothing, nothing, nothing],
        [nothing, LEVEL_VARIANCE + nothing, nothing],
        [nothing, nothing, swing],
    ]
    for across, noise, information, shift, hint, change in blocks:
        mean, covariance = _first(mean, change), [_first(row, change) for row in covariance]
        inflation = _inflation(change, mean[1])
        inflations.append([[inflation, 0.0 * inflation], [0.0 * inflation, 0.0 * inflation]])
        if np.any(change):  # another cap may have moved the level
            for row in (0, 1):
                more = _plus(covariance[row + 1][1:], inflations[-1][row])
                covariance[row + 1][1:] = _where(change, more, covariance[row + 1][1:])
        means.append(mean)
        covariances.append([list(row) for row in covariance])
        gain = _product([row[1:] for row in covariance], _woodbury(information, _inner(covariance)))
        mean = _plus(mean, _applied(gain, _minus(hint, _applied(information, mean[1:]))))
        told = _applied(information, [covariance[1][0], covariance[2][0]])
        first = covariance[0][0] - _applied(gain[:1], told)[0]
        covariance = [[first, *gain[0]], [gain[0][0], *gain[1]], [gain[0][1], *gain[2]]]
        mean = _plus(_applied(across, mean), shift)
        covariance = _product(_product(across, covariance), _transposed(across))
        covariance = [_plus(row, more) for row, more in zip(covariance, noise, strict=True)]
    return means, covariances, inflations


def _backward(
    blocks: Sequence[Block],
    means: list[Vector],
    covariances: list[Matrix],
    inflations: list[Matrix],
) -> list[Matrix]:
    """Information filter from the last block to the first; gives Λ and λ where each block begins.

    J and η of all later blocks are taken back over a block's transition F with noise C:
    J ← Fᵀ·(I + J·C)⁻¹·J·F, and η alike. Against the filter's (m, P), Λ = (I + J·P)⁻¹·J and
    λ = −(I + J·P)⁻¹·(η − J·m).
    """
    adjoints: list[Matrix] = []
    information: Matrix = [[0.0, 0.0], [0.0, 0.0]]
    vector: Vector = [0.0, 0.0]
    for at in range(len(blocks) - 1, -1, -1):
        across, noise, own, shift, hint, change = blocks[at]
        information = [_filled(row, change) for row in information]
        vector = _filled(vector, change)
        over, left = _inner(across), _woodbury(information, _inner(noise))
        shifted = _minus(vector, _applied(information, shift[1:]))
        vector = _plus(hint, _applied(_transposed(over), _applied(left, shifted)))
        later = _product(_transposed(over), _product(_product(left, information), over))
        information = [_plus(row, more) for row, more in zip(own, later, strict=True)]
        left = _woodbury(information, _inner(covariances[at]))
        missed = _applied(left, _minus(vector, _applied(information, means[at][1:])))
        adjoint = _product(left, information)
        adjoints.append([[*row, -each] for row, each in zip(adjoint, missed, strict=True)])
        left = _woodbury(information, inflations[at])
        information, vector = _product(left, information), _applied(left, vector)
    return adjoints[::-1]


def _first(vector: Vector, like: Number) -> Vector:
    """Of the streams that have a block here: the first ones."""
    if isinstance(like, float):
        return vector
    return [each[: like.size] for each in vector]  # type: ignore[index]  # arrays, as `like` is


def _filled(vector: Vector, like: Number) -> Vector:
    """Nothing is known yet of streams that end with this block."""
    if isinstance(like, float):
        return vector
    found: Vector = []
    for each in vector:
        more = np.zeros(like.size)
        more[: np.size(each)] = each if np.ndim(each) else 0.0
        found.append(more)
    return found


def _inflation(change: Number, level: Number) -> Number:
    """Squared as a single stream does it, so that many have its bits."""
    if isinstance(change, float):
        return (change * level) ** 2
    return np.array([each**2 for each in (change * level).tolist()])


def _where(change: Number, one: Vector, other: Vector) -> Vector:
    if isinstance(change, float):
        return one
    return [np.where(change, *pair) for pair in zip(one, other, strict=True)]


def _woodbury(information: Matrix, covariance: Matrix) -> Matrix:
    """(I + J·C)⁻¹ for 2×2 matrices: the part of an information J that noise C leaves."""
    (a, b), (c, d) = _product(information, covariance)
    a, b, c, d = 1.0 + a, 0.0 + b, 0.0 + c, 1.0 + d
    determinant = a * d - b * c
    return [[d / determinant, -b / determinant], [-c / determinant, a / determinant]]


def _inner(matrix: Matrix) -> Matrix:
    """The part for level and swing, without the running sum."""
    return [matrix[1][1:], matrix[2][1:]]


def _transposed(matrix: Matrix) -> Matrix:
    return [list(column) for column in zip(*matrix, strict=True)]


def _product(left: Matrix, right: Matrix) -> Matrix:
    columns = _transposed(right)
    return [[_dot(row, column) for column in columns] for row in left]


def _applied(matrix: Matrix, vector: Vector) -> Vector:
    return [_dot(row, vector) for row in matrix]


def _dot(one: Vector, other: Vector) -> Number:
    if len(one) == 2:
        return one[0] * other[0] + one[1] * other[1]
    return one[0] * other[0] + one[1] * other[1] + one[2] * other[2]


def _plus(one: Vector, other: Vector) -> Vector:
    return [first + second for first, second in zip(one, other, strict=True)]


def _minus(one: Vector, other: Vector) -> Vector:
    return [first - second for first, second in zip(one, other, strict=True)]
