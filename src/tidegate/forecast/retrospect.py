"""What all released sums together say about the past: a posterior mean and its covariance.

One model, the one with the largest weight, is run forward over all cells and then backward (the
modified Bryson-Frazier smoother, which inverts nothing). Post-processing of released sums: free.

Let x_k be the state at the end of cell k before its leaf is measured, (m, P) its belief then, h, s,
e the measurement's direction, variance and miss, and C_k the map from x_k to x_{k+1} with the gain
applied. Backward, λ_k = −h·e/s + C_kᵀ λ_{k+1} and Λ_k = h·hᵀ/s + C_kᵀ Λ_{k+1} C_k; then

    E[x_k | all] = m − P λ_k,    Cov[x_k, x_j | all] = P_k C_kᵀ … C_{j−1}ᵀ (I − Λ_j P_j).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidegate.forecast.beliefs import INNER, LEAF, LEVEL, OUTER, SIZE, SUM, SWING, Beliefs, Cell
from tidegate.forecast.cells import Cells
from tidegate.forecast.ladder import moved
from tidegate.forecast.models import ROUGHER, Models, models
from tidegate.forecast.noise_path import Leaf
from tidegate.lattice import FloatArray, IntArray

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Measured:
    """What was released of one block: its cells, the sums of its leaves, how far it has come."""

    start: int
    cells: Cells
    sums: IntArray
    end: int


class Retrospect:
    """Prefix sums at every cell's end given everything, in units of θ.

    `edges[k]` is a position, `sums[k]` the posterior mean of the sum before it, `levels[k]` the
    expected level there.
    """

    def __init__(self, blocks: Sequence[Measured], horizon: int, model: int) -> None:
        self._models = models(horizon, ROUGHER).only(model)
        self._movements: dict[int, Cell] = {}
        forward = _Forward(self._models)
        edges = [blocks[0].start if blocks else 0]
        rung = blocks[0].cells.tree.rung if blocks else 0
        for block in blocks:
            before, rung = rung, block.cells.tree.rung
            forward.change_cap(before, rung)
            for cell in range(block.cells.count):
                begin = block.start + block.cells.edge(cell)
                end = min(block.start + block.cells.edge(cell + 1), block.end)
                if end <= begin:
                    break
                leaf = block.cells.closes(cell)
                index = cell // block.cells.per_leaf
                whole = leaf is not None and index < block.sums.size
                noisy = block.sums.item(index) / block.cells.unit if whole else None
                forward.step(
                    block.cells.opens(cell), self._movement(end - begin), leaf if whole else None,
                    noisy,
                )  # fmt: skip
                edges.append(end)
        self.edges: IntArray = np.array(edges, dtype=np.int64)
        self._settle(forward)

    def _movement(self, width: int) -> Cell:
        if width not in self._movements:
            self._movements[width] = Cell(self._models, width)
        return self._movements[width]

    def _settle(self, forward: _Forward) -> None:
        count = len(forward.means)
        self.sums, self.levels = np.zeros(count + 1), np.zeros(count + 1)
        self._rows: Matrix = np.zeros((count + 1, SIZE))  # of P, for the sum
        self._ends: Matrix = np.zeros((count + 1, SIZE))  # (I − Λ P) e_sum
        self._maps: Matrix = np.zeros((count + 1, SIZE, SIZE))
        adjoint, information = np.zeros(SIZE), np.zeros((SIZE, SIZE))
        for index in range(count - 1, -1, -1):
            closed = forward.maps[index + 1] @ forward.closed[index] if index + 1 < count else None
            if closed is not None:
                adjoint = closed.T @ adjoint
                information = closed.T @ information @ closed
                self._maps[index + 1] = closed
            found = forward.measured[index]
            if found is not None:
                along, variance, miss = found
                adjoint = adjoint - along * (miss / variance)
                information = information + np.outer(along, along) / variance
            mean, covariance = forward.means[index], forward.covariances[index]
            smoothed = mean - covariance @ adjoint
            self.sums[index + 1] = smoothed[SUM]
            self.levels[index + 1] = smoothed[LEVEL]
            self._rows[index + 1] = covariance[SUM]
            self._ends[index + 1] = -information @ covariance[:, SUM]
            self._ends[index + 1, SUM] += 1.0
        if count:
            self.levels[0] = self.levels[1]
        # If measurements miss by more than the model expects, so may everything else.
        misses = [miss * miss / variance for _, variance, miss in filter(None, forward.measured)]
        self._misfit = max(1.0, sum(misses) / len(misses)) if misses else 1.0

    def variances(self, starts: IntArray, ends: IntArray) -> FloatArray:
        """Posterior variance of sums between edges `starts` and `ends` (indices), in θ²."""
        own = (self._rows * self._ends).sum(axis=1)
        rows = self._rows[starts]
        shared = np.where(starts == ends, own[starts], 0.0)
        if starts.size:
            for index in range(int(starts.min()), int(ends.max())):
                if index == 0:
                    continue  # the sum before the first edge is 0, and known
                moving = (starts <= index) & (index < ends)
                if moving.any():
                    rows[moving] = rows[moving] @ self._maps[index].T
                    arrived = moving & (ends == index + 1)
                    shared[arrived] = rows[arrived] @ self._ends[index + 1]
        shared[starts == 0] = 0.0
        found: FloatArray = np.maximum(own[starts] + own[ends] - 2 * shared, 0.0)
        found *= self._misfit
        return found


class _Forward:
    """The filter of one model, with everything that the way back needs."""

    def __init__(self, one: Models) -> None:
        self._beliefs = Beliefs(one)
        self.means: list[FloatArray] = []
        self.covariances: list[Matrix] = []
        self.measured: list[tuple[FloatArray, float, float] | None] = []
        self.closed: list[Matrix] = []  # with the gain, and what follows a measurement
        self.maps: list[Matrix] = []  # from there to the end of the next cell

    def change_cap(self, before: int, after: int) -> None:
        if before != after:
            self._beliefs.unsettle(moved(before, after))

    def step(self, opened: Leaf | None, cell: Cell, leaf: Leaf | None, noisy: float | None) -> None:
        beliefs = self._beliefs
        opening = np.eye(SIZE)
        if opened is not None:
            beliefs.open_leaf(opened)
            opening = _opening(opened)
        beliefs.advance(cell)
        self.maps.append(_movement(cell) @ opening)
        self.means.append(beliefs.mean[:, 0].copy())
        self.covariances.append(beliefs.covariance[:, :, 0].copy())
        if leaf is None or noisy is None:
            self.measured.append(None)
            self.closed.append(np.eye(SIZE))
            return
        along = np.zeros(SIZE)
        along[LEAF], along[INNER] = 1.0 - leaf.share, leaf.share
        spread = self.covariances[-1] @ along
        variance = float(along @ spread) + leaf.variance
        miss = noisy - float(along @ self.means[-1])
        self.measured.append((along, variance, miss))
        after = np.eye(SIZE)
        after[LEAF, LEAF] = 0.0
        self.closed.append(after @ (np.eye(SIZE) - np.outer(spread, along) / variance))
        beliefs.measure(leaf, noisy)


def _opening(leaf: Leaf) -> Matrix:
    """`Beliefs.open_leaf` as a matrix, without the fresh noise."""
    matrix = np.eye(SIZE)
    if leaf.inner is None:
        return matrix
    if leaf.outer is not None:
        matrix[OUTER] = 0.0
    inner = np.eye(SIZE)
    inner[INNER] = 0.0
    inner[INNER, OUTER] = leaf.inner_share
    inner[OUTER, OUTER] = 1.0 - leaf.inner_share
    return inner @ matrix


def _movement(cell: Cell) -> Matrix:
    """`Beliefs.advance` as a matrix."""
    matrix = np.eye(SIZE)
    for row in (SUM, LEAF, INNER):
        matrix[row, LEVEL] = cell.length[0]
        matrix[row, SWING] = cell.reach[0]
    matrix[SWING, SWING] = cell.keep[0]
    return matrix
