"""The smoothed sums of whole blocks and their variances, without a pass through their cells.

All that is needed to find blocks whose noise was probably large (`mixture_smoother.reweighted`).
With the filter's mean m and covariance P where a block begins, Λ and λ what it and all later blocks
tell (`block_chain`), p = P·e_sum and q = F·(I + P·J)⁻¹·p, the closed loop over the block,

    E[S] = m_sum − pᵀ·λ,    Var[S] = p_sum − pᵀ·Λ·p,    Cov[S, S′] = q_sum − qᵀ·Λ′·p′

for the running sums S and S′ at the beginning and at the end of the block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tidegate.estimate.mixture.block_chain import BlockChain
from tidegate.estimate.mixture.cell_covariances import Misfits, applied, inner, product
from tidegate.estimate.mixture.forward_backward_passes import Task, chain_of, pieces
from tidegate.lattice import FloatArray, IntArray


class BlockTotals(NamedTuple):
    """Of the blocks of one stream that have begun, in units of θ."""

    sums: FloatArray
    variances: FloatArray


def block_totals(tasks: Sequence[Task]) -> list[BlockTotals]:
    """The totals of the blocks of each task; of many at once, with the bits that each has alone."""
    return [one for piece in pieces(tasks) for one in _totals(piece)]


def _totals(tasks: Sequence[Task]) -> list[BlockTotals]:
    batches, chain, blocks, counts = chain_of(tasks)
    leaves = np.array([block.sums.size for block in blocks], dtype=np.int64)
    firsts = np.cumsum(leaves) - leaves
    distances: FloatArray = np.empty(int(leaves.sum()))
    for batch in batches:
        numbers = batch.numbers
        found = batch.distances(chain.means[numbers], chain.covariances[numbers])
        distances[firsts[numbers] + np.arange(len(found))[:, np.newaxis]] = found
    per_task = np.array(counts, dtype=np.int64)
    task_of = np.repeat(np.arange(per_task.size), per_task)
    leaves_of_task = np.bincount(task_of, leaves, per_task.size).astype(np.int64)
    begun = firsts - (np.cumsum(leaves_of_task) - leaves_of_task)[task_of]
    sums, variances = _over_blocks(chain, np.cumsum(per_task)[per_task > 0] - 1)
    variances *= Misfits(distances, leaves_of_task).between(task_of, begun, begun + leaves)
    ends = np.cumsum(per_task)[:-1]
    parts = zip(np.split(sums, ends), np.split(variances, ends), strict=True)
    return [BlockTotals(*part) for part in parts]


def _over_blocks(chain: BlockChain, lasts: IntArray) -> tuple[FloatArray, FloatArray]:
    """Posterior mean and variance of the sum of each block; `lasts`: those that end a stream."""
    transitions = chain.blocks
    across, information = (np.moveaxis(part, 0, -1) for part in transitions[:3:2])
    means, covariances = chain.means.T, np.moveaxis(chain.covariances, 0, -1)
    adjoints, (first, *level_and_swing) = np.moveaxis(chain.adjoints, 0, -1), covariances[:, 0]
    shared = np.array(level_and_swing)
    told = applied(adjoints[:, :2], shared)  # Λ·p
    before = means[0] - inner(shared, adjoints[:, 2])
    own = first - inner(shared, told)
    gain = _gain(covariances, information)
    seen = applied(information, shared)
    leaving = applied(across, covariances[:, 0] - applied(gain, seen))
    # At the end of a block: what is known where the next one begins, or the end of the stream.
    after, own_after, told_after = np.roll(before, -1), np.roll(own, -1), np.roll(told, -1, axis=1)
    told_after[:, lasts] = 0.0
    hints = transitions.hints.T - applied(information, means[1:])
    updated = means + applied(gain, hints)
    after[lasts] = (applied(across, updated)[0] + transitions.shifts[:, 0])[lasts]
    left = covariances - product(gain, product(information, covariances[1:]))
    moved = inner(product(across[:1], left)[0], across[0])
    own_after[lasts] = (moved + transitions.noise[:, 0, 0])[lasts]
    between = leaving[0] - inner(leaving[1:], told_after)
    return after - before, np.maximum(own + own_after - 2 * between, 0.0)


def _gain(covariances: FloatArray, information: FloatArray) -> FloatArray:
    """P·(I + J·P)⁻¹ for the columns of level and swing."""
    (a, b), (c, d) = product(information, covariances[1:, 1:])
    a, d = 1.0 + a, 1.0 + d
    determinant = a * d - b * c
    inverse = np.array([[d / determinant, -b / determinant], [-c / determinant, a / determinant]])
    return product(covariances[:, 1:], inverse)
