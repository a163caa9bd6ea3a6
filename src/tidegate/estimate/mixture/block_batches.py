"""Kalman filters over many blocks together: those that are cut into the same cells.

First with an unknown initial state, which gives a block's transition (`BlockTransition`); then,
once `block_chain` has computed the initial states, with these (`FilterPass`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tidegate.estimate.mixture.cells import Cells
from tidegate.estimate.mixture.kalman import KalmanFilters
from tidegate.estimate.mixture.leaf_noise import Leaf
from tidegate.estimate.mixture.models import (
    LEVEL,
    SIZE,
    SUM,
    SWING,
    Models,
    Transition,
    transition_of,
)
from tidegate.lattice import FloatArray, IntArray

# What a block hands on to the next one: its leaves are closed, and its noise is its own.
HANDED_ON = [SUM, LEVEL, SWING]


@dataclass(frozen=True)
class Measured:
    """What was released of one block: its cells, the sums of its leaves, how far it has come.

    `noise_factor` multiplies the variance of its coarsest nodes' noise.
    """

    start: int
    cells: Cells
    sums: IntArray | FloatArray
    end: int
    noise_factor: float = 1.0


class Step(NamedTuple):
    """One cell: the leaf that opens with it, its values, the leaf that is measured at its end."""

    opened: Leaf | None
    width: int
    measured: Leaf | None


class BlockTransition(NamedTuple):
    """From the state x in which blocks of one kind begin to the one in which they end.

    The block ends in across·x + shift + noise. Its measurements have the Fisher information
    `information` about the level and the swing in x, and the information vector `hint`. Only
    `shifts` and `hints` differ from block to block: one row each.

    Attributes:
        across: transition matrix F.
        noise: covariance of what is added.
        information: J.
        shifts: added to F·x.
        hints: η; the estimate from this block alone would be J⁻¹·η.
    """

    across: FloatArray
    noise: FloatArray
    information: FloatArray
    shifts: FloatArray
    hints: FloatArray


class FilterPass(NamedTuple):
    """What the filter computed: one entry per block and cell, before the update at its end."""

    sum_rows: FloatArray  # of [P | m], for the running sum
    level_rows: FloatArray  # the same for the level
    innovations: FloatArray  # 0 where nothing was measured
    variances: FloatArray  # of the innovations; 1 where nothing was measured
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

    def transition(self) -> BlockTransition:
        """Filter from a known state of 0; two more columns begin with a level or a swing of 1.

        The filter is linear: the response to a unit state gives F, and what it changes in the
        innovations gives J = Σ c·cᵀ/s and η = Σ c·e/s, c the change of the forecast.
        """
        count = self.numbers.size
        filters = KalmanFilters(_repeated(self._one, count + 2))
        filters.augmented.fill(0.0)
        filters.mean[LEVEL, count] = filters.mean[SWING, count + 1] = 1.0
        nothing = np.zeros((len(self._noisy), 2))
        information, hints = np.zeros((2, 2)), np.zeros((count, 2))
        for step in self._filter(filters, np.concatenate((self._noisy, nothing), axis=1)):
            if step.measured is not None:
                innovations, variances, _ = filters.last_update()
                changes = -innovations[count:] / variances[0]
                information -= innovations[count:, np.newaxis] * changes
                hints += innovations[:count, np.newaxis] * changes
        across = np.eye(len(HANDED_ON))
        across[:, 1:] = filters.mean[HANDED_ON, count:]
        noise = filters.covariance[HANDED_ON][:, HANDED_ON, 0]
        return BlockTransition(across, noise, information, filters.mean[HANDED_ON, :count].T, hints)

    def filtered(self, means: FloatArray, covariances: FloatArray) -> FilterPass:
        """Filter from these initial means and covariances, one of each per block."""
        count, cells = self.numbers.size, len(self.steps)
        filters = KalmanFilters(_repeated(self._one, count))
        filters.augmented.fill(0.0)
        filters.mean[HANDED_ON] = means.T
        for row, known in zip(HANDED_ON, covariances.transpose(1, 2, 0), strict=True):
            filters.covariance[row, HANDED_ON] = known
        passed = FilterPass(
            np.empty((count, cells, SIZE + 1)),
            np.empty((count, cells, SIZE + 1)),
            np.zeros((count, cells)),
            np.ones((count, cells)),
            np.zeros((count, cells, SIZE)),
        )
        for cell, step in enumerate(self._filter(filters, self._noisy, passed)):
            if step.measured is not None:
                passed.innovations[:, cell], passed.variances[:, cell], gains = (
                    filters.last_update()
                )
                passed.gains[:, cell] = gains.T
        return passed

    def _filter(
        self, filters: KalmanFilters, noisy: FloatArray, passed: FilterPass | None = None
    ) -> Iterator[Step]:
        """Predict and update from cell to cell; yields each step after it was made."""
        leaves = iter(noisy)
        transitions: dict[int, Transition] = {}
        for cell, step in enumerate(self.steps):
            if step.opened is not None:
                filters.open_leaf(step.opened)
            if step.width not in transitions:
                transitions[step.width] = transition_of(self._one, step.width).repeated(
                    noisy.shape[1]
                )
            filters.predict(transitions[step.width])
            if passed is not None:
                passed.sum_rows[:, cell] = filters.augmented[SUM].T
                passed.level_rows[:, cell] = filters.augmented[LEVEL].T
            if step.measured is not None:
                filters.update(step.measured, next(leaves))
            yield step


def block_batches(blocks: Sequence[Measured], one: Models) -> list[BlockBatch]:
    """All blocks in batches of one kind: the same cells, as far, with as much noise."""
    kinds: dict[object, list[int]] = {}
    for number, block in enumerate(blocks):
        kind = block.cells, block.end - block.start, block.sums.size, block.noise_factor
        kinds.setdefault(kind, []).append(number)
    return [BlockBatch(same, [blocks[number] for number in same], one) for same in kinds.values()]


def _steps(block: Measured) -> list[Step]:
    """The cells that have begun; the last may be incomplete."""
    cells, steps = block.cells, []
    for cell in range(cells.count):
        width = min(cells.edges[cell + 1], block.end - block.start) - cells.edges[cell]
        if width <= 0:
            break
        complete = cell // cells.per_leaf < block.sums.size
        opened = cells.opens[cell]
        if opened is not None and block.noise_factor != 1.0:
            opened = opened.reweighted(block.noise_factor)
        steps.append(Step(opened, width, cells.closes[cell] if complete else None))
    return steps


def _repeated(one: Models, count: int) -> Models:
    return Models(*(np.repeat(part, count) for part in one.parts))
