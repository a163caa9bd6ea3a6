"""Posterior totals of the blocks of many streams, from the states at their beginnings and ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tidegate.estimate.mixture.smoother.block_chain import BlockChain
from tidegate.estimate.mixture.smoother.cell_variances import (
    CellMisfits,
    cell_inner_products,
    quadratic_of_cells,
)
from tidegate.estimate.mixture.smoother.forward_backward_passes import (
    SmoothingTask,
    chain_of_passes,
    pieces_of_passes,
)
from tidegate.estimate.mixture.smoother.inside_blocks import distances_inside_blocks
from tidegate.estimate.mixture.smoother.smoothed_blocks import SmoothedBlocks
from tidegate.lattice import FloatArray


class BlockTotals(NamedTuple):
    """The totals of one stream's blocks that have begun, in units of θ."""

    sums: FloatArray
    variances: FloatArray


def block_totals(tasks: Sequence[SmoothingTask]) -> list[BlockTotals]:
    """The totals of the blocks of each task; many at once, with the bits that each has alone."""
    return [one for piece in pieces_of_passes(tasks) for one in _totals_of_piece(piece)]


def _totals_of_piece(tasks: Sequence[SmoothingTask]) -> list[BlockTotals]:
    batches, chain, _, counts = chain_of_passes(tasks)
    count = sum(counts)
    leaves = np.zeros(count, dtype=np.int64)
    for batch in batches:
        leaves[batch.numbers] = len(batch.noisy)
    firsts = np.cumsum(leaves) - leaves
    squares: FloatArray = np.empty(int(leaves.sum()))
    for batch in batches:
        numbers = batch.numbers
        found = distances_inside_blocks(batch, chain.means[numbers], chain.covariances[numbers])
        squares[firsts[numbers] + np.arange(len(found))[:, np.newaxis]] = found
    per_task = np.array(counts, dtype=np.int64)
    task_of = np.repeat(np.arange(per_task.size), per_task)
    leaves_of_task = np.bincount(task_of, leaves, per_task.size).astype(np.int64)
    begun = firsts - (np.cumsum(leaves_of_task) - leaves_of_task)[task_of]
    sums, variances = _totals_of_chain(chain)
    variances *= CellMisfits(squares, leaves_of_task).between(task_of, begun, begun + leaves)
    ends = np.cumsum(per_task)[:-1]
    parts = zip(np.split(sums, ends), np.split(variances, ends), strict=True)
    return [BlockTotals(*part) for part in parts]


def _totals_of_chain(chain: BlockChain) -> tuple[FloatArray, FloatArray]:
    """Posterior mean and variance of the sum of the values of each block."""
    blocks, (across, noise, _, shifts, _) = SmoothedBlocks(chain), chain.blocks
    response, leaving = across[:, 0, 1:].T, noise[:, 0, 1:].T
    sums = shifts[:, 0] + cell_inner_products(response, blocks.begun[1:])
    sums -= cell_inner_products(leaving, chain.after[:, :, 2].T)
    parts = blocks.covariances[1:, 1:], blocks.crossed[1:], blocks.told
    return sums, np.maximum(quadratic_of_cells(response, leaving, noise[:, 0, 0], *parts), 0.0)
