"""The closed-loop transition C of every cell: the update at its end, then F into the next one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.estimate.mixture import models as entry
from tidegate.estimate.mixture.block_batches import BlockBatch, FilterPass, Step
from tidegate.lattice import FloatArray, IntArray


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

    def of(self, cells: slice) -> CellUpdates:
        """Those of some cells."""
        measured, *numbers = self
        return CellUpdates(measured[cells], *(part[cells] for part in numbers))

    def keep(self, cells: IntArray, steps: Sequence[Step], passed: FilterPass) -> None:
        """Note the updates of blocks of one kind."""
        leaves = [step.measured for step in steps]
        self.measured[cells] = [leaf is not None for leaf in leaves]
        for at, leaf in enumerate(leaves):
            if leaf is not None:
                self.shares[cells[:, at]] = leaf.share
        self.innovations[cells] = passed.innovations
        self.variances[cells] = passed.variances
        self.gains[cells] = passed.gains


def closed_updates(steps: Sequence[Step], passed: FilterPass) -> FloatArray:
    """I − K·hᵀ with the row of the leaf that is closed set to 0; I where nothing is measured."""
    blocks, cells = passed.innovations.shape
    one = np.eye(entry.SIZE)[..., np.newaxis, np.newaxis]
    found = np.tile(one, (1, 1, blocks, cells))
    for cell, step in enumerate(steps):
        if step.measured is not None:
            share, gains = step.measured.share, passed.gains[:, cell].T
            found[:, entry.LEAF, :, cell] -= gains * (1.0 - share)
            found[:, entry.INNER, :, cell] -= gains * share
            found[entry.LEAF, :, :, cell] = 0.0
    return found


def transition_entries(batch: BlockBatch) -> FloatArray:
    """The numbers that F of each cell consists of, with the opening of its leaf: six for each.

    What opening a leaf leaves of the inner and of the outer noise and hands from one to the other;
    then what a unit of level and of swing adds to the sums, and the decay of the swing.
    """
    found = np.empty((batch.numbers.size, len(batch.steps), 6))
    for at, step in enumerate(batch.steps):
        found[:, at, :3] = 1.0, 1.0, 0.0
        opened = step.opened
        if opened is not None and opened.inner is not None:
            kept = 0.0 if opened.outer is not None else 1.0
            found[:, at, 0] = 0.0
            found[:, at, 1] = kept * (1.0 - opened.inner_share)
            found[:, at, 2] = kept * opened.inner_share
        found[:, at, 3:] = batch.growth(step.width)
    return found


def enter(updates: FloatArray, entries: FloatArray) -> FloatArray:
    """F times the columns of each matrix: from the update at the end of a cell into the next one.

    For the update I − K·hᵀ that is C. The last axis of matrices counts cells.
    """
    inner, outer, handed, length, swing_sum, decay = entries.T
    found = updates.copy()
    found[entry.INNER] = inner * found[entry.INNER] + handed * found[entry.OUTER]
    found[entry.OUTER] *= outer
    growth = length * found[entry.LEVEL] + swing_sum * found[entry.SWING]
    for row in (entry.SUM, entry.LEAF, entry.INNER):
        found[row] += growth
    found[entry.SWING] *= decay
    return found
