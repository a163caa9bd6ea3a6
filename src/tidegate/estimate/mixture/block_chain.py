"""What blocks tell each other where they meet: of the level and the swing, and of the running sum.

Three numbers are all that a block hands on (`HANDED_ON`), and two of them all that later sums speak
about. So a look back can go from block to block instead of from cell to cell, there and back; what
happens inside the blocks is then found for many at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidegate.estimate.mixture.batches import HANDED_ON, Stretch
from tidegate.estimate.mixture.cap_steps import moved
from tidegate.estimate.mixture.models import LEVEL_MEAN, LEVEL_VARIANCE, Models
from tidegate.lattice import FloatArray, IntArray

Vector = list[float]
Matrix = list[Vector]
Steps = tuple[list[Matrix], list[Matrix], list[Matrix], list[Vector], list[Vector]]


@dataclass(frozen=True)
class Joints:
    """One entry per block, for what it begins with.

    Attributes:
        means: of the running sum, the level and the swing, given all blocks before.
        covariances: the same.
        later: Λ of the level and the swing, and λ as the last column: what the block and all after
            it add to that.
    """

    means: FloatArray
    covariances: FloatArray
    later: FloatArray

    def after(self, numbers: IntArray) -> FloatArray:
        """Λ and λ where these blocks end; nothing follows the last one."""
        return np.concatenate((self.later, np.zeros((1, 2, 3))))[numbers + 1]


def joints(parts: Sequence[Stretch], rungs: Sequence[int], one: Models) -> Joints:
    """From the first block to the last and back; `rungs` says how high the caps of the blocks are.

    There: a belief (m, P) about what a block is handed meets its information J and hint η. With
    G = (I + J·P)⁻¹, it becomes (m + P·G·(η − J·m), P·G), and is taken across. Back: J and η of all
    later blocks together are taken across in the other direction, where the noise C of the passage
    leaves (I + J·C)⁻¹ of them. Both are 2×2; the running sum is carried along by its covariances.
    """
    count, size = len(rungs), len(HANDED_ON)
    across, noise = np.empty((count, size, size)), np.empty((count, size, size))
    own, shifts, hints = np.empty((count, 2, 2)), np.empty((count, size)), np.empty((count, 2))
    for part in parts:
        passage = part.passage()
        for found, each in zip((across, noise, own, shifts, hints), passage, strict=True):
            found[part.numbers] = each
    # From here on block by block, on a few numbers each: lists of floats take a third of the time
    # of arrays that small, and the same operations in the same order give the same bits.
    steps: Steps = (
        across.tolist(), noise.tolist(), own.tolist(), shifts.tolist(), hints.tolist(),
    )  # fmt: skip
    means, covariances, unsettled = _there(steps, rungs, one)
    adding = _back(steps, means, covariances, unsettled)
    return Joints(
        np.array(means).reshape(count, size),
        np.array(covariances).reshape(count, size, size),
        np.array(adding, dtype=np.float64).reshape(count, 2, 3),
    )


def _there(
    steps: Steps, rungs: Sequence[int], one: Models
) -> tuple[list[Vector], list[Matrix], list[Matrix]]:
    """What each block is handed, and by how much its level is less certain than the one before."""
    means, covariances, unsettled = [], [], []
    mean: Vector = [0.0, LEVEL_MEAN, 0.0]
    covariance: Matrix = [
        [0.0, 0.0, 0.0],
        [0.0, LEVEL_VARIANCE, 0.0],
        [0.0, 0.0, one.variance.item(0)],
    ]
    for at, (across, noise, own, shift, hint) in enumerate(zip(*steps, strict=True)):
        unsettled.append([[0.0, 0.0], [0.0, 0.0]])
        if at and rungs[at] != rungs[at - 1]:
            unsettled[at][0][0] = (moved(rungs[at - 1], rungs[at]) * mean[1]) ** 2
            for row in (0, 1):
                covariance[row + 1][1:] = _plus(covariance[row + 1][1:], unsettled[at][row])
        means.append(mean)
        covariances.append([list(row) for row in covariance])
        inner = _inner(covariance)
        gain = _product([row[1:] for row in covariance], _left(own, inner))
        missed = _minus(hint, _applied(own, mean[1:]))
        mean = _plus(mean, _applied(gain, missed))
        shared = _applied(own, [covariance[1][0], covariance[2][0]])
        first = covariance[0][0] - _applied(gain[:1], shared)[0]
        covariance = [[first, *gain[0]], [gain[0][0], *gain[1]], [gain[0][1], *gain[2]]]
        mean = _plus(_applied(across, mean), shift)
        covariance = _product(_product(across, covariance), _turned(across))
        covariance = [_plus(row, more) for row, more in zip(covariance, noise, strict=True)]
    return means, covariances, unsettled


def _back(
    steps: Steps, means: list[Vector], covariances: list[Matrix], unsettled: list[Matrix]
) -> list[Matrix]:
    """What each block and all after it add to what the block is handed."""
    adding: list[Matrix] = []
    later: Matrix = [[0.0, 0.0], [0.0, 0.0]]
    hint: Vector = [0.0, 0.0]
    for at, (across, noise, own, shift, told) in reversed([*enumerate(zip(*steps, strict=True))]):
        over, left = _inner(across), _left(later, _inner(noise))
        missed = _minus(hint, _applied(later, shift[1:]))
        hint = _plus(told, _applied(_turned(over), _applied(left, missed)))
        more = _product(_turned(over), _product(_product(left, later), over))
        later = [_plus(row, each) for row, each in zip(own, more, strict=True)]
        left = _left(later, _inner(covariances[at]))
        gone = _applied(left, _minus(hint, _applied(later, means[at][1:])))
        adding.append(
            [[*row, -each] for row, each in zip(_product(left, later), gone, strict=True)]
        )
        left = _left(later, unsettled[at])
        later, hint = _product(left, later), _applied(left, hint)
    return adding[::-1]


def _left(information: Matrix, noise: Matrix) -> Matrix:
    """(I + information·noise)⁻¹: how much of an information such noise leaves."""
    (a, b), (c, d) = _product(information, noise)
    a, b, c, d = 1.0 + a, 0.0 + b, 0.0 + c, 1.0 + d
    scale = a * d - b * c
    return [[d / scale, -b / scale], [-c / scale, a / scale]]


def _inner(matrix: Matrix) -> Matrix:
    """Of the level and the swing, without the running sum."""
    return [matrix[1][1:], matrix[2][1:]]


def _turned(matrix: Matrix) -> Matrix:
    return [list(column) for column in zip(*matrix, strict=True)]


def _product(left: Matrix, right: Matrix) -> Matrix:
    """As `covariances.product`: term after term."""
    columns = _turned(right)
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
