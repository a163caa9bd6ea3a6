"""Filter one stream through all its cells, block by block: the input for estimating a cycle."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.estimate.mixture.kalman_filter.state_space_models import SIZE
from tidegate.estimate.mixture.smoother.block_batches import (
    HANDED_ON,
    BatchPass,
    BlockBatch,
    batch_direction,
)
from tidegate.estimate.mixture.smoother.cell_updates import CellUpdates, closed_loop_of_cells
from tidegate.estimate.mixture.smoother.forward_backward_passes import (
    SmoothingTask,
    chain_of_passes,
)
from tidegate.lattice import FloatArray


class FilteredCells(NamedTuple):
    """The results of the filters: one entry per cell, in the last axis.

    Attributes:
        rows: the row of P of the running sum, before the update at the end of the cell.
        innovations, variances: of what was measured there; 0 and 1 where nothing was.
        updates: the updates.
        entries: what F consists of (`BlockBatch.entries`).
    """

    rows: FloatArray
    innovations: FloatArray
    variances: FloatArray
    updates: CellUpdates
    entries: FloatArray

    @property
    def closed_loop(self) -> FloatArray:
        """C of each cell but the last."""
        return closed_loop_of_cells(self.updates, self.entries).transpose(2, 0, 1)


def filtered_cells(task: SmoothingTask) -> FilteredCells:
    """The cells of one stream under one model."""
    batches, chain, starts, _ = chain_of_passes([task])
    per_block = np.zeros(starts.size, dtype=np.int64)
    for batch in batches:
        per_block[batch.numbers] = len(batch.steps)
    firsts, count = np.cumsum(per_block) - per_block, int(per_block.sum())
    updates = CellUpdates(np.zeros(count, np.bool_), np.zeros(count), np.zeros((SIZE, count)))
    found = FilteredCells(
        np.empty((SIZE, count)), np.zeros(count), np.ones(count), updates, np.empty((6, count))
    )
    for batch in batches:
        numbers = batch.numbers
        at = np.arange(len(batch.steps))[:, np.newaxis] + firsts[numbers]
        passed, innovations = _filtered(batch, chain.means[numbers], chain.covariances[numbers])
        found.rows[:, at] = passed.sum_rows.transpose(1, 0, 2)
        found.innovations[at], found.variances[at] = innovations, passed.variances
        updates.gains[:, at] = passed.gains.transpose(1, 0, 2)
        found.entries[:, at] = batch.entries[..., batch.which].transpose(1, 0, 2)
        for cells, step in zip(at, batch.steps, strict=True):
            if step.measured is not None:
                updates.measured[cells] = True
                updates.shares[cells] = step.measured.share[batch.which]
    return found


def _filtered(
    batch: BlockBatch, means: FloatArray, covariances: FloatArray
) -> tuple[BatchPass, FloatArray]:
    """Filter from these initial means and covariances, one of each per block."""
    filters = batch.filters(batch.which)
    filters.mean[HANDED_ON] = means.T
    for row, known in zip(HANDED_ON, covariances.transpose(1, 2, 0), strict=True):
        filters.covariance[row, HANDED_ON] = known
    passed = BatchPass.empty(len(batch.steps), batch.numbers.size)
    innovations: FloatArray = np.zeros((len(batch.steps), batch.numbers.size))
    noisy = iter(batch.noisy)
    for cell, step in enumerate(each.of(batch.which) for each in batch.steps):
        batch.enter(filters, step, batch.which, passed, cell)
        if step.measured is not None:
            narrow, contrast = batch_direction(step.measured), step.measured.contrast
            filters.update_along(narrow[:, np.newaxis], narrow, contrast, next(noisy))
            innovations[cell], passed.variances[cell], passed.gains[cell] = filters.last_update()
    return passed, innovations
