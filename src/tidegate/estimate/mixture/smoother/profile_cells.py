"""`ProfileCells`: covariances inside a block that begins in a known state, for every profile.

Adjoints go backward through the cells. The closed-loop transition C of a cell is an update,
I − K·hᵀ with the closed leaf set to 0, and F. h has two entries, F adds three rows and mixes two:
written out, a step of the adjoints takes a quarter of the products of 6×6 matrices. SUM is never
measured: its row and column of Λ are 0, and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tidegate.estimate.mixture.kalman_filter import state_space_models as entry
from tidegate.estimate.mixture.smoother.block_batches import BlockBatch
from tidegate.estimate.mixture.smoother.cell_updates import CellUpdates
from tidegate.lattice import FloatArray

# Rows of the adjoints: the state without SUM. Columns: Λ; then C of all that follows in the block,
# transposed: how the running sum, the level and the swing after the block depend on it.
_LEAF, _INNER, _LEVEL, _SWING, _OUTER = (
    row - 1 for row in (entry.LEAF, entry.INNER, entry.LEVEL, entry.SWING, entry.OUTER)
)
_ROWS = entry.SIZE - 1
_AFTER = slice(_ROWS, _ROWS + 3)
_SUM_AFTER, _LEVEL_AFTER, _SWING_AFTER = range(_AFTER.start, _AFTER.stop)
_COLUMNS = _AFTER.stop


class ProfileCells(NamedTuple):
    """The cells of each profile, in the last axis; S is the running sum at the end of a cell.

    Attributes:
        rows: the row of P of S, given what was released up to there.
        ends: (I − Λ·P)·e_sum.
        own: variance of S.
        leaving: covariances of S with the sum, the level and the swing after the block.
        arriving: what a unit of level and of swing before the block adds to S.
        updates, entries: what C consists of.
    """

    rows: FloatArray
    ends: FloatArray
    own: FloatArray
    leaving: FloatArray
    arriving: FloatArray
    updates: CellUpdates
    entries: FloatArray

    @classmethod
    def of(cls, batches: Sequence[BlockBatch]) -> ProfileCells:
        """The cells of all batches: those of the first profile, then of the second, and so on."""
        every = [_cells_of_profiles(batch) for batch in batches]
        rows, ends, own, leaving, arriving, updates, entries = zip(*every, strict=True)
        measured, shares, gains = zip(*updates, strict=True)
        joined = CellUpdates(
            np.concatenate(measured), _joined_profiles(shares), _joined_profiles(gains)
        )
        sums = _joined_profiles(rows), _joined_profiles(ends), _joined_profiles(own)
        return cls(
            *sums,
            _joined_profiles(leaving),
            _joined_profiles(arriving),
            joined,
            _joined_profiles(entries),
        )


def _joined_profiles(parts: Sequence[FloatArray]) -> FloatArray:
    return np.concatenate(parts, axis=-1)


class ProfileEntries(NamedTuple):
    """The entries of F over one cell, with the opening of its leaf: one for each profile.

    Attributes:
        opening: what is left of the inner and of the outer noise, and what the outer hands to the
            inner one; None: no leaf opens.
        length, swing_sum: what a unit of level and of swing adds to the sums.
        decay: of the swing.
    """

    opening: tuple[FloatArray, FloatArray, FloatArray] | None
    length: FloatArray
    swing_sum: FloatArray
    decay: FloatArray


def _cells_of_profiles(batch: BlockBatch) -> ProfileCells:
    """The cells given the state at which a block begins, and the measured leaves in it."""
    passed, entries = batch.passed, batch.entries
    adjoints = _profile_adjoints_backward(batch)
    rows = passed.sum_rows[:, 1:]
    told = _contracted_profiles(adjoints[:, :, :_ROWS].transpose(0, 2, 1, 3), rows)  # Λ·P·e_sum
    ends: FloatArray = np.empty_like(passed.sum_rows)
    ends[:, entry.SUM], ends[:, 1:] = 1.0, -told
    own = passed.sum_rows[:, entry.SUM] - _inner_of_profile_cells(rows, told)
    leaving = _contracted_profiles(adjoints[:, :, _AFTER], rows)
    leaving[:, 0] += passed.sum_rows[:, entry.SUM]
    arriving = _contracted_profiles(batch.responses, ends)
    return ProfileCells(
        _flat_profiles(passed.sum_rows),
        _flat_profiles(ends),
        _flat_profiles(own[:, np.newaxis])[0],
        _flat_profiles(leaving),
        _flat_profiles(arriving),
        CellUpdates.of_profiles(batch, _flat_profiles(passed.gains)),
        _flat_profiles(entries),
    )


def _flat_profiles(parts: FloatArray) -> FloatArray:
    """Reshape cells × numbers × profiles to numbers × (cells of one profile after the other)."""
    return parts.transpose(1, 2, 0).reshape(parts.shape[1], -1)


def _contracted_profiles(columns: FloatArray, vectors: FloatArray) -> FloatArray:
    """Columns (cells, rows, columns, …) times vectors (cells, rows, …), over the rows."""
    total: FloatArray = columns[:, 0] * vectors[:, 0, np.newaxis]
    for row in range(1, vectors.shape[1]):
        total += columns[:, row] * vectors[:, row, np.newaxis]
    return total


def _inner_of_profile_cells(one: FloatArray, other: FloatArray) -> FloatArray:
    """Inner products over the second axis, summed in a fixed order."""
    total: FloatArray = one[:, 0] * other[:, 0]
    for row in range(1, one.shape[1]):
        total += one[:, row] * other[:, row]
    return total


def _profile_adjoints_backward(batch: BlockBatch) -> FloatArray:
    """The adjoints at every cell, with no information after the block."""
    profiles, cells, passed = len(batch.profiles), len(batch.steps), batch.passed
    entries = [
        ProfileEntries(None if step.opened is None else (one[0], one[1], one[2]), *one[3:])
        for step, one in zip(batch.steps, batch.entries, strict=True)
    ]
    found: FloatArray = np.empty((cells, _ROWS, _COLUMNS, profiles))
    adjoint: FloatArray = np.zeros((_ROWS, _COLUMNS, profiles))
    adjoint[_LEVEL, _LEVEL_AFTER] = adjoint[_SWING, _SWING_AFTER] = 1.0
    for cell in range(cells - 1, -1, -1):
        if cell < cells - 1:
            _profile_adjoint_of_transition(adjoint, entries[cell + 1])
        leaf = batch.steps[cell].measured
        if leaf is not None:
            _profile_adjoint_of_update(
                adjoint, leaf.share, passed.gains[cell], passed.variances[cell]
            )
        found[cell] = adjoint
    return found


def _profile_adjoint_of_transition(adjoint: FloatArray, over: ProfileEntries) -> None:
    """Fᵀ·[Λ | …], and Λ·F."""
    grown = adjoint[_LEAF] + adjoint[_INNER]
    grown[_SUM_AFTER] += 1.0  # the running sum grows, too
    _profile_adjoint_of_growth(adjoint[_LEVEL], adjoint[_SWING], grown, over)
    if over.opening is not None:
        _profile_adjoint_of_opening(adjoint[_INNER], adjoint[_OUTER], over.opening)
    columns = adjoint[:, :_ROWS]
    grown = columns[:, _LEAF] + columns[:, _INNER]
    _profile_adjoint_of_growth(columns[:, _LEVEL], columns[:, _SWING], grown, over)
    if over.opening is not None:
        _profile_adjoint_of_opening(columns[:, _INNER], columns[:, _OUTER], over.opening)


def _profile_adjoint_of_growth(
    level: FloatArray, swing: FloatArray, grown: FloatArray, over: ProfileEntries
) -> None:
    level += over.length * grown
    swing *= over.decay
    grown *= over.swing_sum
    swing += grown


def _profile_adjoint_of_opening(
    inner: FloatArray, outer: FloatArray, opening: tuple[FloatArray, FloatArray, FloatArray]
) -> None:
    kept, left, handed = opening
    outer *= left
    outer += handed * inner
    inner *= kept


def _profile_adjoint_of_update(
    adjoint: FloatArray,
    share: FloatArray,
    gains: FloatArray,
    variances: FloatArray,
) -> None:
    """Uᵀ·[Λ | …] and Λ·U for U = I − K·hᵀ with the row of the closed leaf 0; and h·hᵀ/s.

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
