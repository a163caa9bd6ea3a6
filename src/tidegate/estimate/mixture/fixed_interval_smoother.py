"""Fixed-interval smoother of one model: the posterior of the past, given all released sums.

A posterior mean and its covariance, by the modified Bryson-Frazier smoother, which inverts nothing.
It runs forward and backward from block to block first (`block_chain`), then inside all blocks of
one kind at once. Post-processing of released sums: it costs no privacy.

Let x_k be the state at the end of cell k before its leaf is measured, (m, P) the filter's mean and
covariance there, h, s, e the measurement's direction, innovation variance and innovation, and C_k
the closed-loop transition from x_k to x_{k+1}: update, then F. Backward, the adjoints are

    λ_k = −h·e/s + C_kᵀ λ_{k+1},    Λ_k = h·hᵀ/s + C_kᵀ Λ_{k+1} C_k,

and the posterior, given everything, is

    E[x_k] = m − P λ_k,    Cov[x_k, x_j] = P_k C_kᵀ … C_{j−1}ᵀ (I − Λ_j P_j).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.estimate.mixture import models as entry
from tidegate.estimate.mixture.block_batches import (
    BlockBatch,
    FilterPass,
    Measured,
    Step,
    block_batches,
)
from tidegate.estimate.mixture.block_chain import solve_chain
from tidegate.estimate.mixture.covariances import CellCovariances, Misfit, product
from tidegate.estimate.mixture.models import SCATTER, Models, models, transition_of
from tidegate.lattice import FloatArray, IntArray


class ModelSmoother:
    """Prefix sums at every cell's end given everything, in units of θ.

    `edges[k]` is a position, `sums[k]` the posterior mean of the sum before it, `levels[k]` the
    expected level there.

    Attributes:
        model, horizon: which model, and of which horizon.
        closed_loop: C_k, one less than cells.
        entries: what F of each cell consists of.
        rows: the row of P_k of the sum.
        updates: what was measured at the end of each cell.
    """

    def __init__(
        self, blocks: Sequence[Measured], horizon: int, model: int, scatter: float = SCATTER
    ) -> None:
        self.model, self.horizon, self.scatter = model, horizon, scatter
        one = models(horizon, scatter=scatter).only(model)
        begin = blocks[0].start if blocks else 0
        blocks = [block for block in blocks if block.end > block.start]
        batches = block_batches(blocks, one)
        chain = solve_chain(batches, [block.cells.tree.cap_step for block in blocks], one)
        per_block = np.zeros(len(blocks), dtype=np.int64)  # cells
        for batch in batches:
            per_block[batch.numbers] = len(batch.steps)
        firsts, count = np.cumsum(per_block) - per_block, int(per_block.sum())
        self.edges: IntArray = np.full(count + 1, begin)
        self.sums, self.levels = np.zeros(count + 1), np.zeros(count + 1)
        self.rows: FloatArray = np.empty((count, entry.SIZE))
        self.updates = CellUpdates.empty(count)
        self._ends: FloatArray = np.empty((count, entry.SIZE))  # (I − Λ P) e_sum
        updates: FloatArray = np.empty((count, entry.SIZE, entry.SIZE))
        self.entries: FloatArray = np.empty((count, 6))
        starts = np.array([block.start for block in blocks], dtype=np.int64)
        distances, leaves = np.zeros(count + 1), np.zeros(count + 1, dtype=np.int64)
        passes = []
        for batch in batches:
            numbers = batch.numbers
            cells = firsts[numbers, np.newaxis] + np.arange(len(batch.steps))
            passed = batch.filtered(chain.means[numbers], chain.covariances[numbers])
            passes.append((batch, cells, passed))
            distances[cells + 1] = np.square(passed.innovations) / passed.variances
            leaves[cells + 1] = [step.measured is not None for step in batch.steps]
            widths = np.cumsum([step.width for step in batch.steps])
            self.edges[cells + 1] = starts[numbers, np.newaxis] + widths
            self.rows[cells] = passed.sum_rows[..., : entry.SIZE]
            self.updates.keep(cells, batch.steps, passed)
            updates[cells] = _updates(batch.steps, passed)
            self.entries[cells] = _entries(batch.steps, one)
        self.closed_loop = enter(updates[:-1], self.entries[1:])
        for batch, cells, passed in passes:
            adjoints = self._adjoints(
                batch, cells, passed, chain.after(batch.numbers), updates[cells[:, -1]]
            )
            self._smooth(cells, passed, adjoints)
        self.levels[0] = self.levels[min(1, count)]
        self._misfit = Misfit(distances, leaves)

    def _adjoints(
        self,
        batch: BlockBatch,
        cells: IntArray,
        passed: FilterPass,
        after: FloatArray,
        closed_loop: FloatArray,
    ) -> FloatArray:
        """[Λ | λ] of every cell, backward through blocks of one kind.

        Args:
            batch: the blocks, `cells` their cells, `passed` what the filter computed there.
            cells: of each block.
            passed: of each block.
            after: Λ and λ of the level and the swing where the blocks end.
            closed_loop: C of the last cell of each block.
        """
        adjoint: FloatArray = np.zeros((len(cells), entry.SIZE, entry.SIZE + 1))
        adjoint[:, entry.LEVEL : entry.SWING + 1, [entry.LEVEL, entry.SWING, entry.SIZE]] = after
        found: FloatArray = np.empty((*cells.shape, entry.SIZE, entry.SIZE + 1))
        for cell in range(len(batch.steps) - 1, -1, -1):
            adjoint = product(closed_loop.transpose(0, 2, 1), adjoint)  # Cᵀ·[Λ | λ]
            adjoint[..., : entry.SIZE] = product(adjoint[..., : entry.SIZE], closed_loop)
            leaf = batch.steps[cell].measured
            if leaf is not None:
                variances, innovations = passed.variances[:, cell], passed.innovations[:, cell]
                direction = ((entry.LEAF, 1.0 - leaf.share), (entry.INNER, leaf.share))  # h
                for row, share in direction:
                    for column, other in direction:
                        adjoint[:, row, column] += share * other / variances
                    adjoint[:, row, entry.SIZE] -= share * innovations / variances
            found[:, cell] = adjoint
            if cell:
                closed_loop = self.closed_loop[cells[:, cell - 1]]
        return found

    def _smooth(self, cells: IntArray, passed: FilterPass, adjoints: FloatArray) -> None:
        """m − P·λ of the sum and of the level, and (I − Λ·P)·e_sum, at the end of each cell."""
        matrices, vectors = adjoints[..., : entry.SIZE], adjoints[..., entry.SIZE]
        self._ends[cells] = -(matrices * passed.sum_rows[..., np.newaxis, : entry.SIZE]).sum(
            axis=-1
        )
        self._ends[cells, entry.SUM] += 1.0
        for smoothed, rows in ((self.sums, passed.sum_rows), (self.levels, passed.level_rows)):
            smoothed[cells + 1] = rows[..., entry.SIZE] - (rows[..., : entry.SIZE] * vectors).sum(
                axis=-1
            )

    @cached_property
    def _own(self) -> FloatArray:
        """Posterior variance of the sum before each edge, in θ²."""
        return np.concatenate(([0.0], (self.rows * self._ends).sum(axis=1)))

    @cached_property
    def _covariances(self) -> CellCovariances:
        return CellCovariances(self.closed_loop, self.rows, self._ends)

    def variances(self, starts: IntArray, ends: IntArray) -> FloatArray:
        """Posterior variance of sums between edges `starts` and `ends` (indices), in θ²."""
        own = self._own
        shared = np.zeros(starts.size)  # the sum before the first edge is 0, and known
        inside = starts > 0
        shared[inside] = self._covariances.between(starts[inside] - 1, ends[inside] - 1)
        found: FloatArray = np.maximum(own[starts] + own[ends] - 2 * shared, 0.0)
        found *= self._misfit.between(starts, ends)
        return found


class CellUpdates(NamedTuple):
    """The updates at the ends of cells, one entry each."""

    measured: NDArray[np.bool_]
    shares: FloatArray  # of entry.INNER in h
    innovations: FloatArray
    variances: FloatArray  # of the innovations
    gains: FloatArray

    @classmethod
    def empty(cls, count: int) -> CellUpdates:
        """For `count` cells at which nothing is measured."""
        measured = np.zeros(count, dtype=np.bool_)
        shares, innovations = np.zeros((2, count))
        return cls(measured, shares, innovations, np.ones(count), np.zeros((count, entry.SIZE)))

    def keep(self, cells: IntArray, steps: Sequence[Step], passed: FilterPass) -> None:
        """Note the updates of blocks of one kind."""
        leaves = [step.measured for step in steps]
        self.measured[cells] = [leaf is not None for leaf in leaves]
        self.shares[cells] = [0.0 if leaf is None else leaf.share for leaf in leaves]
        self.innovations[cells] = passed.innovations
        self.variances[cells] = passed.variances
        self.gains[cells] = passed.gains


def _updates(steps: Sequence[Step], passed: FilterPass) -> FloatArray:
    """I − K·hᵀ with the row of the leaf that is closed set to 0; I where nothing is measured."""
    found = np.tile(np.eye(entry.SIZE), (*passed.innovations.shape, 1, 1))
    for cell, step in enumerate(steps):
        if step.measured is not None:
            share = step.measured.share
            found[:, cell, :, entry.LEAF] -= passed.gains[:, cell] * (1.0 - share)
            found[:, cell, :, entry.INNER] -= passed.gains[:, cell] * share
            found[:, cell, entry.LEAF] = 0.0
    return found


def _entries(steps: Sequence[Step], one: Models) -> FloatArray:
    """The numbers that F of each cell consists of, with the opening of its leaf: six for each.

    What opening a leaf leaves of the inner and of the outer noise and hands from one to the other;
    then what a unit of level and of swing adds to the sums, and the decay of the swing.
    """
    transitions = {width: transition_of(one, width) for width in {step.width for step in steps}}
    rows = []
    for step in steps:
        cell, opened = transitions[step.width], step.opened
        inner, outer, handed = 1.0, 1.0, 0.0
        if opened is not None and opened.inner is not None:
            kept = 0.0 if opened.outer is not None else 1.0
            inner, outer, handed = 0.0, kept * (1.0 - opened.inner_share), kept * opened.inner_share
        rows.append((inner, outer, handed, cell.width, cell.swing_sums[0], cell.swing_decay))
    return np.array(rows)


def enter(updates: FloatArray, entries: FloatArray) -> FloatArray:
    """F times the columns of each matrix: from the update at the end of a cell into the next one.

    For the update I − K·hᵀ that is C.
    """
    inner, outer, handed, length, swing_sum, decay = entries.T[:, :, np.newaxis]
    found = updates.copy()
    found[:, entry.INNER] = inner * found[:, entry.INNER] + handed * found[:, entry.OUTER]
    found[:, entry.OUTER] *= outer
    growth = length * found[:, entry.LEVEL] + swing_sum * found[:, entry.SWING]
    for row in (entry.SUM, entry.LEAF, entry.INNER):
        found[:, row] += growth
    found[:, entry.SWING] *= decay
    return found
