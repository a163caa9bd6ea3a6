"""Kalman filters over many blocks at once: blocks with the same cells, of any stream.

Filters begin with a known state. Covariances, gains and responses to that state then depend on the
profile of a block alone (model, tree, θ, noise factor, length), and thousands of blocks have a few
hundred profiles: one filter for each, and means alone for each block (`FilterMeans`). That gives a
block's transition (`BatchTransition`); once `block_chain` has computed the states in which blocks
begin and end, what is known inside follows without another filter (`inside_blocks`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
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
from tidegate.estimate.mixture.kalman_filter.leaf_noise import NoisyLeaves
from tidegate.estimate.mixture.kalman_filter.state_space_models import (
    LEVEL,
    SIZE,
    SUM,
    SWING,
    Models,
    StateTransition,
    models_side_by_side,
    state_transition_of,
)
from tidegate.estimate.mixture.many_streams.wide_kalman_filters import WideKalmanFilters
from tidegate.lattice import FloatArray, IntArray

# What a block hands on to the next one: its leaves are closed, and its noise is its own.
HANDED_ON = [SUM, LEVEL, SWING]
_WIDE = 100  # filters from which on calls cost less than their numbers


@dataclass(frozen=True)
class MeasuredBlock:
    """The released data of one block: its cells, the sums of its leaves, its progress.

    `noise_factor` multiplies the variance of its coarsest nodes' noise.
    """

    start: int
    cells: BlockCells
    sums: IntArray | FloatArray
    end: int
    noise_factor: float = 1.0


class BatchTransition(NamedTuple):
    """The transition from the state x at the beginning of a block to that at its end.

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


class BatchPass(NamedTuple):
    """What the filters computed at every cell, before the update at its end.

    The first axis counts cells, the last one profiles (or blocks).
    """

    sum_rows: FloatArray  # of P, for the running sum
    level_rows: FloatArray  # the same for the level
    variances: FloatArray  # of the innovations; 1 where nothing was measured
    gains: FloatArray  # 0 where nothing was measured

    @classmethod
    def empty(cls, cells: int, count: int) -> BatchPass:
        """Empty arrays for `count` filters."""
        sums, levels = np.empty((2, cells, SIZE, count))
        return cls(sums, levels, np.ones((cells, count)), np.zeros((cells, SIZE, count)))


