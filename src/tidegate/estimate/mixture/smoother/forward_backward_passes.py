"""Forward and backward through the cells of many streams at once: the smoother's two passes.

From block to block first (`block_chain`), then inside all blocks of one kind at once, of whatever
stream and model (`block_batches`). Every operation is elementwise, and terms are added in a fixed
order: a stream gets the same bits alone and among others.

Let x_k be the state at the end of cell k before its leaf is measured, (m, P) the filter's mean and
covariance there, h, s, e the measurement's direction, innovation variance and innovation, and C_k
the closed-loop transition from x_k to x_{k+1}: update, then F. Backward, the adjoints are

    λ_k = −h·e/s + C_kᵀ λ_{k+1},    Λ_k = h·hᵀ/s + C_kᵀ Λ_{k+1} C_k,

and the posterior, given everything, is

    E[x_k] = m − P λ_k,    Cov[x_k, x_j] = P_k C_kᵀ … C_{j−1}ᵀ (I − Λ_j P_j).

Totals of whole blocks (`BlockTotals`) need no pass through cells; they are all that is needed to
find blocks whose noise was probably large (`mixture_smoother.reweighted`). With the filter's mean
m and covariance P where a block begins, Λ and λ what it and all later blocks tell (`block_chain`),
p = P·e_sum and q = F·(I + P·J)⁻¹·p, the closed loop over the block,

    E[S] = m_sum − pᵀ·λ,    Var[S] = p_sum − pᵀ·Λ·p,    Cov[S, S′] = q_sum − qᵀ·Λ′·p′

for the running sums S and S′ at the beginning and at the end of the block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tidegate.estimate.mixture.kalman_filter import state_space_models as entry
from tidegate.estimate.mixture.kalman_filter.state_space_models import SCATTER, models
from tidegate.estimate.mixture.smoother.block_batches import (
    BlockBatch,
    FilterPass,
    MeasuredBlock,
    block_batches,
)
from tidegate.estimate.mixture.smoother.block_chain import BlockChain, solve_chain
from tidegate.estimate.mixture.smoother.cell_covariances import (
    CellCovariances,
    CellUpdates,
    ChainedCells,
    Misfits,
    applied,
    inner,
    product,
    transition_entries,
)
from tidegate.estimate.mixture.smoother.smoothed_cells_by_adjoints import (
    SmoothedCells,
    smoothed_cells,
)
from tidegate.lattice import FloatArray, IntArray

# Cells that are handled at once, about a kilobyte each: more would not fit the cache, and fewer
# would wait for Python.
_MOST_CELLS = 1 << 16


class SmoothingTask(NamedTuple):
    """One stream under one model."""

    blocks: Sequence[MeasuredBlock]
    horizon: int
    model: int
    scatter: float = SCATTER

    @property
    def cells(self) -> int:
        """About how many there are."""
        return sum(block.cells.count for block in self.blocks)


class SolvedPasses(NamedTuple):
    """Of many tasks, in units of θ: one entry per edge, one task after the other.

    Attributes:
        edges: positions.
        sums: posterior mean of the sum before each edge.
        levels: the expected level there.
        own: posterior variance of these sums.
        ended: how many leaves of the task ended by then.
        firsts: the first edge of each task.
        cells: one entry per cell: one less than edges for each task.
        covariances, misfits: of these cells, and of the tasks.
    """

    edges: IntArray
    sums: FloatArray
    levels: FloatArray
    own: FloatArray
    ended: IntArray
    firsts: IntArray
    cells: ChainedCells
    covariances: CellCovariances
    misfits: Misfits


def pieces(tasks: Sequence[SmoothingTask]) -> Iterator[Sequence[SmoothingTask]]:
    """The tasks, as many at once as suit the machine."""
    start, cells = 0, 0
    for at, task in enumerate(tasks):
        if at > start and cells + task.cells > _MOST_CELLS:
            yield tasks[start:at]
            start, cells = at, 0
        cells += task.cells
    yield tasks[start:]


def solved(tasks: Sequence[SmoothingTask]) -> SolvedPasses:
    """The posterior of each task."""
    return _Passes(tasks).solved()


class _Passes:
    """The cells of all tasks, one task after the other."""

    def __init__(self, tasks: Sequence[SmoothingTask]) -> None:
        self._tasks = tasks
        self._batches, self._chain, self._blocks, counts = chain_of(tasks)
        per_block = np.zeros(len(self._blocks), dtype=np.int64)  # cells
        for batch in self._batches:
            per_block[batch.numbers] = len(batch.steps)
        self._firsts, count = np.cumsum(per_block) - per_block, int(per_block.sum())
        task_of = np.repeat(np.arange(len(tasks)), counts)
        self._per_task = np.bincount(task_of, per_block, len(tasks)).astype(np.int64)
        # The first edge of a task lies before its first cell.
        self._first_edges = np.cumsum(self._per_task + 1) - self._per_task - 1
        self._edge_of_block = self._firsts + task_of + 1
        self._edges: IntArray = np.zeros(count + len(tasks), dtype=np.int64)
        self._leaves: IntArray = np.zeros(count + len(tasks), dtype=np.int64)
        self._sums, self._levels, self._own, self._distances = np.zeros((4, count + len(tasks)))
        self._cells = ChainedCells(
            np.empty((entry.SIZE, count)),
            np.empty((entry.SIZE, count)),
            np.empty((3, count)),
            np.empty((2, count)),
            CellUpdates.empty(count),
            np.empty((6, count)),
            np.repeat(np.arange(len(self._blocks)), per_block),
        )

    def solved(self) -> SolvedPasses:
        """Forward, backward, and what lies between."""
        across = np.empty((3, 3, len(self._blocks)))
        starts = np.array([block.start for block in self._blocks], dtype=np.int64)
        for batch in self._batches:
            numbers = batch.numbers
            passed = batch.filtered(self._chain.means[numbers], self._chain.covariances[numbers])
            entries = transition_entries(batch)
            found = smoothed_cells(batch, passed, self._chain.after[numbers], entries)
            steps = np.arange(len(batch.steps))[:, np.newaxis]
            self._keep_edges(batch, steps + self._edge_of_block[numbers], passed, found)
            edges = np.cumsum([step.widths for step in batch.steps], axis=0)
            self._edges[steps + self._edge_of_block[numbers]] = starts[numbers] + edges
            self._keep_cells(batch, steps + self._firsts[numbers], passed, found, entries)
            across[..., numbers] = found.across
        first, (begun,) = self._first_edges, self._per_task.nonzero()
        self._edges[first] = [task.blocks[0].start if task.blocks else 0 for task in self._tasks]
        self._levels[first[begun]] = self._levels[first[begun] + 1]
        counts = np.add.reduceat(self._leaves, first)
        ended = np.cumsum(self._leaves)
        ended -= np.repeat(np.cumsum(counts) - counts, self._per_task + 1)
        return SolvedPasses(
            self._edges,
            self._sums,
            self._levels,
            self._own,
            ended,
            first,
            self._cells,
            CellCovariances(self._cells, across),
            Misfits(self._distances[self._leaves > 0], counts),
        )

    def _keep_edges(
        self, batch: BlockBatch, at: IntArray, passed: FilterPass, found: SmoothedCells
    ) -> None:
        """Put what was found of blocks of one kind to the edges `at`: a column for each block."""
        self._distances[at] = np.square(passed.innovations) / passed.variances
        self._leaves[at.T] = [step.measured is not None for step in batch.steps]
        self._sums[at], self._levels[at], self._own[at] = found.sums, found.levels, found.own

    def _keep_cells(
        self,
        batch: BlockBatch,
        at: IntArray,
        passed: FilterPass,
        found: SmoothedCells,
        entries: FloatArray,
    ) -> None:
        """Put what was found of blocks of one kind to the cells `at`: a column for each block."""
        cells = self._cells
        cells.rows[:, at] = passed.sum_rows[:, : entry.SIZE].transpose(1, 0, 2)
        cells.ends[:, at], cells.leaving[:, at] = found.ends, found.leaving
        cells.arriving[:, at] = found.arriving
        cells.entries[:, at] = entries.transpose(1, 0, 2)
        cells.updates.keep(at, batch.steps, passed)


class ChainedBlocks(NamedTuple):
    """The blocks of many tasks, solved from block to block."""

    batches: list[BlockBatch]
    chain: BlockChain
    blocks: list[MeasuredBlock]
    counts: list[int]  # blocks of each task


def chain_of(tasks: Sequence[SmoothingTask]) -> ChainedBlocks:
    """The blocks of all tasks that have begun, one task after the other."""
    known = {key: models(key[0], scatter=key[2]).only(key[1]) for key in map(_key, tasks)}
    each = [known[_key(task)] for task in tasks]
    kept = [[block for block in task.blocks if block.end > block.start] for task in tasks]
    blocks = [block for part in kept for block in part]
    ones = [one for one, part in zip(each, kept, strict=True) for _ in part]
    batches, counts = block_batches(blocks, ones), [len(part) for part in kept]
    swings = [one.variance.item(0) for one in each]
    steps = [block.cells.tree.cap_step for block in blocks]
    return ChainedBlocks(batches, solve_chain(batches, steps, counts, swings), blocks, counts)


def _key(task: SmoothingTask) -> tuple[int, int, float]:
    return task.horizon, task.model, task.scatter


class BlockTotals(NamedTuple):
    """Of the blocks of one stream that have begun, in units of θ."""

    sums: FloatArray
    variances: FloatArray


def block_totals(tasks: Sequence[SmoothingTask]) -> list[BlockTotals]:
    """The totals of the blocks of each task; of many at once, with the bits that each has alone."""
    return [one for piece in pieces(tasks) for one in _totals_of_piece(piece)]


def _totals_of_piece(tasks: Sequence[SmoothingTask]) -> list[BlockTotals]:
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
    sums, variances = _passes_over_blocks(chain, np.cumsum(per_task)[per_task > 0] - 1)
    variances *= Misfits(distances, leaves_of_task).between(task_of, begun, begun + leaves)
    ends = np.cumsum(per_task)[:-1]
    parts = zip(np.split(sums, ends), np.split(variances, ends), strict=True)
    return [BlockTotals(*part) for part in parts]


def _passes_over_blocks(chain: BlockChain, lasts: IntArray) -> tuple[FloatArray, FloatArray]:
    """Posterior mean and variance of the sum of each block; `lasts`: those that end a stream."""
    transitions = chain.blocks
    across, information = (np.moveaxis(part, 0, -1) for part in transitions[:3:2])
    means, covariances = chain.means.T, np.moveaxis(chain.covariances, 0, -1)
    adjoints, (first, *level_and_swing) = np.moveaxis(chain.adjoints, 0, -1), covariances[:, 0]
    shared = np.array(level_and_swing)
    told = applied(adjoints[:, :2], shared)  # Λ·p
    before = means[0] - inner(shared, adjoints[:, 2])
    own = first - inner(shared, told)
    gain = _gain_of_passes(covariances, information)
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


def _gain_of_passes(covariances: FloatArray, information: FloatArray) -> FloatArray:
    """P·(I + J·P)⁻¹ for the columns of level and swing."""
    (a, b), (c, d) = product(information, covariances[1:, 1:])
    a, d = 1.0 + a, 1.0 + d
    determinant = a * d - b * c
    inverse = np.array([[d / determinant, -b / determinant], [-c / determinant, a / determinant]])
    return product(covariances[:, 1:], inverse)
