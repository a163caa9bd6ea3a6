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
from tidegate.estimate.mixture.cell_covariances import product
from tidegate.estimate.mixture.closed_loop_transitions import (
    CellUpdates,
    closed_updates,
    enter,
    transition_entries,
)
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
    rows: FloatArray  # of P, for the sum
    ends: FloatArray  # (I − Λ P) e_sum
    closed_loop: FloatArray  # C, one less than cells; the last axis counts them
    entries: FloatArray  # what F consists of
    updates: CellUpdates
    distances: FloatArray  # e²/s at each edge; 0 where nothing was measured
    leaves: IntArray  # 1 where a leaf ended


def pieces(tasks: Sequence[Task]) -> Iterator[Sequence[Task]]:
    """The tasks, as many at once as suit the machine."""
    start, cells = 0, 0
    for at, task in enumerate(tasks):
        if at > start and cells + task.cells > _MOST_CELLS:
            yield tasks[start:at]
            start, cells = at, 0
        cells += task.cells
    yield tasks[start:]


def solved(tasks: Sequence[Task]) -> list[Solved]:
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
        self._sums, self._levels = np.empty((2, count))
        self._rows: FloatArray = np.empty((count, entry.SIZE))
        self._ends: FloatArray = np.empty((count, entry.SIZE))
        self._entries: FloatArray = np.empty((count, 6))
        self._updates = CellUpdates.empty(count)
        self._distances, self._leaves = np.zeros(count), np.zeros(count, dtype=np.int64)

    def solved(self) -> list[Solved]:
        """Forward, backward, and each task's own part."""
        passes, updates = [], np.empty((entry.SIZE, entry.SIZE, len(self._rows)))
        for batch in self._batches:
            numbers = batch.numbers
            cells = self._firsts[numbers, np.newaxis] + np.arange(len(batch.steps))
            passed = batch.filtered(self._chain.means[numbers], self._chain.covariances[numbers])
            passes.append((batch, cells, passed))
            self._distances[cells] = np.square(passed.innovations) / passed.variances
            self._leaves[cells] = [step.measured is not None for step in batch.steps]
            widths = np.cumsum([step.width for step in batch.steps])
            self._edges[cells] = self._starts[numbers, np.newaxis] + widths
            self._rows[cells] = passed.sum_rows[..., : entry.SIZE]
            self._updates.keep(cells, batch.steps, passed)
            updates[..., cells] = closed_updates(batch.steps, passed)
            self._entries[cells] = transition_entries(batch)
        # Between two tasks it means nothing, and is not used.
        closed_loop = enter(updates[..., :-1], self._entries[1:])
        for batch, cells, passed in passes:
            after, last = self._chain.after[batch.numbers], updates[..., cells[:, -1]]
            self._smooth(cells, passed, _adjoints(batch, cells, passed, after, last, closed_loop))
        found, block = [], 0
        for task, blocks in zip(self._tasks, self._block_counts, strict=True):
            first = int(self._ends_of_blocks[block - 1]) if block else 0
            block += blocks
            found.append(
                self._part(
                    task, first, int(self._ends_of_blocks[block - 1]) if block else 0, closed_loop
                )
            )
        return found

    def _part(self, task: Task, first: int, end: int, closed_loop: FloatArray) -> Solved:
        begin = task.blocks[0].start if task.blocks else 0
        here, inside = slice(first, end), slice(first, max(first, end - 1))
        level = self._levels[first : first + 1] if end > first else np.zeros(1)
        return Solved(
            np.concatenate(([begin], self._edges[here])),
            np.concatenate(([0.0], self._sums[here])),
            np.concatenate((level, self._levels[here])),
            self._rows[here],
            self._ends[here],
            closed_loop[..., inside],
            self._entries[here],
            self._updates.of(here),
            np.concatenate(([0.0], self._distances[here])),
            np.concatenate(([0], self._leaves[here])),
        )

    def _smooth(self, cells: IntArray, passed: FilterPass, adjoints: FloatArray) -> None:
        """m − P·λ of the sum and of the level, and (I − Λ·P)·e_sum, at the end of each cell."""
        matrices, vectors = adjoints[..., : entry.SIZE], adjoints[..., entry.SIZE]
        self._ends[cells] = -(matrices * passed.sum_rows[..., np.newaxis, : entry.SIZE]).sum(
            axis=-1
        )
        self._ends[cells, entry.SUM] += 1.0
        for smoothed, rows in ((self._sums, passed.sum_rows), (self._levels, passed.level_rows)):
            smoothed[cells] = rows[..., entry.SIZE] - (rows[..., : entry.SIZE] * vectors).sum(
                axis=-1
            )


def _key(task: Task) -> tuple[int, int, float]:
    return task.horizon, task.model, task.scatter


def _adjoints(
    batch: BlockBatch,
    cells: IntArray,
    passed: FilterPass,
    after: FloatArray,
    closed_loop: FloatArray,
    inside: FloatArray,
) -> FloatArray:
    """[Λ | λ] of every cell, backward through blocks of one kind.

    Args:
        batch: the blocks, `cells` their cells, `passed` what the filter computed there.
        cells: of each block.
        passed: of each block.
        after: Λ and λ of the level and the swing where the blocks end.
        closed_loop: C of the last cell of each block.
        inside: C of all cells.
    """
    adjoint: FloatArray = np.zeros((entry.SIZE, entry.SIZE + 1, len(cells)))
    known = (entry.LEVEL, entry.SWING), (entry.LEVEL, entry.SWING, entry.SIZE)
    adjoint[np.ix_(*known)] = after.transpose(1, 2, 0)
    found: FloatArray = np.empty((*cells.shape, entry.SIZE, entry.SIZE + 1))
    for cell in range(len(batch.steps) - 1, -1, -1):
        adjoint = product(closed_loop.transpose(1, 0, 2), adjoint)  # Cᵀ·[Λ | λ]
        adjoint[:, : entry.SIZE] = product(adjoint[:, : entry.SIZE], closed_loop)
        leaf = batch.steps[cell].measured
        if leaf is not None:
            variances, innovations = passed.variances[:, cell], passed.innovations[:, cell]
            direction = ((entry.LEAF, 1.0 - leaf.share), (entry.INNER, leaf.share))  # h
            for row, share in direction:
                for column, other in direction:
                    adjoint[row, column] += share * other / variances
                adjoint[row, entry.SIZE] -= share * innovations / variances
        found[:, cell] = adjoint.transpose(2, 0, 1)
        if cell:
            closed_loop = inside[..., cells[:, cell - 1]]
    return found