class BlockBatch:
    """Blocks of one kind; `numbers` are their indices, `which` the profile of each.

    They may be of different streams, thresholds and models: every column of the filters has its
    own. All is elementwise, so each block gets the bits that it would get alone.

    Args:
        numbers, which: see above.
        profiles: all that there are.
        noisy: the sums that were measured, in units of θ: a row for each leaf.
    """

    def __init__(
        self,
        numbers: IntArray,
        which: IntArray,
        profiles: Sequence[CellProfile],
        noisy: FloatArray,
    ) -> None:
        self.numbers, self.which, self.profiles, self.noisy = numbers, which, profiles, noisy
        different = {id(profile.one): profile.one for profile in profiles}
        self._models = list(different.values())
        place = {one: at for at, one in enumerate(different)}
        self._model_of: IntArray = np.array([place[id(one)] for one, *_ in profiles])
        self.steps = cell_steps_of(profiles, len(noisy))
        self._transitions: dict[bytes, StateTransition] = {}

    def transition(self) -> BatchTransition:
        """Filter from a known state of 0; two more columns begin with a level or a swing of 1.

        The filter is linear: the response to a unit state gives F, and what it changes in the
        innovations gives J = Σ c·cᵀ/s and η = Σ c·e/s, c the change of the forecast. Each profile
        has two such columns.
        """
        count, kinds, which = self.numbers.size, len(self.profiles), self.which
        every, cells = np.arange(kinds), len(self.steps)
        filters = self.filters(every)
        means = FilterMeans(np.concatenate((which, every, every)))
        levels, swings = slice(count, count + kinds), slice(count + kinds, None)
        means.values[LEVEL, levels] = means.values[SWING, swings] = 1.0
        nothing = np.zeros((len(self.noisy), 2 * kinds))
        information, hints = np.zeros((kinds, 2, 2)), np.zeros((count, 2))
        noisy = np.concatenate((self.noisy, nothing), axis=1)
        self.passed = BatchPass.empty(cells, kinds)
        self.responses: FloatArray = np.empty((cells, SIZE, 2, kinds))  # to a level, to a swing
        self.sums_and_levels: FloatArray = np.empty((cells, 2, count))
        self.innovations: FloatArray = np.empty((len(noisy), count))
        self.changes: FloatArray = np.empty((len(noisy), 2, kinds))  # c
        leaf = 0
        for cell, step in enumerate(self.steps):
            self.enter(filters, step, every, self.passed, cell)
            if step.opened is not None:
                means.open_leaf(step.opened)
            means.predict(self.over(step, every))
            self.responses[cell] = means.values[:, count:].reshape(SIZE, 2, kinds)
            self.sums_and_levels[cell] = means.values[[SUM, LEVEL], :count]
            if step.measured is None:
                continue
            narrow = batch_direction(step.measured)
            filters.update_along(narrow[:, np.newaxis], narrow, step.measured.contrast, None)
            projected, variances = filters.last_projection()
            self.passed.variances[cell], self.passed.gains[cell] = filters.last_update()[1:]
            innovations = means.update(narrow, projected, variances, noisy[leaf])
            change = -innovations[count:].reshape(2, kinds)
            self.innovations[leaf], self.changes[leaf] = innovations[:count], change
            scaled = (change / variances).T
            information += change.T[:, :, np.newaxis] * scaled[:, np.newaxis]
            hints += innovations[:count, np.newaxis] * scaled[which]
            leaf += 1
        across = np.tile(np.eye(len(HANDED_ON)), (kinds, 1, 1))
        across[:, :, 1] = means.values[HANDED_ON, levels].T
        across[:, :, 2] = means.values[HANDED_ON, swings].T
        noise = filters.covariance[HANDED_ON][:, HANDED_ON].transpose(2, 0, 1)
        shifts = means.values[HANDED_ON, :count].T
        return BatchTransition(across[which], noise[which], information[which], shifts, hints)

    @cached_property
    def entries(self) -> FloatArray:
        """The entries of F in each cell, with the opening of its leaf: six for each.

        What opening a leaf leaves of the inner and of the outer noise and hands from one to the
        other; then what a unit of level and of swing adds to the sums, and the decay of the swing.
        The first axis counts cells, the last one profiles.
        """
        found = np.empty((len(self.steps), 6, len(self.profiles)))
        every = np.arange(len(self.profiles))
        for each, step in zip(found, self.steps, strict=True):
            each[:2], each[2] = 1.0, 0.0
            opened = step.opened
            if opened is not None and opened.inner is not None:
                kept = 0.0 if opened.outer is not None else 1.0
                each[0] = 0.0
                each[1] = kept * (1.0 - opened.inner_share)
                each[2] = kept * opened.inner_share
            over = self.over(step, every)
            each[3:5], each[5] = over.growth[:, 0], over.decay[SWING, LEVEL]
        return found

    def enter(
        self, filters: KalmanFilters, step: CellStep, columns: IntArray, rows: BatchPass, cell: int
    ) -> None:
        """Open a leaf and predict over a cell; `columns` names the profile of each filter."""
        if step.opened is not None:
            filters.open_leaf(step.opened)
        filters.predict(self.over(step, columns))
        rows.sum_rows[cell] = filters.augmented[SUM, :SIZE]
        rows.level_rows[cell] = filters.augmented[LEVEL, :SIZE]

    def over(self, step: CellStep, columns: IntArray) -> StateTransition:
        """The transition over a cell for each column's profile; equal widths share one."""
        key = step.widths.tobytes()  # as many as there are columns
        if key not in self._transitions:
            widths: IntArray = np.empty(len(self.profiles), dtype=np.int64)
            widths[columns] = step.widths
            pairs: dict[tuple[int, int], int] = {}
            each = zip(self._model_of.tolist(), widths.tolist(), strict=True)
            profiles = [pairs.setdefault(pair, len(pairs)) for pair in each]
            every = [state_transition_of(self._models[model], width) for model, width in pairs]
            self._transitions[key] = models_side_by_side(every, np.array(profiles)[columns])
        return self._transitions[key]

    def filters(self, columns: IntArray) -> KalmanFilters:
        """One filter per column, of the profile that `columns` names, in a known state of 0."""
        every = zip(*(one.parts for one in self._models), strict=True)
        models = self._model_of[columns]
        kind = WideKalmanFilters if columns.size > _WIDE else KalmanFilters
        filters = kind(Models(*(np.concatenate(part)[models] for part in every)))
        filters.augmented.fill(0.0)
        return filters


