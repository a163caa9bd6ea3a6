"""The transition of the state from one cell to the next: the closed-loop transition C."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.estimate.mixture.kalman_filter import state_space_models as entry
from tidegate.estimate.mixture.smoother.block_batches import BlockBatch
from tidegate.lattice import FloatArray


class CellUpdates(NamedTuple):
    """The updates at the ends of cells: one entry for each, in the last axis."""

    measured: NDArray[np.bool_]
    shares: FloatArray  # of entry.INNER in h
    gains: FloatArray

    @classmethod
    def of_profiles(cls, batch: BlockBatch, gains: FloatArray) -> CellUpdates:
        """The updates of blocks that begin in a known state, profile by profile."""
        leaves, count = [step.measured for step in batch.steps], len(batch.profiles)
        shares = [np.zeros(count) if leaf is None else leaf.share for leaf in leaves]
        measured = np.tile([leaf is not None for leaf in leaves], count)
        return cls(measured, np.array(shares).T.reshape(-1), gains)


def closed_loop_of_cells(updates: CellUpdates, entries: FloatArray) -> FloatArray:
    """C of every cell but the last: one matrix each; the last axis counts cells."""
    cells = updates.measured.size
    found: FloatArray = np.tile(np.eye(entry.SIZE)[..., np.newaxis], (1, 1, cells))
    found[:, entry.LEAF] -= updates.gains * (1.0 - updates.shares)
    found[:, entry.INNER] -= updates.gains * updates.shares
    found[entry.LEAF, :, updates.measured] = 0.0
    return enter_next_cell(found[..., :-1], entries[:, 1:])


def enter_next_cell(updates: FloatArray, entries: FloatArray) -> FloatArray:
    """F times the columns of each matrix: from the update at a cell's end into the next cell.

    For the update I − K·hᵀ that is C. The last axis of both counts cells.
    """
    inner, outer, handed, length, swing_sum, decay = entries
    found = updates.copy()
    found[entry.INNER] = inner * found[entry.INNER] + handed * found[entry.OUTER]
    found[entry.OUTER] *= outer
    growth = length * found[entry.LEVEL] + swing_sum * found[entry.SWING]
    for row in (entry.SUM, entry.LEAF, entry.INNER):
        found[row] += growth
    found[entry.SWING] *= decay
    return found
