"""Kalman filter and smoother from block to block: three numbers are all that a block hands on.

Between blocks the state is the running sum, the level and the swing (`HANDED_ON`): the leaves of a
block are closed, and its noise is its own. Later measurements depend on the level and the swing
only. So the past is smoothed from block to block first, forward and backward; what happens inside
the blocks is then computed for many at once (`fixed_interval_smoother`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidegate.estimate.mixture.block_batches import HANDED_ON, BlockBatch, BlockTransition
from tidegate.estimate.mixture.cap_steps import moved
from tidegate.estimate.mixture.models import LEVEL_MEAN, LEVEL_VARIANCE, Models
from tidegate.lattice import FloatArray, IntArray

_SIZE = len(HANDED_ON)
Vector = list[float]
Matrix = list[Vector]
# Transition F, its noise, information J, shift and information vector η, of every block.
Blocks = tuple[list[Matrix], list[Matrix], list[Matrix], list[Vector], list[Vector]]


@dataclass(frozen=True)
class BlockChain:
    """One entry per block, about the state in which it begins.

    Attributes:
        means, covariances: of the running sum, the level and the swing, given all blocks before.
        adjoints: Λ of the level and the swing, and λ as the last column, of the Bryson-Frazier
            smoother (see `fixed_interval_smoother`): what the block and all later ones tell about
            that state.
    """

    means: FloatArray
    covariances: FloatArray
    adjoints: FloatArray

    def after(self, numbers: IntArray) -> FloatArray:
        """Λ and λ where these blocks end; nothing follows the last one."""
        return np.concatenate((self.adjoints, np.zeros((1, 2, 3))))[numbers + 1]


def solve_chain(parts: Sequence[BlockBatch], cap_steps: Sequence[int], one: Models) -> BlockChain:
    """Filter forward and smooth backward; `cap_steps[k]` is the cap step of block k."""
    count = len(cap_steps)
    every = _transitions(parts, count)
    # Block by block, on a few numbers each: lists of floats take a third of the time of arrays that
    # small. Terms are added in the order of `covariances.product`, so the bits are the same.
    blocks: Blocks = (
        every.across.tolist(), every.noise.tolist(), every.information.tolist(),
        every.shifts.tolist(), every.hints.tolist(),
    )  # fmt: skip
    means, covariances, inflations = _forward(blocks, cap_steps, one)
    adjoints = _backward(blocks, means, covariances, inflations)
    return BlockChain(
        np.array(means).reshape(count, _SIZE),
        np.array(covariances).reshape(count, _SIZE, _SIZE),
        np.array(adjoints, dtype=np.float64).reshape(count, 2, 3),
    )


def _transitions(parts: Sequence[BlockBatch], count: int) -> BlockTransition:
    """The transitions of all blocks, in their order: one entry each in every array."""
    shapes = ((_SIZE, _SIZE), (_SIZE, _SIZE), (2, 2), (_SIZE,), (2,))
    every = BlockTransition(*(np.empty((count, *shape)) for shape in shapes))
    for part in parts:
        for found, each in zip(every, part.transition(), strict=True):
            found[part.numbers] = each
    return every


def _forward(
    blocks: Blocks, cap_steps: Sequence[int], one: Models
) -> tuple[list[Vector], list[Matrix], list[Matrix]]:
    """Kalman filter: mean m and covariance P at the beginning of each block, and added variances.

    The measurements of a block have information J and information vector η about the state in
    which it begins. By Woodbury, with G = (I + J·P)⁻¹, the update is m + P·G·(η − J·m) and P·G;
    then the block's transition is applied. J is 2×2 (level and swing); the running sum is corrected
    through its covariances with these.
    """
    means, covariances, inflations = [], [], []
    mean: Vector = [0.0, LEVEL_MEAN, 0.0]
    covariance: Matrix = [
        [0.0, 0.0, 0.0],
        [0.0, LEVEL_VARIANCE, 0.0],
        [0.0, 0.0, one.variance.item(0)],
    ]
    for at, (across, noise, information, shift, hint) in enumerate(zip(*blocks, strict=True)):
        inflations.append([[0.0, 0.0], [0.0, 0.0]])
        if at and cap_steps[at] != cap_steps[at - 1]:  # another cap may have moved the level
            inflations[at][0][0] = (moved(cap_steps[at - 1], cap_steps[at]) * mean[1]) ** 2
            for row in (0, 1):
                covariance[row + 1][1:] = _plus(covariance[row + 1][1:], inflations[at][row])
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
    blocks: Blocks, means: list[Vector], covariances: list[Matrix], inflations: list[Matrix]
) -> list[Matrix]:
    """Information filter from the last block to the first; gives Λ and λ where each block begins.

    J and η of all later blocks are taken back over a block's transition F with noise C:
    J ← Fᵀ·(I + J·C)⁻¹·J·F, and η alike. Against the filter's (m, P), Λ = (I + J·P)⁻¹·J and
    λ = −(I + J·P)⁻¹·(η − J·m).
    """
    adjoints: list[Matrix] = []
    information: Matrix = [[0.0, 0.0], [0.0, 0.0]]
    vector: Vector = [0.0, 0.0]
    for at, (across, noise, own, shift, hint) in reversed([*enumerate(zip(*blocks, strict=True))]):
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


def _dot(one: Vector, other: Vector) -> float:
    if len(one) == 2:
        return one[0] * other[0] + one[1] * other[1]
    return one[0] * other[0] + one[1] * other[1] + one[2] * other[2]


def _plus(one: Vector, other: Vector) -> Vector:
    return [first + second for first, second in zip(one, other, strict=True)]


def _minus(one: Vector, other: Vector) -> Vector:
    return [first - second for first, second in zip(one, other, strict=True)]
