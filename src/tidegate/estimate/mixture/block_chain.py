"""Kalman filter and smoother from block to block: three numbers are all that a block hands on.

Between blocks the state is the running sum, the level and the swing (`HANDED_ON`): the leaves of a
block are closed, and its noise is its own. Later measurements depend on the level and the swing
only. So the past is smoothed from block to block first, forward and backward; what happens inside
the blocks is then computed for many at once (`smoother`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidegate.estimate.mixture.batches import HANDED_ON, BlockBatch, BlockTransition
from tidegate.estimate.mixture.cap_steps import moved
from tidegate.estimate.mixture.covariances import applied, product
from tidegate.estimate.mixture.models import LEVEL_MEAN, LEVEL_VARIANCE, Models
from tidegate.lattice import FloatArray, IntArray

_SIZE = len(HANDED_ON)


@dataclass(frozen=True)
class BlockChain:
    """One entry per block, about the state in which it begins.

    Attributes:
        means, covariances: of the running sum, the level and the swing, given all blocks before.
        adjoints: Λ of the level and the swing, and λ as the last column, of the Bryson-Frazier
            smoother (see `smoother`): what the block and all later ones tell about that state.
    """

    means: FloatArray
    covariances: FloatArray
    adjoints: FloatArray

    def after(self, numbers: IntArray) -> FloatArray:
        """Λ and λ where these blocks end; nothing follows the last one."""
        return np.concatenate((self.adjoints, np.zeros((1, 2, 3))))[numbers + 1]


def solve_chain(parts: Sequence[BlockBatch], rungs: Sequence[int], one: Models) -> BlockChain:
    """Filter forward and smooth backward; `rungs[k]` is the cap step of block k."""
    blocks = _transitions(parts, len(rungs))
    means, covariances, inflations = _forward(blocks, rungs, one)
    return BlockChain(means, covariances, _backward(blocks, means, covariances, inflations))


def _transitions(parts: Sequence[BlockBatch], count: int) -> BlockTransition:
    """The transitions of all blocks, in their order: one entry each in every array."""
    shapes = ((_SIZE, _SIZE), (_SIZE, _SIZE), (2, 2), (_SIZE,), (2,))
    every = BlockTransition(*(np.empty((count, *shape)) for shape in shapes))
    for part in parts:
        for found, each in zip(every, part.transition(), strict=True):
            found[part.numbers] = each
    return every


def _forward(
    blocks: BlockTransition, rungs: Sequence[int], one: Models
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Kalman filter: mean m and covariance P at the beginning of each block, and added variances.

    The measurements of a block have information J and information vector η about the state in
    which it begins. By Woodbury, with G = (I + J·P)⁻¹, the update is m + P·G·(η − J·m) and P·G;
    then the block's transition is applied. J is 2×2 (level and swing); the running sum is corrected
    through its covariances with these.
    """
    count = len(rungs)
    means, covariances = np.empty((count, _SIZE)), np.empty((count, _SIZE, _SIZE))
    inflations = np.zeros((count, 2, 2))
    mean = np.array([0.0, LEVEL_MEAN, 0.0])
    covariance = np.diag([0.0, LEVEL_VARIANCE, one.variance.item(0)])
    for at in range(count):
        if at and rungs[at] != rungs[at - 1]:  # another cap may have moved the level
            inflations[at, 0, 0] = (moved(rungs[at - 1], rungs[at]) * mean.item(1)) ** 2
            covariance[1:, 1:] += inflations[at]
        means[at], covariances[at] = mean, covariance
        information, across = blocks.information[at], blocks.across[at]
        gain = product(covariance[:, 1:], _woodbury(information, covariance[1:, 1:]))
        mean = mean + applied(gain, blocks.hints[at] - applied(information, mean[1:]))
        first = covariance[0, 0] - applied(gain[:1], applied(information, covariance[1:, 0]))[0]
        covariance = _symmetric(first, gain)
        mean = applied(across, mean) + blocks.shifts[at]
        covariance = product(product(across, covariance), across.T) + blocks.noise[at]
    return means, covariances, inflations


def _backward(
    blocks: BlockTransition, means: FloatArray, covariances: FloatArray, inflations: FloatArray
) -> FloatArray:
    """Information filter from the last block to the first; gives Λ and λ where each block begins.

    J and η of all later blocks are taken back over a block's transition F with noise C:
    J ← Fᵀ·(I + J·C)⁻¹·J·F, and η alike. Against the filter's (m, P), Λ = (I + J·P)⁻¹·J and
    λ = −(I + J·P)⁻¹·(η − J·m).
    """
    count = len(means)
    adjoints = np.empty((count, 2, 3))
    information, vector = np.zeros((2, 2)), np.zeros(2)  # J and η
    for at in range(count - 1, -1, -1):
        over = blocks.across[at, 1:, 1:]
        left = _woodbury(information, blocks.noise[at, 1:, 1:])
        shifted = vector - applied(information, blocks.shifts[at, 1:])
        vector = blocks.hints[at] + applied(over.T, applied(left, shifted))
        information = blocks.information[at] + product(
            over.T, product(product(left, information), over)
        )
        left = _woodbury(information, covariances[at, 1:, 1:])
        adjoints[at, :, :2] = product(left, information)
        adjoints[at, :, 2] = -applied(left, vector - applied(information, means[at, 1:]))
        left = _woodbury(information, inflations[at])
        information, vector = product(left, information), applied(left, vector)
    return adjoints


def _woodbury(information: FloatArray, covariance: FloatArray) -> FloatArray:
    """(I + J·C)⁻¹ for 2×2 matrices: the part of an information J that noise C leaves."""
    (a, b), (c, d) = (np.eye(2) + product(information, covariance)).tolist()
    inverse: FloatArray = np.array([[d, -b], [-c, a]]) / (a * d - b * c)
    return inverse


def _symmetric(first: float, rest: FloatArray) -> FloatArray:
    """A covariance matrix from its first entry and its other columns."""
    whole = np.empty((len(rest), len(rest)))
    whole[0, 0] = first
    whole[1:, 0] = rest[0]
    whole[:, 1:] = rest
    return whole
