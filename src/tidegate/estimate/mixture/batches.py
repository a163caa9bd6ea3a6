"""Blocks that are cut into the same cells, filtered side by side.

A filter goes from cell to cell, but many blocks can be gone through at once: first with what they
begin with left open (`BlockTransition`), then with what `block_chain` made of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tidegate.estimate.mixture.grid import Cells
from tidegate.estimate.mixture.kalman import LEVEL, SIZE, SUM, SWING, KalmanFilters, Transition
from tidegate.estimate.mixture.leaf_noise import Leaf
from tidegate.estimate.mixture.models import Models
from tidegate.lattice import FloatArray, IntArray

# What a block hands on to the next one: its leaves are closed, and its noise is its own.
HANDED_ON = [SUM, LEVEL, SWING]


@dataclass(frozen=True)
class Measured:
    """What was released of one block: its cells, the sums of its leaves, how far it has come.

    `doubt` multiplies the variance of its coarsest nodes' noise.
    """

    start: int
    cells: Cells
    sums: IntArray
    end: int
    doubt: float = 1.0


class Step(NamedTuple):
    """One cell: the leaf that opens with it, its values, the leaf that is measured at its end."""

    opened: Leaf | None
    width: int
    measured: Leaf | None


class BlockTransition(NamedTuple):
    """What leads through blocks of one kind.

    A block that is handed x hands on across·x + shift, give or take `noise`; and its sums speak
    about the level and the swing in x: information·x = hint, give or take `information`. Only
    `shifts` and `hints` differ from block to block: one row each.
    """

    across: FloatArray
    noise: FloatArray
    information: FloatArray
    shifts: FloatArray
    hints: FloatArray


class FilterPass(NamedTuple):
    """What a filter knew on its way: one entry per block and cell, before its end is measured."""

    sum_rows: FloatArray  # of the covariance, and the mean
    level_rows: FloatArray
    misses: FloatArray  # 0 where nothing was measured
    variances: FloatArray  # of the misses; 1 where nothing was measured
    gains: FloatArray


class BlockBatch:
    """Blocks of one kind; `numbers` says which ones of the release they are."""

    def __init__(self, numbers: Sequence[int], blocks: Sequence[Measured], one: Models) -> None:
        self.numbers: IntArray = np.array(numbers, dtype=np.int64)
        self.steps = _steps(blocks[0])
        self._one = one
        # One row for each leaf that was measured.
        self._noisy: FloatArray = np.array([block.sums for block in blocks]).T
        self._noisy = self._noisy / blocks[0].cells.unit

    def passage(self) -> BlockTransition:
        """Filter as if all blocks began with zeros, exactly known; and what a unit more changes."""
        count = self.numbers.size
        filters = KalmanFilters(_repeated(self._one, count + 2))
        filters.augmented.fill(0.0)
        filters.mean[LEVEL, count] = filters.mean[SWING, count + 1] = 1.0
        nothing = np.zeros((len(self._noisy), 2))
        information, hints = np.zeros((2, 2)), np.zeros((count, 2))
        for step in self._filter(filters, np.concatenate((self._noisy, nothing), axis=1)):
            if step.measured is not None:
                misses, variances, _ = filters.last_update()
                changes = -misses[count:] / variances[0]
                information -= misses[count:, np.newaxis] * changes
                hints += misses[:count, np.newaxis] * changes
        across = np.eye(len(HANDED_ON))
        across[:, 1:] = filters.mean[HANDED_ON, count:]
        noise = filters.covariance[HANDED_ON][:, HANDED_ON, 0]
        return BlockTransition(across, noise, information, filters.mean[HANDED_ON, :count].T, hints)

    def way(self, means: FloatArray, covariances: FloatArray) -> FilterPass:
        """Filter with this knowledge of what each block is handed."""
        count, cells = self.numbers.size, len(self.steps)
        filters = KalmanFilters(_repeated(self._one, count))
        filters.augmented.fill(0.0)
        filters.mean[HANDED_ON] = means.T
        for row, known in zip(HANDED_ON, covariances.transpose(1, 2, 0), strict=True):
            filters.covariance[row, HANDED_ON] = known
        way = FilterPass(
            np.empty((count, cells, SIZE + 1)),
            np.empty((count, cells, SIZE + 1)),
            np.zeros((count, cells)),
            np.ones((count, cells)),
            np.zeros((count, cells, SIZE)),
        )
        for cell, step in enumerate(self._filter(filters, self._noisy, way)):
            if step.measured is not None:
                way.misses[:, cell], way.variances[:, cell], gains = filters.last_update()
                way.gains[:, cell] = gains.T
        return way

    def _filter(
        self, filters: KalmanFilters, noisy: FloatArray, way: FilterPass | None = None
    ) -> Iterator[Step]:
        """From cell to cell; gives each step when it was made."""
        leaves = iter(noisy)
        transitions: dict[int, Transition] = {}
        for cell, step in enumerate(self.steps):
            if step.opened is not None:
                filters.open_leaf(step.opened)
            if step.width not in transitions:
                one = transition(self._one, step.width)
                transitions[step.width] = one.repeated(noisy.shape[1])
            filters.predict(transitions[step.width])
            if way is not None:
                way.sum_rows[:, cell] = filters.augmented[SUM].T
                way.level_rows[:, cell] = filters.augmented[LEVEL].T
            if step.measured is not None:
                filters.update(step.measured, next(leaves))
            yield step


def transition(one: Models, width: int) -> Transition:
    """How the state of one model moves over a cell."""
    return _transition(*(part.item() for part in one.parts), width)


@lru_cache(maxsize=4096)
def _transition(*facts: float) -> Transition:
    """Kept: a horizon has few widths, and every look back goes over all of them again."""
    *parts, width = facts
    return Transition(Models(*(np.array([part]) for part in parts)), width)


def block_batches(blocks: Sequence[Measured], one: Models) -> list[BlockBatch]:
    """All blocks, those of one kind together."""
    kinds: dict[object, list[int]] = {}
    for number, block in enumerate(blocks):
        kind = block.cells, block.end - block.start, block.sums.size, block.doubt
        kinds.setdefault(kind, []).append(number)
    return [BlockBatch(same, [blocks[number] for number in same], one) for same in kinds.values()]


def _steps(block: Measured) -> list[Step]:
    """The cells that have begun; the last may be cut off."""
    cells, steps = block.cells, []
    for cell in range(cells.count):
        width = min(cells.edges[cell + 1], block.end - block.start) - cells.edges[cell]
        if width <= 0:
            break
        complete = cell // cells.per_leaf < block.sums.size
        opened = cells.opens[cell]
        if opened is not None and block.doubt != 1.0:
            opened = opened.reweighted(block.doubt)
        steps.append(Step(opened, width, cells.closes[cell] if complete else None))
    return steps


def _repeated(one: Models, count: int) -> Models:
    return Models(*(np.repeat(part, count) for part in one.parts))
