"""The forward and the backward pass of the smoother, through the cells of many streams at once.

Inside blocks that begin in a known state first (`block_batches`), of whatever stream and model;
then from block to block (`block_chain`); then the means inside (`inside_blocks`), and variances
where somebody asks (`cell_variances`). Every operation is elementwise, and terms are added in a
fixed order: a stream gets the same bits alone and among others.

Let x_k be the state at the end of cell k before its leaf is measured, (m, P) the filter's mean and
covariance there, h, s, e the measurement's direction, innovation variance and innovation, and C_k
the closed-loop transition from x_k to x_{k+1}: update, then F. Backward, the adjoints are

    λ_k = −h·e/s + C_kᵀ λ_{k+1},    Λ_k = h·hᵀ/s + C_kᵀ Λ_{k+1} C_k,

and the posterior, given everything, is

    E[x_k] = m − P λ_k,    Cov[x_k, x_j] = P_k C_kᵀ … C_{j−1}ᵀ (I − Λ_j P_j).

Totals of whole blocks (`block_totals`) need no pass through cells; they are all that is needed to
find blocks whose noise was probably large (`mixture_smoother.reweighted`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tidegate.estimate.mixture.kalman_filter.state_space_models import SCATTER, models
from tidegate.estimate.mixture.smoother.block_batches import (
    BlockBatch,
    MeasuredBlock,
    block_batches,
)
from tidegate.estimate.mixture.smoother.block_chain import BlockChain, solve_chain
from tidegate.estimate.mixture.smoother.cell_variances import (
    CellMisfits,
    CellVariances,
)
from tidegate.estimate.mixture.smoother.inside_blocks import (
    distances_inside_blocks,
    smoothed_inside_blocks,
)
from tidegate.estimate.mixture.smoother.smoothed_blocks import SmoothedBlocks
from tidegate.lattice import FloatArray, IntArray

# Cells that are handled at once, about 150 bytes each.
MOST_CELLS = 1 << 18


class SmoothingTask(NamedTuple):
    """A stream to smooth under one model."""

    blocks: Sequence[MeasuredBlock]
    horizon: int
    model: int
    scatter: float = SCATTER

    @property
    def cells(self) -> int:
        """About how many cells it has."""
        return sum(block.cells.count for block in self.blocks)


class SolvedPasses(NamedTuple):
    """Smoothed tasks, in units of θ: one entry per edge, task after task.

    Attributes:
        edges: positions.
        sums: posterior mean of the sum before each edge.
        levels: the expected level there.
        ended: how many leaves of the task ended by then.
        firsts: the first edge of each task.
        variances: of sums between cells; a task has one cell less than edges.
        misfits: of the tasks.
    """

    edges: IntArray
    sums: FloatArray
    levels: FloatArray
    ended: IntArray
    firsts: IntArray
    variances: CellVariances
    misfits: CellMisfits


def pieces_of_passes(tasks: Sequence[SmoothingTask]) -> Iterator[Sequence[SmoothingTask]]:
    """Split the tasks into pieces that suit the machine's memory."""
    start, cells, more, before = 0, 0, 0, None
    for at, task in enumerate(tasks):
        if task.blocks is not before:  # the models of one stream share its blocks
            before, more = task.blocks, task.cells
        if at > start and cells + more > MOST_CELLS:
            yield tasks[start:at]
            start, cells = at, 0
        cells += more
    yield tasks[start:]


def solved_passes(tasks: Sequence[SmoothingTask]) -> SolvedPasses:
    """The posterior of each task."""
    batches, chain, starts, counts = chain_of_passes(tasks)
    blocks = SmoothedBlocks(chain)
    per_block, profile_of_block = np.zeros((2, starts.size), dtype=np.int64)
    profiles = 0
    for batch in batches:
        cells = len(batch.steps)
        per_block[batch.numbers] = cells
        profile_of_block[batch.numbers] = profiles + cells * batch.which
        profiles += cells * len(batch.profiles)
    firsts, count = np.cumsum(per_block) - per_block, int(per_block.sum())
    task_of = np.repeat(np.arange(len(tasks)), counts)
    per_task = np.bincount(task_of, per_block, len(tasks)).astype(np.int64)
    # The first edge of a task lies before its first cell.
    first_edges = np.cumsum(per_task + 1) - per_task - 1
    edge_of_block = firsts + task_of + 1
    edges, leaves = np.zeros((2, count + len(tasks)), dtype=np.int64)
    sums, levels, squares = np.zeros((3, count + len(tasks)))
    after = chain.after[:, :, 2].T
    for batch in batches:
        numbers = batch.numbers
        at = np.arange(len(batch.steps))[:, np.newaxis] + edge_of_block[numbers]
        sums[at], levels[at] = smoothed_inside_blocks(
            batch, blocks.begun[:, numbers], after[:, numbers]
        )
        measured = np.array([step.measured is not None for step in batch.steps])
        leaves[at[measured]] = 1
        squares[at[measured]] = distances_inside_blocks(
            batch, chain.means[numbers], chain.covariances[numbers]
        )
        widths = np.cumsum([step.widths for step in batch.steps], axis=0)
        edges[at] = starts[numbers] + widths[:, batch.which]
    (begun,) = per_task.nonzero()
    edges[first_edges] = [task.blocks[0].start if task.blocks else 0 for task in tasks]
    levels[first_edges[begun]] = levels[first_edges[begun] + 1]
    ends = np.add.reduceat(leaves, first_edges)
    ended = np.cumsum(leaves)
    ended -= np.repeat(np.cumsum(ends) - ends, per_task + 1)
    block_of = np.repeat(np.arange(starts.size), per_block)
    profile_of = np.arange(count) + np.repeat(profile_of_block - firsts, per_block)
    variances = CellVariances(blocks, batches, block_of, profile_of)
    misfits = CellMisfits(squares[leaves > 0], ends)
    return SolvedPasses(edges, sums, levels, ended, first_edges, variances, misfits)


class ChainedPasses(NamedTuple):
    """The blocks of many tasks, solved from block to block."""

    batches: list[BlockBatch]
    chain: BlockChain
    starts: IntArray  # positions
    counts: list[int]  # blocks of each task


def chain_of_passes(tasks: Sequence[SmoothingTask]) -> ChainedPasses:
    """The blocks of all tasks that have begun, task after task."""
    kept: dict[int, list[MeasuredBlock]] = {}  # models of one stream share its blocks
    for task in tasks:
        if id(task.blocks) not in kept:
            kept[id(task.blocks)] = [block for block in task.blocks if block.end > block.start]
    streams = [kept[id(task.blocks)] for task in tasks]
    known = {key: models(key[0], scatter=key[2]).only(key[1]) for key in map(_key, tasks)}
    ones = [known[_key(task)] for task in tasks]
    batches = block_batches(streams, ones)
    facts = {
        key: ([one.start for one in part], [one.cells.tree.cap_step for one in part])
        for key, part in kept.items()
    }
    starts = [start for task in tasks for start in facts[id(task.blocks)][0]]
    steps = [step for task in tasks for step in facts[id(task.blocks)][1]]
    counts, swings = [len(part) for part in streams], [one.variance.item(0) for one in ones]
    chain = solve_chain(batches, steps, counts, swings)
    return ChainedPasses(batches, chain, np.array(starts, dtype=np.int64), counts)


def _key(task: SmoothingTask) -> tuple[int, int, float]:
    return task.horizon, task.model, task.scatter