def batch_direction(leaves: NoisyLeaves) -> FloatArray:
    """The two nonzero entries of h."""
    return np.stack((1.0 - leaves.share, leaves.share))


def block_batches(
    streams: Sequence[Sequence[MeasuredBlock]], ones: Sequence[Models]
) -> list[BlockBatch]:
    """Sort all blocks into batches of one kind: same cells, same progress.

    How many values their last cells have may differ. Blocks are numbered one stream after the
    other.

    Args:
        streams: the blocks of each. One list of blocks may come again with another model.
        ones: the model of each stream.
    """
    known: dict[int, int] = {}  # where the blocks of a list begin, in all that follow
    blocks: list[MeasuredBlock] = []
    for each in streams:
        if id(each) not in known:
            known[id(each)] = len(blocks)
            blocks.extend(each)
    kinds: dict[object, int] = {}
    shapes: dict[object, int] = {}
    kind_of, shape_of = np.empty((2, len(blocks)), dtype=np.int64)
    for at, block in enumerate(blocks):
        cells, length = block.cells, block.end - block.start
        tree = cells.tree
        begun = bisect_left(cells.edges, length)
        kind = tree.length, tree.nodes, tree.used, begun, block.sums.size
        kind_of[at] = kinds.setdefault(kind, len(kinds))
        shape = id(cells), block.noise_factor, length
        shape_of[at] = shapes.setdefault(shape, len(shapes))
    lengths = np.array([len(each) for each in streams], dtype=np.int64)
    begins = np.array([known[id(each)] for each in streams], dtype=np.int64)
    ends = np.cumsum(lengths)
    count = int(lengths.sum())
    of_block = np.arange(count) + np.repeat(begins - (ends - lengths), lengths)
    different = {id(one): one for one in ones}
    place = {one: at for at, one in enumerate(different)}
    models, model_of = [*different.values()], np.array([place[id(one)] for one in ones], np.int64)
    profile_of = shape_of[of_block] * len(models) + np.repeat(model_of, lengths)
    found = []
    for one_kind in range(len(kinds)):
        (mine,) = (kind_of == one_kind).nonzero()
        (numbers,) = (kind_of[of_block] == one_kind).nonzero()
        profiles, first, which = np.unique(
            profile_of[numbers], return_index=True, return_inverse=True
        )
        examples = zip(profiles.tolist(), of_block[numbers[first]].tolist(), strict=True)
        noisy = np.array([blocks[at].sums for at in mine.tolist()]).T
        noisy = noisy / np.array([blocks[at].cells.unit for at in mine.tolist()])
        found.append(
            BlockBatch(
                numbers,
                which.reshape(-1),
                [_batch_profile(models[one % len(models)], blocks[at]) for one, at in examples],
                noisy[:, np.searchsorted(mine, of_block[numbers])],
            )
        )
    return found


def _batch_profile(one: Models, block: MeasuredBlock) -> CellProfile:
    return CellProfile(one, block.cells, block.noise_factor, block.end - block.start)
