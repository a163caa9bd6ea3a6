"""Kalman filters over many blocks together: those that are cut into the same cells, of any stream.

First with an unknown initial state, which gives a block's transition (`BlockTransition`); then,
once `block_chain` has computed the initial states, with these (`FilterPass`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tidegate.estimate.mixture.cells import Cells
from tidegate.estimate.mixture.kalman_filters import KalmanFilters
from tidegate.estimate.mixture.leaf_noise import Leaves, leaves_side_by_side
from tidegate.estimate.mixture.models import (
    LEVEL,
    SIZE,
    SUM,
    SWING,
    Models,
    Transition,
    side_by_side,
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
    """One cell: the leaf that opens with it, its values, the leaf that is measured at its end.

    The leaves have one entry per block in every number; None: none opens, none is measured.
    """

    opened: Leaves | None
    width: int
    measured: Leaves | None

    def of(self, columns: IntArray) -> Step:
        """That of these blocks, in this order."""
        opened, width, measured = self
        return Step(opened and opened.of(columns), width, measured and measured.of(columns))


class BlockTransition(NamedTuple):
    """From the state x in which blocks of one kind begin to the one in which they end.

    The block ends in across·x + shift + noise. Its measurements have the Fisher information
    `information` about the level and the swing in x, and the information vector `hint`. One entry
    per block everywhere.

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


class Profile(NamedTuple):
    """What decides about the filter's covariances, beside where cells begin and end."""

    one: Models
    cells: Cells
    noise_factor: float


class BlockBatch:
    """Blocks of one kind; `numbers` says which ones they are.

    They may be of different streams, thresholds and models: every column of the filters has its
    own. All is elementwise, so each block gets the bits that it would get alone.
    """

    def __init__(
        self, numbers: Sequence[int], blocks: Sequence[Measured], ones: Sequence[Models]
    ) -> None:
        self.numbers: IntArray = np.array(numbers, dtype=np.int64)
        # Many blocks have the same model, tree and θ: few profiles.
        profiles: dict[tuple[int, Cells, float], int] = {}
        which = [
            profiles.setdefault((id(one), block.cells, block.noise_factor), len(profiles))
            for block, one in zip(blocks, ones, strict=True)
        ]
        self._which: IntArray = np.array(which, dtype=np.int64)
        different = {id(one): one for one in ones}
        self.profiles = [Profile(different[one], cells, factor) for one, cells, factor in profiles]
        self._models = list(different.values())
        place = {one: at for at, one in enumerate(different)}
        self._model_of: IntArray = np.array([place[one] for one, *_ in profiles], dtype=np.int64)
        self._steps = _steps(blocks[0], self.profiles)
        self.steps = [step.of(self._which) for step in self._steps]
        self._growth: dict[int, FloatArray] = {}
        # One row for each leaf that was measured.
        units = np.array([block.cells.unit for block in blocks])
        self._noisy: FloatArray = np.array([block.sums for block in blocks]).T
        self._noisy = self._noisy / units

    def transition(self) -> BlockTransition:
        """Filter from a known state of 0; two more columns begin with a level or a swing of 1.

        The filter is linear: the response to a unit state gives F, and what it changes in the
        innovations gives J = Σ c·cᵀ/s and η = Σ c·e/s, c the change of the forecast. Each profile
        has two such columns.
        """
        count, kinds, which = self.numbers.size, len(self.profiles), self._which
        every = np.arange(kinds)
        columns = np.concatenate((which, every, every))
        filters = self._filters(columns)
        levels, swings = slice(count, count + kinds), slice(count + kinds, None)
        filters.mean[LEVEL, levels] = filters.mean[SWING, swings] = 1.0
        nothing = np.zeros((len(self._noisy), 2 * kinds))
        information, hints = np.zeros((kinds, 2, 2)), np.zeros((count, 2))
        noisy = np.concatenate((self._noisy, nothing), axis=1)
        steps = [step.of(columns) for step in self._steps]
        for step in self._filter(filters, steps, noisy, columns):
            if step.measured is not None:
                innovations, variances, _ = filters.last_update()
                responses = innovations[count:].reshape(2, kinds).T
                changes = -responses / variances[levels, np.newaxis]
                information -= responses[:, :, np.newaxis] * changes[:, np.newaxis]
                hints += innovations[:count, np.newaxis] * changes[which]
        across = np.tile(np.eye(len(HANDED_ON)), (kinds, 1, 1))
        across[:, :, 1] = filters.mean[HANDED_ON, levels].T
        across[:, :, 2] = filters.mean[HANDED_ON, swings].T
        noise = filters.covariance[HANDED_ON][:, HANDED_ON, levels].transpose(2, 0, 1)
        shifts = filters.mean[HANDED_ON, :count].T
        return BlockTransition(across[which], noise[which], information[which], shifts, hints)

    def filtered(self, means: FloatArray, covariances: FloatArray) -> FilterPass:
        """Filter from these initial means and covariances, one of each per block."""
        count, cells = self.numbers.size, len(self.steps)
        filters = self._filters(self._which)
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
        done = self._filter(filters, self.steps, self._noisy, self._which, passed)
        for cell, step in enumerate(done):
            if step.measured is not None:
                passed.innovations[:, cell], passed.variances[:, cell], gains = (
                    filters.last_update()
                )
                passed.gains[:, cell] = gains.T
        return passed

    def growth(self, width: int) -> FloatArray:
        """What a unit of level and of swing adds to the sums over a cell, and the swing's decay."""
        if width not in self._growth:
            every = [transition_of(one, width) for one in self._models]
            rows = np.array([(one.width, one.swing_sums[0], one.swing_decay) for one in every])
            self._growth[width] = rows[self._model_of[self._which]]
        return self._growth[width]

    def _filters(self, columns: IntArray) -> KalmanFilters:
        every = zip(*(one.parts for one in self._models), strict=True)
        models = self._model_of[columns]
        filters = KalmanFilters(Models(*(np.concatenate(part)[models] for part in every)))
        filters.augmented.fill(0.0)
        return filters

    def _filter(
        self,
        filters: KalmanFilters,
        steps: Sequence[Step],
        noisy: FloatArray,
        columns: IntArray,
        passed: FilterPass | None = None,
    ) -> Iterator[Step]:
        """Predict and update from cell to cell; yields each step after it was made."""
        leaves = iter(noisy)
        transitions: dict[int, Transition] = {}
        for cell, step in enumerate(steps):
            if step.opened is not None:
                filters.open_leaf(step.opened)
            if step.width not in transitions:
                every = [transition_of(one, step.width) for one in self._models]
                transitions[step.width] = side_by_side(every, self._model_of[columns])
            filters.predict(transitions[step.width])
            if passed is not None:
                passed.sum_rows[:, cell] = filters.augmented[SUM].T
                passed.level_rows[:, cell] = filters.augmented[LEVEL].T
            if step.measured is not None:
                _, _, _, share, contrast = step.measured
                narrow = np.stack((1.0 - share, share))  # h
                filters.update_along(narrow[:, np.newaxis], narrow, contrast, next(leaves))
            yield step


