"""The closed-loop transition C of every cell: the update at its end, then F into the next one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.estimate.mixture import models as entry
from tidegate.estimate.mixture.block_batches import BlockBatch, FilterPass
from tidegate.estimate.mixture.cell_steps import Step
from tidegate.lattice import FloatArray, IntArray


class CellUpdates(NamedTuple):
    """The updates at the ends of cells: one entry each, in the last axis."""

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
        return cls(measured, shares, innovations, np.ones(count), np.zeros((entry.SIZE, count)))

    def of(self, cells: slice) -> CellUpdates:
        """Those of some cells."""
        measured, *numbers = self
        return CellUpdates(measured[cells], *(part[..., cells] for part in numbers))

    def keep(self, cells: IntArray, steps: Sequence[Step], passed: FilterPass) -> None:
        """Note the updates of blocks of one kind; `cells` of each block, a column each."""
        leaves = [step.measured for step in steps]
        self.measured[cells.T] = [leaf is not None for leaf in leaves]
        for at, leaf in enumerate(leaves):
            if leaf is not None:
                self.shares[cells[at]] = leaf.share
        self.innovations[cells] = passed.innovations
        self.variances[cells] = passed.variances
        self.gains[:, cells] = passed.gains.transpose(1, 0, 2)


def transition_entries(batch: BlockBatch) -> FloatArray:
    """The numbers that F of each cell consists of, with the opening of its leaf: six for each.

    What opening a leaf leaves of the inner and of the outer noise and hands from one to the other;
    then what a unit of level and of swing adds to the sums, and the decay of the swing. The first
    axis counts cells, the last one blocks.
    """
    found = np.empty((len(batch.steps), 6, batch.numbers.size))
    for each, step in zip(found, batch.steps, strict=True):
        each[:2], each[2] = 1.0, 0.0
        opened = step.opened
        if opened is not None and opened.inner is not None:
            kept = 0.0 if opened.outer is not None else 1.0
            each[0] = 0.0
            each[1] = kept * (1.0 - opened.inner_share)
            each[2] = kept * opened.inner_share
        each[3:] = batch.growth(step)
    return found


def closed_loop(updates: CellUpdates, entries: FloatArray) -> FloatArray:
    """C of every cell but the last: a matrix each, the last axis counts them."""
    cells = updates.measured.size
    found: FloatArray = np.tile(np.eye(entry.SIZE)[..., np.newaxis], (1, 1, cells))
    found[:, entry.LEAF] -= updates.gains * (1.0 - updates.shares)
    found[:, entry.INNER] -= updates.gains * updates.shares
    found[entry.LEAF, :, updates.measured] = 0.0
    return enter(found[..., :-1], entries[:, 1:])


def enter(updates: FloatArray, entries: FloatArray) -> FloatArray:
    """F times the columns of each matrix: from the update at the end of a cell into the next one.

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
