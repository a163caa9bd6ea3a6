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
from functools import cached_property

import numpy as np

from tidegate.forecast.beliefs import INNER, LEAF, LEVEL, OUTER, SIZE, SUM, SWING, Beliefs, Cell
from tidegate.forecast.cells import Cells
from tidegate.forecast.crossings import Crossings, product
from tidegate.forecast.ladder import moved
from tidegate.forecast.models import ROUGHER, Models, models
from tidegate.forecast.noise_path import Leaf
from tidegate.lattice import FloatArray, IntArray


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
        one = models(horizon, ROUGHER).only(model)
        movements: dict[int, Cell] = {}
        forward = _Forward(one)
        edges = [blocks[0].start if blocks else 0]
        rung = blocks[0].cells.tree.rung if blocks else 0
        for block in blocks:
            before, rung = rung, block.cells.tree.rung
            forward.change_cap(before, rung)
            for cell in range(block.cells.count):
                begin = block.start + block.cells.edges[cell]
                end = min(block.start + block.cells.edges[cell + 1], block.end)
                if end <= begin:
                    break
                width = end - begin
                if width not in movements:
                    movements[width] = Cell(one, width)
                leaf = block.cells.closes[cell]
                index = cell // block.cells.per_leaf
                whole = leaf is not None and index < block.sums.size
                noisy = block.sums.item(index) / block.cells.unit if whole else None
                forward.step(block.cells.opens[cell], movements[width], leaf, noisy)
                edges.append(end)
        self.edges: IntArray = np.array(edges, dtype=np.int64)
        self._settle(forward)

    def _settle(self, forward: _Forward) -> None:
        """The way back."""
        count = len(forward.misses)
        self._maps = forward.maps()
        self._rows = np.array(forward.sum_rows).reshape(count, SIZE + 1)  # of P, then the mean
        level_rows = np.array(forward.level_rows).reshape(count, SIZE + 1)
        seen: FloatArray = np.zeros((count, SIZE, SIZE + 1))  # Λ, and λ as the last column
        state: FloatArray = np.zeros((SIZE, SIZE + 1))
        for index in range(count - 1, -1, -1):
            if index + 1 < count:
                turned = self._maps[index].T
                state = product(turned, state)
                state[:, :SIZE] = product(state[:, :SIZE], self._maps[index])
            information = forward.informations[index]
            if information is not None:
                state += information
            seen[index] = state
        adjoint = seen[:, :, SIZE]
        self.sums, self.levels = np.zeros(count + 1), np.zeros(count + 1)
        self._ends = -(seen[:, :, :SIZE] * self._rows[:, np.newaxis, :SIZE]).sum(axis=2)
        self._ends[:, SUM] += 1.0  # (I − Λ P) e_sum
        for smoothed, rows in ((self.sums, self._rows), (self.levels, level_rows)):
            smoothed[1:] = rows[:, SIZE] - (rows[:, :SIZE] * adjoint).sum(axis=1)
        if count:
            self.levels[0] = self.levels[1]
        # If measurements miss by more than the model expects, so may everything else.
        misses = [miss for miss in forward.misses if miss is not None]
        self._misfit = max(1.0, sum(misses) / len(misses)) if misses else 1.0

    @cached_property
    def _crossings(self) -> Crossings:
        return Crossings(self._maps, self._rows[:, :SIZE], self._ends)

    def variances(self, starts: IntArray, ends: IntArray) -> FloatArray:
        """Posterior variance of sums between edges `starts` and `ends` (indices), in θ²."""
        own = np.concatenate(([0.0], (self._rows[:, :SIZE] * self._ends).sum(axis=1)))
        shared = np.zeros(starts.size)  # the sum before the first edge is 0, and known
        inside = starts > 0
        shared[inside] = self._crossings.shared(starts[inside] - 1, ends[inside] - 1)
        found: FloatArray = np.maximum(own[starts] + own[ends] - 2 * shared, 0.0)
        found *= self._misfit
        return found


class _Forward:
    """The filter of one model, with everything that the way back needs."""

    def __init__(self, one: Models) -> None:
        self._beliefs = Beliefs(one)
        self.sum_rows: list[FloatArray] = []
        self.level_rows: list[FloatArray] = []
        self.misses: list[float | None] = []  # squared, over what was expected
        self.informations: list[FloatArray | None] = []  # h·hᵀ/s, and −h·e/s
        self._closing: list[FloatArray] = []  # gains, and h
        self._moving: list[tuple[float, float, float]] = []
        self._opening: list[tuple[float, float, float]] = []

    def change_cap(self, before: int, after: int) -> None:
        if before != after:
            self._beliefs.unsettle(moved(before, after))

    def step(self, opened: Leaf | None, cell: Cell, leaf: Leaf | None, noisy: float | None) -> None:
        beliefs = self._beliefs
        if opened is None or opened.inner is None:
            self._opening.append((1.0, 1.0, 0.0))
        else:
            beliefs.open_leaf(opened)
            kept = 0.0 if opened.outer is not None else 1.0
            share = opened.inner_share
            self._opening.append((0.0, kept * (1.0 - share), kept * share))
        beliefs.advance(cell)
        self._moving.append((cell.width, cell.reaching[0], cell.kept_swing))
        self.sum_rows.append(beliefs.table[SUM, :, 0].copy())
        self.level_rows.append(beliefs.table[LEVEL, :, 0].copy())
        if leaf is None or noisy is None:
            self.misses.append(None)
            self.informations.append(None)
            self._closing.append(_NOTHING)
            return
        beliefs.measure(leaf, noisy)
        miss, variance, gain = beliefs.last_measurement()
        self.misses.append(miss * miss / variance)
        information: FloatArray = np.zeros((SIZE, SIZE + 1))
        rest, share = 1.0 - leaf.share, leaf.share
        information[LEAF, LEAF] = rest * rest / variance
        information[LEAF, INNER] = information[INNER, LEAF] = rest * share / variance
        information[INNER, INNER] = share * share / variance
        information[LEAF, SIZE], information[INNER, SIZE] = (
            -rest * miss / variance, -share * miss / variance,
        )  # fmt: skip
        self.informations.append(information)
        self._closing.append(np.array([*gain, rest, share, 1.0]))

    def maps(self) -> FloatArray:
        """C_k for all k but the last: conditioned, leaf closed, next leaf opened, cell passed."""
        count = max(len(self.misses) - 1, 0)
        closing = np.array(self._closing[:count]).reshape(count, SIZE + 3)
        found = np.tile(np.eye(SIZE), (count, 1, 1))
        found[:, :, LEAF] -= closing[:, :SIZE] * closing[:, SIZE, np.newaxis]
        found[:, :, INNER] -= closing[:, :SIZE] * closing[:, SIZE + 1, np.newaxis]
        found[:, LEAF] *= 1.0 - closing[:, SIZE + 2, np.newaxis]
        inner, outer, handed = np.array(self._opening[1:]).reshape(count, 3).T[:, :, np.newaxis]
        found[:, INNER] = inner * found[:, INNER] + handed * found[:, OUTER]
        found[:, OUTER] *= outer
        length, reach, keep = np.array(self._moving[1:]).reshape(count, 3).T[:, :, np.newaxis]
        step = length * found[:, LEVEL] + reach * found[:, SWING]
        for row in (SUM, LEAF, INNER):
            found[:, row] += step
        found[:, SWING] *= keep
        return found


_NOTHING: FloatArray = np.zeros(SIZE + 3)
