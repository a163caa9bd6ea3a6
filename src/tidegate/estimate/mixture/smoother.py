"""What all released sums together say about the past, as one model sees it.

A posterior mean and its covariance. The model is run forward over all cells and then backward (the
modified Bryson-Frazier smoother, which inverts nothing): from block to block first
(`block_chain`), then inside all blocks of one kind at once. Post-processing of released sums: free.

Let x_k be the state at the end of cell k before its leaf is measured, (m, P) its belief then, h, s,
e the measurement's direction, variance and miss, and C_k the map from x_k to x_{k+1} with the gain
applied. Backward, λ_k = −h·e/s + C_kᵀ λ_{k+1} and Λ_k = h·hᵀ/s + C_kᵀ Λ_{k+1} C_k; then

    E[x_k | all] = m − P λ_k,    Cov[x_k, x_j | all] = P_k C_kᵀ … C_{j−1}ᵀ (I − Λ_j P_j).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from tidegate.estimate.mixture.batches import (
    BlockBatch,
    FilterPass,
    Measured,
    Step,
    block_batches,
    transition,
)
from tidegate.estimate.mixture.block_chain import solve_chain
from tidegate.estimate.mixture.covariances import CellCovariances, product
from tidegate.estimate.mixture.kalman import INNER, LEAF, LEVEL, OUTER, SIZE, SUM, SWING
from tidegate.estimate.mixture.models import Models, models
from tidegate.lattice import FloatArray, IntArray


class ModelSmoother:
    """Prefix sums at every cell's end given everything, in units of θ.

    `edges[k]` is a position, `sums[k]` the posterior mean of the sum before it, `levels[k]` the
    expected level there.
    """

    def __init__(self, blocks: Sequence[Measured], horizon: int, model: int) -> None:
        one = models(horizon).only(model)
        begin = blocks[0].start if blocks else 0
        blocks = [block for block in blocks if block.end > block.start]
        parts = block_batches(blocks, one)
        met = solve_chain(parts, [block.cells.tree.rung for block in blocks], one)
        cells = np.zeros(len(blocks), dtype=np.int64)
        for part in parts:
            cells[part.numbers] = len(part.steps)
        firsts, count = np.cumsum(cells) - cells, int(cells.sum())
        self.edges: IntArray = np.full(count + 1, begin)
        self.sums, self.levels = np.zeros(count + 1), np.zeros(count + 1)
        self._rows: FloatArray = np.empty((count, SIZE))  # of P, for the sum
        self._ends: FloatArray = np.empty((count, SIZE))  # (I − Λ P) e_sum
        leaving: FloatArray = np.empty((count, SIZE, SIZE))
        entering: FloatArray = np.empty((count, 6))
        starts = np.array([block.start for block in blocks], dtype=np.int64)
        misses, ways = 0.0, []
        for part in parts:
            numbers = part.numbers
            here = firsts[numbers, np.newaxis] + np.arange(len(part.steps))  # its cells
            way = part.way(met.means[numbers], met.covariances[numbers])
            ways.append((part, here, way))
            misses += float((np.square(way.misses) / way.variances).sum())
            widths = np.cumsum([step.width for step in part.steps])
            self.edges[here + 1] = starts[numbers, np.newaxis] + widths
            self._rows[here] = way.sum_rows[..., :SIZE]
            leaving[here] = _leaving(part.steps, way)
            entering[here] = _entering(part.steps, one)
        self._maps = _entered(leaving[:-1], entering[1:])
        for part, here, way in ways:
            self._settle(part, here, way, met.after(part.numbers), leaving[here[:, -1]])
        self.levels[0] = self.levels[min(1, count)]
        # If measurements miss by more than the model expects, so may everything else.
        measured = sum(block.sums.size for block in blocks)
        self._misfit = max(1.0, misses / max(measured, 1))

    def _settle(
        self, part: BlockBatch, here: IntArray, way: FilterPass, after: FloatArray, maps: FloatArray
    ) -> None:
        """The way back through blocks of one kind; `maps` lead from their last cells out."""
        state: FloatArray = np.zeros((len(here), SIZE, SIZE + 1))  # Λ, and λ as the last column
        state[:, LEVEL : SWING + 1, [LEVEL, SWING, SIZE]] = after
        seen: FloatArray = np.empty((*here.shape, SIZE, SIZE + 1))
        for cell in range(len(part.steps) - 1, -1, -1):
            state = product(maps.transpose(0, 2, 1), state)
            state[..., :SIZE] = product(state[..., :SIZE], maps)
            leaf = part.steps[cell].measured
            if leaf is not None:
                variances, misses = way.variances[:, cell], way.misses[:, cell]
                parts = ((LEAF, 1.0 - leaf.share), (INNER, leaf.share))
                for row, share in parts:
                    for column, other in parts:
                        state[:, row, column] += share * other / variances
                    state[:, row, SIZE] -= share * misses / variances
            seen[:, cell] = state
            if cell:
                maps = self._maps[here[:, cell - 1]]
        self._ends[here] = -(seen[..., :SIZE] * way.sum_rows[..., np.newaxis, :SIZE]).sum(axis=-1)
        self._ends[here, SUM] += 1.0
        for smoothed, rows in ((self.sums, way.sum_rows), (self.levels, way.level_rows)):
            smoothed[here + 1] = rows[..., SIZE] - (rows[..., :SIZE] * seen[..., SIZE]).sum(axis=-1)

    @cached_property
    def _crossings(self) -> CellCovariances:
        return CellCovariances(self._maps, self._rows, self._ends)

    def variances(self, starts: IntArray, ends: IntArray) -> FloatArray:
        """Posterior variance of sums between edges `starts` and `ends` (indices), in θ²."""
        own = np.concatenate(([0.0], (self._rows * self._ends).sum(axis=1)))
        shared = np.zeros(starts.size)  # the sum before the first edge is 0, and known
        inside = starts > 0
        shared[inside] = self._crossings.shared(starts[inside] - 1, ends[inside] - 1)
        found: FloatArray = np.maximum(own[starts] + own[ends] - 2 * shared, 0.0)
        found *= self._misfit
        return found


def _leaving(steps: Sequence[Step], way: FilterPass) -> FloatArray:
    """What a measurement does to the state, and the closing of its leaf; else nothing."""
    found = np.tile(np.eye(SIZE), (*way.misses.shape, 1, 1))
    for cell, step in enumerate(steps):
        if step.measured is not None:
            share = step.measured.share
            found[:, cell, :, LEAF] -= way.gains[:, cell] * (1.0 - share)
            found[:, cell, :, INNER] -= way.gains[:, cell] * share
            found[:, cell, LEAF] = 0.0
    return found


def _entering(steps: Sequence[Step], one: Models) -> FloatArray:
    """What opening a leaf leaves of the noise, and how a cell is passed: six numbers for each."""
    transitions = {width: transition(one, width) for width in {step.width for step in steps}}
    rows = []
    for step in steps:
        cell, opened = transitions[step.width], step.opened
        inner, outer, handed = 1.0, 1.0, 0.0
        if opened is not None and opened.inner is not None:
            kept = 0.0 if opened.outer is not None else 1.0
            inner, outer, handed = 0.0, kept * (1.0 - opened.inner_share), kept * opened.inner_share
        rows.append((inner, outer, handed, cell.width, cell.swing_sums[0], cell.swing_decay))
    return np.array(rows)


def _entered(maps: FloatArray, entering: FloatArray) -> FloatArray:
    """C_k from what leaves cell k and how the next one is entered: leaf opened, cell passed."""
    inner, outer, handed, length, reach, keep = entering.T[:, :, np.newaxis]
    found = maps.copy()
    found[:, INNER] = inner * found[:, INNER] + handed * found[:, OUTER]
    found[:, OUTER] *= outer
    step = length * found[:, LEVEL] + reach * found[:, SWING]
    for row in (SUM, LEAF, INNER):
        found[:, row] += step
    found[:, SWING] *= keep
    return found
