"""`SmoothedCells`: adjoints backward and forward through the cells of blocks of one kind.

The closed-loop transition C of a cell is an update, I − K·hᵀ with the closed leaf set to 0, and F
(`cell_covariances`). h has two entries, F adds three rows and mixes two: written out, a step
of the adjoints takes a quarter of the products of 6×6 matrices. SUM is never measured: its row and
column of Λ are 0, and are left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.estimate.mixture.kalman_filter import state_space_models as entry
from tidegate.estimate.mixture.smoother.block_batches import BlockBatch, FilterPass
from tidegate.lattice import FloatArray

# Rows of the adjoints: the state without SUM. Columns: Λ; λ; then C of all that follows in the
# block, transposed: how the running sum, the level and the swing after the block depend on it.
_LEAF, _INNER, _LEVEL, _SWING, _OUTER = (
    row - 1 for row in (entry.LEAF, entry.INNER, entry.LEVEL, entry.SWING, entry.OUTER)
)
_ROWS = entry.SIZE - 1
_LAMBDA, _AFTER = _ROWS, slice(_ROWS + 1, _ROWS + 4)
_SUM_AFTER, _LEVEL_AFTER, _SWING_AFTER = range(_AFTER.start, _AFTER.stop)
_COLUMNS = _AFTER.stop


class SmoothedCells(NamedTuple):
    """Of blocks of one kind; the last two axes are cells and blocks, but in `across`.

    Attributes:
        sums, levels: m − P·λ, of the running sum and of the level.
        own: posterior variance of the running sum.
        ends: (I − Λ·P)·e_sum.
        leaving: covariances of the running sum at a cell with the sum, the level and the swing
            after the block, given what was released up to there.
        arriving: what a unit of level and of swing before the block adds to the smoothed sum.
        across: from the sum, the level and the swing before the block to those after it.
    """

    sums: FloatArray
    levels: FloatArray
    own: FloatArray
    ends: FloatArray
    leaving: FloatArray
    arriving: FloatArray
    across: FloatArray


class Entries(NamedTuple):
    """What F of one cell consists of, with the opening of its leaf: a number for each block.

    Attributes:
        inner, outer, handed: what is left of the inner and of the outer noise, and what the outer
            hands to the inner one; None: no leaf opens.
        length, swing_sum: what a unit of level and of swing adds to the sums.
        decay: of the swing.
    """

    opening: tuple[FloatArray, FloatArray, FloatArray] | None
    length: FloatArray
    swing_sum: FloatArray
    decay: FloatArray


def smoothed_cells(
    batch: BlockBatch, passed: FilterPass, after: FloatArray, entries: FloatArray
) -> SmoothedCells:
    """What is known about every cell, given everything.

    Args:
        batch: the blocks.
        passed: what the filter computed there.
        after: Λ and λ of the level and the swing where the blocks end.
        entries: of F, by cell and block (`cell_covariances.transition_entries`).
    """
    every = [
        Entries(None if step.opened is None else (one[0], one[1], one[2]), *one[3:])
        for step, one in zip(batch.steps, entries, strict=True)
    ]
    adjoints, first = _adjoints_backward(batch, passed, after, every)
    rows = passed.sum_rows[:, 1 : entry.SIZE]
    told = _contracted(adjoints[:, :, :_ROWS].transpose(0, 2, 1, 3), rows)  # Λ·P·e_sum
    ends: FloatArray = np.empty_like(passed.sum_rows[:, : entry.SIZE])
    ends[:, entry.SUM], ends[:, 1:] = 1.0, -told
    own = passed.sum_rows[:, entry.SUM] - _inner(rows, told)
    vectors = adjoints[:, :, _LAMBDA]
    sums = passed.sum_rows[:, entry.SIZE] - _inner(rows, vectors)
    levels = passed.level_rows[:, entry.SIZE]
    levels = levels - _inner(passed.level_rows[:, 1 : entry.SIZE], vectors)
    leaving = _contracted(adjoints[:, :, _AFTER], rows)
    leaving[:, 0] += passed.sum_rows[:, entry.SUM]
    across: FloatArray = np.zeros((3, 3, first.shape[-1]))
    across[0, 0] = 1.0
    across[:, 1], across[:, 2] = first[_LEVEL, _AFTER], first[_SWING, _AFTER]
    return SmoothedCells(
        sums,
        levels,
        own,
        ends.transpose(1, 0, 2),
        leaving.transpose(1, 0, 2),
        _arriving_at_cells(batch, passed, every, ends).transpose(1, 0, 2),
        across,
    )


def _contracted(columns: FloatArray, vectors: FloatArray) -> FloatArray:
    """Columns (cells, rows, columns, blocks) times vectors (cells, rows, blocks), over the rows."""
    total: FloatArray = columns[:, 0] * vectors[:, 0, np.newaxis]
    for row in range(1, vectors.shape[1]):
        total += columns[:, row] * vectors[:, row, np.newaxis]
    return total


def _inner(one: FloatArray, other: FloatArray) -> FloatArray:
    """Inner products over the second axis, term after term."""
    total: FloatArray = one[:, 0] * other[:, 0]
    for row in range(1, one.shape[1]):
        total += one[:, row] * other[:, row]
    return total


def _adjoints_backward(
    batch: BlockBatch, passed: FilterPass, after: FloatArray, entries: list[Entries]
) -> tuple[FloatArray, FloatArray]:
    """The adjoints of every cell, and what they are before the first one."""
    blocks, cells = batch.numbers.size, len(batch.steps)
    found: FloatArray = np.empty((cells, _ROWS, _COLUMNS, blocks))
    adjoint: FloatArray = np.zeros((_ROWS, _COLUMNS, blocks))
    moved = after.transpose(1, 2, 0)
    for row, known in zip((_LEVEL, _SWING), moved, strict=True):
        adjoint[row, _LEVEL], adjoint[row, _SWING], adjoint[row, _LAMBDA] = known
    adjoint[_LEVEL, _LEVEL_AFTER] = adjoint[_SWING, _SWING_AFTER] = 1.0
    for cell in range(cells - 1, -1, -1):
        if cell < cells - 1:
            _adjoint_of_transition(adjoint, entries[cell + 1])
        leaf = batch.steps[cell].measured
        if leaf is not None:
            update = passed.gains[cell], passed.variances[cell], passed.innovations[cell]
            _adjoint_of_update(adjoint, leaf.share, *update)
        found[cell] = adjoint
    _adjoint_of_transition(adjoint, entries[0])
    return found, adjoint


def _adjoint_of_transition(adjoint: FloatArray, over: Entries) -> None:
    """Fᵀ·[Λ | …], and Λ·F."""
    grown = adjoint[_LEAF] + adjoint[_INNER]
    grown[_SUM_AFTER] += 1.0  # the running sum grows, too
    _adjoint_of_growth(adjoint[_LEVEL], adjoint[_SWING], grown, over)
    if over.opening is not None:
        _adjoint_of_opening(adjoint[_INNER], adjoint[_OUTER], over.opening)
    columns = adjoint[:, :_ROWS]
    grown = columns[:, _LEAF] + columns[:, _INNER]
    _adjoint_of_growth(columns[:, _LEVEL], columns[:, _SWING], grown, over)
    if over.opening is not None:
        _adjoint_of_opening(columns[:, _INNER], columns[:, _OUTER], over.opening)


def _adjoint_of_growth(
    level: FloatArray, swing: FloatArray, grown: FloatArray, over: Entries
) -> None:
    level += over.length * grown
    swing *= over.decay
    grown *= over.swing_sum
    swing += grown


def _adjoint_of_opening(
    inner: FloatArray, outer: FloatArray, opening: tuple[FloatArray, FloatArray, FloatArray]
) -> None:
    kept, left, handed = opening
    outer *= left
    outer += handed * inner
    inner *= kept


def _adjoint_of_update(
    adjoint: FloatArray,
    share: FloatArray,
    gains: FloatArray,
    variances: FloatArray,
    innovations: FloatArray,
) -> None:
    """Uᵀ·[Λ | …] and Λ·U for U = I − K·hᵀ with the row of the closed leaf 0; and h·hᵀ/s, −h·e/s.

    With w = Λ·K, the product of Λ is Λ − h·wᵀ − w·hᵀ + (Kᵀ·w + 1/s)·h·hᵀ: the last term is halved,
    and put into both others.
    """
    adjoint[_LEAF] = 0.0
    adjoint[:, _LEAF] = 0.0
    told = gains[1:, np.newaxis] * adjoint
    met: FloatArray = told[_INNER] + told[_LEVEL]
    met += told[_SWING]
    met += told[_OUTER]
    met[_SUM_AFTER] += gains[entry.SUM]
    met[_LAMBDA] += innovations / variances
    half = met[_INNER] * gains[entry.INNER] + met[_LEVEL] * gains[entry.LEVEL]
    half += met[_SWING] * gains[entry.SWING]
    half += met[_OUTER] * gains[entry.OUTER]
    half += 1.0 / variances
    half *= 0.5
    rest = 1.0 - share
    met[_LEAF] -= half * rest
    met[_INNER] -= half * share
    by_leaf, by_inner = rest * met, share * met
    adjoint[_LEAF] -= by_leaf
    adjoint[_INNER] -= by_inner
    adjoint[:, _LEAF] -= by_leaf[:_ROWS]
    adjoint[:, _INNER] -= by_inner[:_ROWS]


def _arriving_at_cells(
    batch: BlockBatch, passed: FilterPass, entries: list[Entries], ends: FloatArray
) -> FloatArray:
    """What a unit of level and of swing before the block adds to the smoothed sums."""
    blocks, cells = batch.numbers.size, len(batch.steps)
    state: FloatArray = np.zeros((entry.SIZE, 2, blocks))
    state[entry.LEVEL, 0] = state[entry.SWING, 1] = 1.0
    every: FloatArray = np.empty((cells, entry.SIZE, 2, blocks))
    for cell, (step, over) in enumerate(zip(batch.steps, entries, strict=True)):
        if over.opening is not None:
            kept, left, handed = over.opening
            state[entry.INNER] *= kept
            state[entry.INNER] += handed * state[entry.OUTER]
            state[entry.OUTER] *= left
        growth = over.length * state[entry.LEVEL]
        growth += over.swing_sum * state[entry.SWING]
        state[: entry.GROWING] += growth
        state[entry.SWING] *= over.decay
        every[cell] = state
        if step.measured is not None:
            share = step.measured.share
            seen = (1.0 - share) * state[entry.LEAF]
            seen += share * state[entry.INNER]
            state -= passed.gains[cell][:, np.newaxis] * seen
            state[entry.LEAF] = 0.0
    return _contracted(every, ends)
