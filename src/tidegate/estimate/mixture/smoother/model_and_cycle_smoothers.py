"""`ModelSmoother`, `CycleSmoother`: fixed-interval smoothers of a model, without and with a cycle.

A posterior mean and its covariance, by the modified Bryson-Frazier smoother, which inverts nothing
(`forward_backward_passes`). Post-processing of released sums: it costs no privacy.

Given the coefficients β of the cycle, what is left of the sums after taking away Cβ follows a model
without a cycle, and its smoother is linear in the sums: it gives s − R·β, R the smoothed harmonics.
So the innovations e − E·β of that model, of variance v, have all that is known about β,

    B = (1/prior + Σ E·Eᵀ/v)⁻¹,    b = B·Σ E·e/v,

and a sum has the posterior mean s + (C − R)·b, and beyond the variance given β that of (C − R)·β.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from tidegate.estimate.mixture.kalman_filter.harmonics import Harmonics
from tidegate.estimate.mixture.kalman_filter.state_space_models import (
    INNER,
    LEAF,
    SCATTER,
    SIZE,
    SUM,
)
from tidegate.estimate.mixture.smoother.block_batches import MeasuredBlock
from tidegate.estimate.mixture.smoother.cell_updates import enter_next_cell
from tidegate.estimate.mixture.smoother.filtered_cells import FilteredCells, filtered_cells
from tidegate.estimate.mixture.smoother.forward_backward_passes import (
    SmoothingTask,
    SolvedPasses,
    pieces_of_passes,
    solved_passes,
)
from tidegate.lattice import FloatArray, IntArray

_NONE: FloatArray = np.zeros(0)


class ModelSmoother:
    """The posterior running sum at the end of every cell given everything, in units of θ.

    `edges[k]` is a position, `sums[k]` the posterior mean of the sum before it, `levels[k]` the
    expected level there.
    """

    def __init__(
        self, blocks: Sequence[MeasuredBlock], horizon: int, model: int, scatter: float = SCATTER
    ) -> None:
        task = SmoothingTask(blocks, horizon, model, scatter)
        self._keep(task, solved_passes([task]), 0)

    @classmethod
    def of_each(cls, tasks: Sequence[SmoothingTask]) -> list[ModelSmoother]:
        """The smoothers of many streams or models at once, with the bits that each has alone."""
        smoothers = []
        for piece in pieces_of_passes(tasks):
            together = solved_passes(piece)
            for number, task in enumerate(piece):
                smoother = cls.__new__(cls)
                smoother._keep(task, together, number)
                smoothers.append(smoother)
        return smoothers

    @classmethod
    def solved_before(cls, together: SolvedPasses, number: int) -> ModelSmoother:
        """A smoother from stored passes; it answers queries, and has no `cells`."""
        found = cls.__new__(cls)
        found._keep(None, together, number)
        return found

    @property
    def passes(self) -> SolvedPasses:
        """The forward and backward passes of all tasks that were smoothed together."""
        return self._together

    def _keep(self, task: SmoothingTask | None, together: SolvedPasses, number: int) -> None:
        if task is not None:
            self._task = task
        firsts = together.firsts
        first = int(firsts[number])
        last = number + 1 == firsts.size
        end = together.edges.size if last else int(firsts[number + 1])
        self.edges, self.sums = together.edges[first:end], together.sums[first:end]
        self.levels = together.levels[first:end]
        self._together, self._number, self._first = together, number, first

    @cached_property
    def cells(self) -> FilteredCells:
        """The filtered cells of the stream."""
        return filtered_cells(self._task)

    def variances(self, starts: IntArray, ends: IntArray) -> FloatArray:
        """Posterior variance of sums between edges `starts` and `ends` (indices), in θ²."""
        return self.variances_of_each([(self, starts, ends)])[0]

    @staticmethod
    def variances_of_each(asked: Sequence[Asked]) -> list[FloatArray]:
        """`variances` of many at once; those smoothed together take one call.

        One by one, most time would go into calls on small arrays.
        """
        together: dict[int, list[int]] = {}
        for at, (smoother, _, _) in enumerate(asked):
            together.setdefault(id(smoother._together), []).append(at)
        found: list[FloatArray] = [_NONE] * len(asked)
        for same in together.values():
            smoothers = [asked[at][0] for at in same]
            sizes = [asked[at][1].size for at in same]
            tasks = np.repeat([one._number for one in smoothers], sizes)
            firsts = np.repeat([one._first for one in smoothers], sizes)
            starts = np.concatenate([asked[at][1] for at in same]) + firsts
            ends = np.concatenate([asked[at][2] for at in same]) + firsts
            every = _model_smoother_variances(smoothers[0]._together, tasks, starts, ends)
            for at, part in zip(same, np.split(every, np.cumsum(sizes)[:-1]), strict=True):
                found[at] = part
        return found

    def misfit(self, starts: IntArray, ends: IntArray) -> FloatArray:
        """The factor in these variances for innovations that were larger than expected."""
        of, tasks = self._together, np.full(starts.size, self._number)
        ended = (of.ended[edges + self._first] for edges in (starts, ends))
        return of.misfits.between(tasks, *ended)


Asked = tuple[ModelSmoother, IntArray, IntArray]  # and edges: where ranges start and end


def _model_smoother_variances(
    of: SolvedPasses, tasks: IntArray, starts: IntArray, ends: IntArray
) -> FloatArray:
    """Posterior variance of sums between edges of these tasks, counted over all tasks."""
    found: FloatArray = np.zeros(starts.size)
    # The sum before the first edge of a task is 0, and known.
    known = starts == of.firsts[tasks]
    (whole,) = (known & (ends > starts)).nonzero()
    (inside,) = (~known & (ends > starts)).nonzero()
    first, last = starts - tasks - 1, ends - tasks - 1
    if whole.size:
        found[whole] = of.variances.of(last[whole])
    if inside.size:
        found[inside] = of.variances.between(first[inside], last[inside])
    np.maximum(found, 0.0, out=found)
    found *= of.misfits.between(tasks, of.ended[starts], of.ended[ends])
    return found


class CycleResponses:
    """The responses of the smoother `without` a cycle to each harmonic."""

    def __init__(
        self, blocks: Sequence[MeasuredBlock], harmonics: Harmonics, without: ModelSmoother
    ) -> None:
        self.harmonics, self.without = harmonics, without
        self._blocks = [block for block in blocks if block.end > block.start]
        self._sums = [_cycle_leaf_sums(block, harmonics) for block in self._blocks]
        cells = without.cells
        seen, count = cells.updates, cells.variances.size
        measured: FloatArray = np.zeros((count, harmonics.count))
        measured[seen.measured] = np.concatenate((*self._sums, measured[:0]))
        # The sum z of a leaf enters as K·z, and is taken from INNER; the leaf is closed.
        inputs = seen.gains.T.copy()
        inputs[:, INNER] -= 1.0
        inputs[:, LEAF] = 0.0
        inputs[~seen.measured] = 0.0
        columns = np.ascontiguousarray(inputs[:-1].T[:, np.newaxis])
        inputs = enter_next_cell(columns, cells.entries[:, 1:]).transpose(2, 0, 1)
        closed_loop, rows = cells.closed_loop, cells.rows.T
        state: FloatArray = np.zeros((SIZE, harmonics.count))
        told, sums = np.zeros_like(measured), np.zeros((count + 1, harmonics.count))
        for cell, share in enumerate(seen.shares.tolist()):
            sums[cell + 1] = state[SUM]
            if seen.measured[cell]:
                told[cell] = measured[cell] - ((1.0 - share) * state[LEAF] + share * state[INNER])
            if cell < count - 1:
                state = (
                    _cycle_smoother_product(closed_loop[cell], state)
                    + inputs[cell] * measured[cell]
                )
        adjoint: FloatArray = np.zeros((SIZE, harmonics.count))
        scaled = told / cells.variances[:, np.newaxis]
        for cell in range(count - 1, -1, -1):
            if cell < count - 1:
                adjoint = _cycle_smoother_product(closed_loop[cell].T, adjoint)
            share = seen.shares.item(cell)
            adjoint[LEAF] -= (1.0 - share) * scaled[cell]
            adjoint[INNER] -= share * scaled[cell]
            sums[cell + 1] -= (rows[cell][:, np.newaxis] * adjoint).sum(axis=0)
        self.sums, self.told = sums, told  # R, and E: a column for each harmonic

    def left(self, coefficients: FloatArray) -> ModelSmoother:
        """The smoother of the data minus the cycle with these coefficients."""
        blocks = [
            replace(
                block,
                sums=block.sums - block.cells.unit * weighted_cycle_columns(sums, coefficients),
            )
            for block, sums in zip(self._blocks, self._sums, strict=True)
        ]
        return ModelSmoother(*self.without._task._replace(blocks=blocks))

    def smoother(self, prior: FloatArray) -> CycleSmoother:
        """The smoother with these prior variances of the coefficients, in θ²."""
        return CycleSmoother(self, prior)


class CycleSmoother:
    """`ModelSmoother` of one model with a cycle: the same attributes, in units of θ.

    `coefficients` is b.
    """

    def __init__(self, responses: CycleResponses, prior: FloatArray) -> None:
        harmonics, without = responses.harmonics, responses.without
        self.coefficients, self._covariance = _cycle_posterior(
            prior, responses.told.T, without.cells.innovations, without.cells.variances
        )
        self._left = left = responses.left(self.coefficients)
        self.edges: IntArray = without.edges
        before = harmonics.before(self.edges)
        before -= before[0]
        self._response: FloatArray = before - responses.sums
        self.sums: FloatArray = left.sums + weighted_cycle_columns(before, self.coefficients)
        level = weighted_cycle_columns(harmonics.at(self.edges), self.coefficients)
        self.levels: FloatArray = left.levels + level

    def variances(self, starts: IntArray, ends: IntArray) -> FloatArray:
        """Posterior variance of sums between edges `starts` and `ends` (indices), in θ²."""
        found = self._left.variances(starts, ends)
        response = self._response[ends] - self._response[starts]
        for row, weights in zip(response.T, self._covariance, strict=True):
            found += row * weighted_cycle_columns(response, weights)
        return found

    @staticmethod
    def variances_of_each(
        asked: Sequence[tuple[CycleSmoother, IntArray, IntArray]],
    ) -> list[FloatArray]:
        """`variances` of many, one by one."""
        return [smoother.variances(starts, ends) for smoother, starts, ends in asked]


def _cycle_leaf_sums(block: MeasuredBlock, harmonics: Harmonics) -> FloatArray:
    """The sum of each harmonic over each measured leaf."""
    tree = block.cells.tree
    edges = np.array([tree.edge(leaf) for leaf in range(block.sums.size + 1)], dtype=np.int64)
    return np.diff(harmonics.before(block.start + edges), axis=0)


def _cycle_smoother_product(matrix: FloatArray, columns: FloatArray) -> FloatArray:
    found: FloatArray = (matrix[:, :, np.newaxis] * columns).sum(axis=1)
    return found


def weighted_cycle_columns(parts: FloatArray, weights: FloatArray) -> FloatArray:
    """Σ weight·column, summed in a fixed order."""
    total: FloatArray = np.zeros(len(parts))
    for column, weight in zip(parts.T, weights.tolist(), strict=True):
        total += weight * column
    return total


def _cycle_posterior(
    prior: FloatArray, told: FloatArray, innovations: FloatArray, variances: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Posterior mean and covariance of the coefficients."""
    scaled = told / variances
    information = np.array([[(one * two).sum() for two in told] for one in scaled])
    information += np.diag(1.0 / prior)
    covariance = _cycle_smoother_inverse(information)
    return weighted_cycle_columns(covariance, (scaled * innovations).sum(axis=1)), covariance


def _cycle_smoother_inverse(matrix: FloatArray) -> FloatArray:
    """The inverse of a symmetric positive definite matrix, by elimination in a fixed order."""
    size = len(matrix)
    work = np.concatenate((matrix, np.eye(size)), axis=1)
    for at in range(size):
        work[at] /= work[at, at]
        for row in range(size):
            if row != at:
                work[row] -= work[row, at] * work[at]
    return work[:, size:]
