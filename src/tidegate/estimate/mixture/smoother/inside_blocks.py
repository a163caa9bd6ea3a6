"""Smoothing inside blocks, given the states at which they begin and end.

Means by the adjoints of the Bryson-Frazier smoother (`forward_backward_passes`). Given the state in
which a block begins, gains and covariances are those of its profile, and the posterior mean is
linear in that state: with its own posterior mean put in, it is the mean given everything. λ after
the block is the same with and without the beginning known: the slope of what later blocks tell.
"""

from __future__ import annotations

import numpy as np

from tidegate.estimate.mixture.kalman_filter import state_space_models as entry
from tidegate.estimate.mixture.smoother.block_batches import BlockBatch
from tidegate.lattice import FloatArray


def distances_inside_blocks(
    batch: BlockBatch, means: FloatArray, covariances: FloatArray
) -> FloatArray:
    """e²/s of every leaf, a column for each block, from this mean and covariance at its beginning.

    Given the level and the swing x in which a block begins, innovations are e₀ − c·x, of
    variance s₀: recursive least squares for x gives e and s.
    """
    level, swing = means[:, 1:].T.copy()
    (p, q), (_, r) = covariances[:, 1:, 1:].transpose(1, 2, 0).copy()
    known = [cell for cell, step in enumerate(batch.steps) if step.measured is not None]
    found: FloatArray = np.empty_like(batch.innovations)
    every = zip(known, batch.innovations, batch.changes, found, strict=True)
    for cell, innovations, changes, squares in every:
        by_level, by_swing = changes[:, batch.which]
        missed = innovations - by_level * level - by_swing * swing
        with_level = p * by_level + q * by_swing
        with_swing = q * by_level + r * by_swing
        variances = batch.passed.variances[cell][batch.which]
        variances += by_level * with_level + by_swing * with_swing
        gain, other = with_level / variances, with_swing / variances
        level += gain * missed
        swing += other * missed
        p -= gain * with_level
        q -= gain * with_swing
        r -= other * with_swing
        np.divide(missed * missed, variances, squares)
    return found


def smoothed_inside_blocks(
    batch: BlockBatch, begun: FloatArray, after: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Posterior means of running sums and levels at every cell, a column for each block.

    Args:
        begun: posterior mean of the running sum, the level and the swing before the block.
        after: λ of the level and the swing where it ends.
    """
    which, (before, level, swing) = batch.which, begun
    leaf, adjoint = len(batch.innovations), np.zeros((entry.SIZE, batch.numbers.size))
    adjoint[entry.LEVEL], adjoint[entry.SWING] = after
    sums, levels = found = np.empty((2, len(batch.steps), which.size))
    for cell in range(len(batch.steps) - 1, -1, -1):
        if cell < len(batch.steps) - 1:
            _adjoint_inside_cell(adjoint, batch.entries[cell + 1].take(which, 1))
        measured = batch.steps[cell].measured
        if measured is not None:
            leaf -= 1
            by_level, by_swing = batch.changes[leaf].take(which, 1)
            missed = batch.innovations[leaf] - by_level * level - by_swing * swing
            gains, share = batch.passed.gains[cell].take(which, 1), measured.share[which]
            _adjoint_inside_leaf(
                adjoint, gains, share, missed / batch.passed.variances[cell][which]
            )
        rows = (batch.passed.sum_rows[cell], batch.passed.level_rows[cell])
        answered = zip(
            found, batch.sums_and_levels[cell], (entry.SUM, entry.LEVEL), rows, strict=True
        )
        for of, own, row, covariances in answered:
            by_level, by_swing = batch.responses[cell, row].take(which, 1)
            total = own + by_level * level
            total += by_swing * swing
            for covariance, each in zip(covariances[1:].take(which, 1), adjoint[1:], strict=True):
                total -= covariance * each
            of[cell] = total
    sums += before
    return sums, levels


def _adjoint_inside_cell(adjoint: FloatArray, entries: FloatArray) -> None:
    """Fᵀ·λ for the `entries` of F of each block."""
    kept, left, handed, length, swing_sum, decay = entries
    grown = adjoint[entry.LEAF] + adjoint[entry.INNER]
    adjoint[entry.LEVEL] += length * grown
    adjoint[entry.SWING] *= decay
    adjoint[entry.SWING] += swing_sum * grown
    adjoint[entry.OUTER] *= left
    adjoint[entry.OUTER] += handed * adjoint[entry.INNER]
    adjoint[entry.INNER] *= kept


def _adjoint_inside_leaf(
    adjoint: FloatArray, gains: FloatArray, share: FloatArray, scaled: FloatArray
) -> None:
    """Uᵀ·λ − h·e/s for U = I − K·hᵀ with the row of the closed leaf 0; `scaled` is e/s."""
    met = scaled
    for row in (entry.INNER, entry.LEVEL, entry.SWING, entry.OUTER):
        met = met + gains[row] * adjoint[row]
    inner = share * met
    adjoint[entry.LEAF] = inner - met
    adjoint[entry.INNER] -= inner
