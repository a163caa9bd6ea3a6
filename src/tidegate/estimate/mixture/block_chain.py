"""What blocks tell each other where they meet: of the level and the swing, and of the running sum.

Three numbers are all that a block hands on (`HANDED_ON`), and two of them all that later sums speak
about. So a look back can go from block to block instead of from cell to cell, there and back; what
happens inside the blocks is then found for many at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidegate.estimate.mixture.batches import HANDED_ON, BlockBatch
from tidegate.estimate.mixture.cap_steps import moved
from tidegate.estimate.mixture.covariances import applied, product
from tidegate.estimate.mixture.models import LEVEL_MEAN, LEVEL_VARIANCE, Models
from tidegate.lattice import FloatArray, IntArray


@dataclass(frozen=True)
class BlockChain:
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


def solve_chain(parts: Sequence[BlockBatch], rungs: Sequence[int], one: Models) -> BlockChain:
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
    means, covariances = np.empty((count, size)), np.empty((count, size, size))
    unsettled = np.zeros((count, 2, 2))
    mean = np.array([0.0, LEVEL_MEAN, 0.0])
    covariance = np.diag([0.0, LEVEL_VARIANCE, one.variance.item(0)])
    for at in range(count):
        if at and rungs[at] != rungs[at - 1]:
            unsettled[at, 0, 0] = (moved(rungs[at - 1], rungs[at]) * mean.item(1)) ** 2
            covariance[1:, 1:] += unsettled[at]
        means[at], covariances[at] = mean, covariance
        gain = product(covariance[:, 1:], _left(own[at], covariance[1:, 1:]))
        mean = mean + applied(gain, hints[at] - applied(own[at], mean[1:]))
        first = covariance[0, 0] - applied(gain[:1], applied(own[at], covariance[1:, 0]))[0]
        covariance = _completed(first, gain)
        mean = applied(across[at], mean) + shifts[at]
        covariance = product(product(across[at], covariance), across[at].T) + noise[at]
    adding = np.empty((count, 2, 3))
    later, hint = np.zeros((2, 2)), np.zeros(2)
    for at in range(count - 1, -1, -1):
        over, left = across[at, 1:, 1:], _left(later, noise[at, 1:, 1:])
        hint = hints[at] + applied(over.T, applied(left, hint - applied(later, shifts[at, 1:])))
        later = own[at] + product(over.T, product(product(left, later), over))
        left = _left(later, covariances[at, 1:, 1:])
        adding[at, :, :2] = product(left, later)
        adding[at, :, 2] = -applied(left, hint - applied(later, means[at, 1:]))
        left = _left(later, unsettled[at])
        later, hint = product(left, later), applied(left, hint)
    return BlockChain(means, covariances, adding)


def _left(information: FloatArray, noise: FloatArray) -> FloatArray:
    """(I + information·noise)⁻¹: how much of an information such noise leaves."""
    (a, b), (c, d) = (np.eye(2) + product(information, noise)).tolist()
    inverse: FloatArray = np.array([[d, -b], [-c, a]]) / (a * d - b * c)
    return inverse


def _completed(first: float, rest: FloatArray) -> FloatArray:
    """A covariance from its first entry and its other columns."""
    whole = np.empty((len(rest), len(rest)))
    whole[0, 0] = first
    whole[1:, 0] = rest[0]
    whole[:, 1:] = rest
    return whole
