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
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tidegate.estimate.mixture import models as entry
from tidegate.estimate.mixture.block_batches import (
    BlockBatch,
    FilterPass,
    Measured,
    block_batches,
)
from tidegate.estimate.mixture.block_chain import solve_chain
from tidegate.estimate.mixture.cell_adjoints import SmoothedCells, smoothed_cells
from tidegate.estimate.mixture.closed_loop import CellUpdates, transition_entries
from tidegate.estimate.mixture.covariances import CellCovariances, Cells
from tidegate.estimate.mixture.models import SCATTER, models
from tidegate.lattice import FloatArray, IntArray

# Cells that are handled at once, about a kilobyte each: more would not fit the cache, and fewer
# would wait for Python.
_MOST_CELLS = 1 << 16


class Task(NamedTuple):
    """One stream under one model."""

    blocks: Sequence[Measured]
    horizon: int
    model: int
    scatter: float = SCATTER

    @property
    def cells(self) -> int:
        """About how many there are."""
        return sum(block.cells.count for block in self.blocks)


class Solved(NamedTuple):
    """Of one task, in units of θ: one entry per edge, or one per cell."""

    edges: IntArray
    sums: FloatArray  # posterior mean of the sum before each edge
    levels: FloatArray
    own: FloatArray  # posterior variance of these sums
    distances: FloatArray  # e²/s at each edge; 0 where nothing was measured
    leaves: IntArray  # 1 where a leaf ended
    cells: slice  # its own, among those of all tasks


class SolvedTogether(NamedTuple):
    """Of many tasks; `covariances` counts the cells of all of them."""

    each: list[Solved]
    cells: Cells
    covariances: CellCovariances


def pieces(tasks: Sequence[Task]) -> Iterator[Sequence[Task]]:
    """The tasks, as many at once as suit the machine."""
    start, cells = 0, 0
    for at, task in enumerate(tasks):
        if at > start and cells + task.cells > _MOST_CELLS:
            yield tasks[start:at]
            start, cells = at, 0
        cells += task.cells
    yield tasks[start:]


def solved(tasks: Sequence[Task]) -> SolvedTogether:
    """The posterior of each task."""
    return _Passes(tasks).solved()


class _Passes:
    """The cells of all tasks, one task after the other."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tasks
        known = {key: models(key[0], scatter=key[2]).only(key[1]) for key in map(_key, tasks)}
        each = [known[_key(task)] for task in tasks]
        kept = [[block for block in task.blocks if block.end > block.start] for task in tasks]
        blocks = [block for part in kept for block in part]
        ones = [one for one, part in zip(each, kept, strict=True) for _ in part]
        self._batches = block_batches(blocks, ones)
        self._chain = solve_chain(
            self._batches,
            [block.cells.tree.cap_step for block in blocks],
            [len(part) for part in kept],
            [one.variance.item(0) for one in each],
        )
        per_block = np.zeros(len(blocks), dtype=np.int64)  # cells
        for batch in self._batches:
            per_block[batch.numbers] = len(batch.steps)
        self._ends_of_blocks = np.cumsum(per_block)
        self._firsts, count = self._ends_of_blocks - per_block, int(per_block.sum())
        self._starts = np.array([block.start for block in blocks], dtype=np.int64)
        self._block_counts = [len(part) for part in kept]
        self._edges: IntArray = np.empty(count, dtype=np.int64)
        self._sums, self._levels, self._own, self._distances = np.zeros((4, count))
        self._leaves: IntArray = np.zeros(count, dtype=np.int64)
        self._cells = Cells(
            np.empty((entry.SIZE, count)),
            np.empty((entry.SIZE, count)),
            np.empty((3, count)),
            np.empty((2, count)),
            CellUpdates.empty(count),
            np.empty((6, count)),
            np.repeat(np.arange(len(blocks)), per_block),
        )

    def solved(self) -> SolvedTogether:
        """Forward, backward, and each task's own part."""
        across = np.empty((3, 3, len(self._starts)))
        for batch in self._batches:
            numbers = batch.numbers
            at = self._firsts[numbers] + np.arange(len(batch.steps))[:, np.newaxis]
            passed = batch.filtered(self._chain.means[numbers], self._chain.covariances[numbers])
            entries = transition_entries(batch)
            found = smoothed_cells(batch, passed, self._chain.after[numbers], entries)
            self._keep(batch, at, passed, found)
            self._cells.entries[:, at] = entries.transpose(1, 0, 2)
            across[..., numbers] = found.across
        each, block = [], 0
        for task, blocks in zip(self._tasks, self._block_counts, strict=True):
            first = int(self._ends_of_blocks[block - 1]) if block else 0
            block += blocks
            each.append(
                self._part(task, first, int(self._ends_of_blocks[block - 1]) if block else 0)
            )
        return SolvedTogether(each, self._cells, CellCovariances(self._cells, across))

    def _keep(
        self, batch: BlockBatch, at: IntArray, passed: FilterPass, found: SmoothedCells
    ) -> None:
        """Put what was found of blocks of one kind to the cells `at`: a column for each block."""
        self._edges[at] = self._starts[batch.numbers] + np.cumsum(
            [step.widths for step in batch.steps], axis=0
        )
        self._distances[at] = np.square(passed.innovations) / passed.variances
        self._leaves[at.T] = [step.measured is not None for step in batch.steps]
        self._sums[at], self._levels[at], self._own[at] = found.sums, found.levels, found.own
        cells = self._cells
        cells.rows[:, at] = passed.sum_rows[:, : entry.SIZE].transpose(1, 0, 2)
        cells.ends[:, at], cells.leaving[:, at] = found.ends, found.leaving
        cells.arriving[:, at] = found.arriving
        cells.updates.keep(at, batch.steps, passed)

    def _part(self, task: Task, first: int, end: int) -> Solved:
        begin = task.blocks[0].start if task.blocks else 0
        here = slice(first, end)
        level = self._levels[first : first + 1] if end > first else np.zeros(1)
        return Solved(
            np.concatenate(([begin], self._edges[here])),
            np.concatenate(([0.0], self._sums[here])),
            np.concatenate((level, self._levels[here])),
            np.concatenate(([0.0], self._own[here])),
            np.concatenate(([0.0], self._distances[here])),
            np.concatenate(([0], self._leaves[here])),
            here,
        )


def _key(task: Task) -> tuple[int, int, float]:
    return task.horizon, task.model, task.scatter