def block_batches(blocks: Sequence[Measured], ones: Sequence[Models]) -> list[BlockBatch]:
    """All blocks in batches of one kind: cut into the same cells, and come as far.

    `ones` has the model of each block.
    """
    kinds: dict[object, list[int]] = {}
    for number, block in enumerate(blocks):
        tree = block.cells.tree
        shape = tree.length, tree.nodes, tree.used
        kinds.setdefault((shape, block.end - block.start, block.sums.size), []).append(number)
    return [
        BlockBatch(same, [blocks[number] for number in same], [ones[number] for number in same])
        for same in kinds.values()
    ]


def _steps(block: Measured, profiles: Sequence[Profile]) -> list[Step]:
    """The cells that have begun, of blocks like this one; the last may be incomplete.

    Leaves have one entry per profile.
    """
    cells, steps = block.cells, []
    for cell in range(cells.count):
        width = min(cells.edges[cell + 1], block.end - block.start) - cells.edges[cell]
        if width <= 0:
            break
        opened = measured = None
        if cells.opens[cell] is not None:
            leaves = [one.cells.opens[cell] for one in profiles]
            opened = leaves_side_by_side(
                [
                    leaf if one.noise_factor == 1.0 else leaf.reweighted(one.noise_factor)
                    for leaf, one in zip(leaves, profiles, strict=True)
                    if leaf is not None
                ]
            )
        if cell // cells.per_leaf < block.sums.size and cells.closes[cell] is not None:
            closed = [one.cells.closes[cell] for one in profiles]
            measured = leaves_side_by_side([leaf for leaf in closed if leaf is not None])
        steps.append(Step(opened, width, measured))
    return steps
