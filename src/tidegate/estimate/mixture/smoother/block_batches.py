"""Kalman filters over many blocks together: those that are cut into the same cells, of any stream.

First with an unknown initial state, which gives a block's transition (`BlockTransition`); then,
once `block_chain` has computed the initial states, with these (`FilterPass`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tidegate.estimate.mixture.kalman_filter.block_cells import (
    BlockCells,
    CellProfile,
    CellStep,
    cell_steps_of,
)
from tidegate.estimate.mixture.kalman_filter.filter_means import FilterMeans
from tidegate.estimate.mixture.kalman_filter.kalman_filters import KalmanFilters
from tidegate.estimate.mixture.kalman_filter.leaf_noise import Leaves
from tidegate.estimate.mixture.kalman_filter.state_space_models import (
    LEVEL,
    SIZE,
    SUM,
    SWING,
    Models,
    StateTransition,
    side_by_side,
    transition_of,
)
from tidegate.estimate.mixture.many_streams.wide_kalman_filters import WideKalmanFilters
from tidegate.lattice import FloatArray, IntArray

# What a block hands on to the next one: its leaves are closed, and its noise is its own.
HANDED_ON = [SUM, LEVEL, SWING]
_WIDE = 100  # filters from which on calls cost less than their numbers


@dataclass(frozen=True)
class MeasuredBlock:
    """What was released of one block: its cells, the sums of its leaves, how far it has come.

    `noise_factor` multiplies the variance of its coarsest nodes' noise.
    """

    start: int
    cells: BlockCells
    sums: IntArray | FloatArray
    end: int
    noise_factor: float = 1.0


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
    """What the filter computed at every cell, before the update at its end.

    The first axis counts cells, the last one blocks.
    """

    sum_rows: FloatArray  # of [P | m], for the running sum
    level_rows: FloatArray  # the same for the level
    innovations: FloatArray  # 0 where nothing was measured
    variances: FloatArray  # of the innovations; 1 where nothing was measured
    gains: FloatArray


class BlockBatch:
    """Blocks of one kind; `numbers` says which ones they are.

    They may be of different streams, thresholds and models: every column of the filters has its
    own. All is elementwise, so each block gets the bits that it would get alone.
    """

    def __init__(
        self, numbers: Sequence[int], blocks: Sequence[MeasuredBlock], ones: Sequence[Models]
    ) -> None:
        self.numbers: IntArray = np.array(numbers, dtype=np.int64)
        # Many blocks have the same model, tree and θ: few profiles.
        profiles: dict[tuple[int, int, float, int], int] = {}
        which = [
            profiles.setdefault(
                (id(one), id(block.cells), block.noise_factor, block.end - block.start),
                len(profiles),
            )
            for block, one in zip(blocks, ones, strict=True)
        ]
        self._which: IntArray = np.array(which, dtype=np.int64)
        different = {id(one): one for one in ones}
        cells = {id(block.cells): block.cells for block in blocks}
        self.profiles = [
            CellProfile(different[one], cells[its], factor, length)
            for one, its, factor, length in profiles
        ]
        self._models = list(different.values())
        place = {one: at for at, one in enumerate(different)}
        self._model_of: IntArray = np.array([place[one] for one, *_ in profiles], dtype=np.int64)
        self._steps = cell_steps_of(self.profiles, blocks[0].sums.size)
        self.steps = [step.of(self._which) for step in self._steps]
        self._transitions: dict[bytes, StateTransition] = {}
        # One row for each leaf that was measured.
        units = np.array([block.cells.unit for block in blocks])
        self._noisy: FloatArray = np.array([block.sums for block in blocks]).T
        self._noisy = self._noisy / units

    def transition(self) -> BlockTransition:
        """Filter from a known state of 0; two more columns begin with a level or a swing of 1.

        The filter is linear: the response to a unit state gives F, and what it changes in the
        innovations gives J = Σ c·cᵀ/s and η = Σ c·e/s, c the change of the forecast. Each profile
        has two such columns. From a known state covariances are those of the profile: one filter
        for each, and means alone for each block (`FilterMeans`).
        """
        count, kinds, which = self.numbers.size, len(self.profiles), self._which
        every = np.arange(kinds)
        filters = self._filters(every)
        means = FilterMeans(np.concatenate((which, every, every)))
        levels, swings = slice(count, count + kinds), slice(count + kinds, None)
        means.values[LEVEL, levels] = means.values[SWING, swings] = 1.0
        nothing = np.zeros((len(self._noisy), 2 * kinds))
        information, hints = np.zeros((kinds, 2, 2)), np.zeros((count, 2))
        noisy = iter(np.concatenate((self._noisy, nothing), axis=1))
        for step in self._steps:
            over = self._over(step, every)
            if step.opened is not None:
                filters.open_leaf(step.opened)
                means.open_leaf(step.opened)
            filters.predict(over)
            means.predict(over)
            if step.measured is not None:
                narrow = _direction_of(step.measured)
                filters.update_along(narrow[:, np.newaxis], narrow, step.measured.contrast, None)
                projected, variances = filters.last_projection()
                innovations = means.update(narrow, projected, variances, next(noisy))
                responses = innovations[count:].reshape(2, kinds).T
                changes = -responses / variances[:, np.newaxis]
                information -= responses[:, :, np.newaxis] * changes[:, np.newaxis]
                hints += innovations[:count, np.newaxis] * changes[which]
        across = np.tile(np.eye(len(HANDED_ON)), (kinds, 1, 1))
        across[:, :, 1] = means.values[HANDED_ON, levels].T
        across[:, :, 2] = means.values[HANDED_ON, swings].T
        noise = filters.covariance[HANDED_ON][:, HANDED_ON].transpose(2, 0, 1)
        shifts = means.values[HANDED_ON, :count].T
        return BlockTransition(across[which], noise[which], information[which], shifts, hints)

    def distances(self, means: FloatArray, covariances: FloatArray) -> FloatArray:
        """e²/s of every leaf, a column for each block, from these means and covariances on."""
        filters = self._begun(means, covariances)
        found = []
        for step in self._filter(filters, self.steps, self._noisy, self._which, None):
            if step.measured is not None:
                innovations, variances, _ = filters.last_update()
                found.append(np.square(innovations) / variances)
        return np.array(found).reshape(-1, self.numbers.size)

    def filtered(self, means: FloatArray, covariances: FloatArray) -> FilterPass:
        """Filter from these initial means and covariances, one of each per block."""
        count, cells = self.numbers.size, len(self.steps)
        filters = self._begun(means, covariances)
        passed = FilterPass(
            np.empty((cells, SIZE + 1, count)),
            np.empty((cells, SIZE + 1, count)),
            np.zeros((cells, count)),
            np.ones((cells, count)),
            np.zeros((cells, SIZE, count)),
        )
        done = self._filter(filters, self.steps, self._noisy, self._which, passed)
        for cell, step in enumerate(done):
            if step.measured is not None:
                passed.innovations[cell], passed.variances[cell], passed.gains[cell] = (
                    filters.last_update()
                )
        return passed

    def growth(self, step: CellStep) -> FloatArray:
        """What a unit of level and of swing adds to the sums over a cell, and the swing's decay."""
        over = self._over(step, self._which)
        return np.stack((over.growth[0, 0], over.growth[1, 0], over.decay[SWING, LEVEL]))

    def _over(self, step: CellStep, columns: IntArray) -> StateTransition:
        """The transition over a cell, of the profile of each column: cells of one width are one."""
        key = step.widths.tobytes()  # as many as there are columns
        if key not in self._transitions:
            widths: IntArray = np.empty(len(self.profiles), dtype=np.int64)
            widths[columns] = step.widths
            pairs: dict[tuple[int, int], int] = {}
            each = zip(self._model_of.tolist(), widths.tolist(), strict=True)
            profiles = [pairs.setdefault(pair, len(pairs)) for pair in each]
            every = [transition_of(self._models[model], width) for model, width in pairs]
            self._transitions[key] = side_by_side(every, np.array(profiles)[columns])
        return self._transitions[key]

    def _begun(self, means: FloatArray, covariances: FloatArray) -> KalmanFilters:
        filters = self._filters(self._which)
        filters.mean[HANDED_ON] = means.T
        for row, known in zip(HANDED_ON, covariances.transpose(1, 2, 0), strict=True):
            filters.covariance[row, HANDED_ON] = known
        return filters

    def _filters(self, columns: IntArray) -> KalmanFilters:
        every = zip(*(one.parts for one in self._models), strict=True)
        models = self._model_of[columns]
        kind = WideKalmanFilters if columns.size > _WIDE else KalmanFilters
        filters = kind(Models(*(np.concatenate(part)[models] for part in every)))
        filters.augmented.fill(0.0)
        return filters

    def _filter(
        self,
        filters: KalmanFilters,
        steps: Sequence[CellStep],
        noisy: FloatArray,
        columns: IntArray,
        passed: FilterPass | None,
    ) -> Iterator[CellStep]:
        """Predict and update from cell to cell; yields each step after it was made."""
        leaves = iter(noisy)
        for cell, step in enumerate(steps):
            if step.opened is not None:
                filters.open_leaf(step.opened)
            filters.predict(self._over(step, columns))
            if passed is not None:
                passed.sum_rows[cell] = filters.augmented[SUM]
                passed.level_rows[cell] = filters.augmented[LEVEL]
            if step.measured is not None:
                narrow, contrast = _direction_of(step.measured), step.measured.contrast
                filters.update_along(narrow[:, np.newaxis], narrow, contrast, next(leaves))
            yield step


def _direction_of(leaves: Leaves) -> FloatArray:
    """The two entries of h that are not 0."""
    return np.stack((1.0 - leaves.share, leaves.share))


def block_batches(blocks: Sequence[MeasuredBlock], ones: Sequence[Models]) -> list[BlockBatch]:
    """All blocks in batches of one kind: cut into the same cells, and come as far.

    How many values their last cells have may differ.

    `ones` has the model of each block.
    """
    kinds: dict[object, list[int]] = {}
    for number, block in enumerate(blocks):
        tree = block.cells.tree
        begun = bisect_left(block.cells.edges, block.end - block.start)
        kind = tree.length, tree.nodes, tree.used, begun, block.sums.size
        kinds.setdefault(kind, []).append(number)
    return [
        BlockBatch(same, [blocks[number] for number in same], [ones[number] for number in same])
        for same in kinds.values()
    ]
