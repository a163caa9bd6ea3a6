"""Gaussian beliefs of several models side by side, updated cell by cell and leaf by leaf.

A belief is about six numbers: the running sum, from its beginning or above its own mean over the
past (`fade`); the sum of the open leaf; that sum plus the noise left in the open inner node of the
tree (`noise_path`); the level; the swing; and the noise left in the open outer node. A leaf's
measurement is (1 − share)·LEAF + share·INNER plus a contrast, and takes itself from INNER: leaf sum
+ noise left − (leaf sum + leaf's noise). Every step is a few elementwise operations on arrays with
one entry per model, in a fixed order: no linear-algebra library takes part, and no exp or log but
those of `elementary`, so that all machines agree on every bit.
"""

from __future__ import annotations

from copy import copy

import numpy as np
from numpy.typing import NDArray

from tidegate.estimate.mixture.leaf_noise import Leaf
from tidegate.estimate.mixture.models import LEVEL_MEAN, LEVEL_VARIANCE, Models
from tidegate.estimate.mixture.portable_math import NOTHING, exp, expm1, halved
from tidegate.lattice import FloatArray

# Those that move together lie side by side: one operation for all.
SUM, LEAF, INNER, LEVEL, SWING, OUTER = range(6)
SIZE = 6
# A weight goes as exp(−misses/2): it is halved whenever the misses grow by this, 2·ln 2.
MISSES_PER_HALVING = 1.3862943611198906
# Numbers as arrays without dimensions: numpy takes them faster.
_PER_HALVING, _HALF = np.array(MISSES_PER_HALVING), np.array(0.5)

# Which row of what a move adds (`Beliefs._step`) goes to which entry of the table: to the rows that
# move what their column's entry says, then to the columns that move what their row's entry says.
_STEPS, _NO_STEP = SIZE + 1, SIZE + 1 + SIZE
_MOVES = np.array(
    [column if row < LEVEL else _NO_STEP for row in range(SIZE) for column in range(SIZE + 1)]
    + [
        _STEPS + row if column < LEVEL else _NO_STEP
        for row in range(SIZE)
        for column in range(SIZE + 1)
    ]
)
_THRICE = np.repeat((LEVEL, SWING), LEVEL)
# The rows whose products correct the table: of the measured direction, then of the gain.
_PAIRS = np.array(
    [row for row in range(SIZE) for _ in range(SIZE + 1)]
    + [SIZE + 1 + column for _ in range(SIZE) for column in range(SIZE + 1)]
)
_ONE_FOR_ALL = np.zeros(SIZE + 1, dtype=np.intp)
_add, _subtract, _multiply, _divide = np.add, np.subtract, np.multiply, np.divide

Weights = list[tuple[int, float]]  # (model, probability)


class Cell:
    """How the belief moves over one cell of `length` values (one length, or one per model)."""

    def __init__(self, models: Models, length: float | FloatArray) -> None:
        lengths: FloatArray = np.broadcast_to(np.float64(length), models.walk.shape)
        swings = models.variance > 0
        relaxation, variance = models.relaxation[swings], models.variance[swings]
        rate = lengths[swings] / relaxation
        gone = -expm1(-rate)
        # What one unit of swing at the start adds to the sum, and the joint variance of the sum and
        # the swing at the end: the integral of an Ornstein-Uhlenbeck process.
        reach = relaxation * gone
        integral = 2 * variance * relaxation**2 * (rate - gone)
        self.length = lengths
        self.keep = np.ones(models.count)
        self.reach, own, both = (np.zeros(models.count) for _ in range(3))
        self.keep[swings] = exp(-rate)
        self.reach[swings] = reach
        own[swings] = np.maximum(integral - variance * reach**2, 0.0)
        both[swings] = variance * reach * (1 - self.keep[swings])
        # The level counts as it is in the middle of the cell: half a step before, half after.
        half = models.walk * lengths / 2
        added: FloatArray = np.zeros((SIZE, SIZE + 1, models.count))  # nothing to the mean
        for row in (SUM, LEAF, INNER):
            for column in (SUM, LEAF, INNER):
                added[row, column] = half * lengths**2 + own + lengths * models.scatter
            added[row, LEVEL] = added[LEVEL, row] = half * lengths
            added[row, SWING] = added[SWING, row] = both
        added[LEVEL, LEVEL] = 2 * half
        added[SWING, SWING] = models.variance * (1 - self.keep**2)
        self.added = added
        # Written out in full: at this size one pass over a table costs less than broadcasting.
        self.kept: FloatArray = np.ones((SIZE, SIZE + 1, models.count))
        self.kept[SWING] *= self.keep
        self.kept[:, SWING] *= self.keep
        self.kept_swing = float(self.keep[0])
        self.width, self.reaching = float(lengths[0]), self.reach.tolist()
        # What level and swing add to the sum, for every entry of their rows, and once for each.
        each = np.stack((lengths, self.reach))
        self.thrice: FloatArray = np.repeat(each, LEVEL, axis=0)
        self.moves: FloatArray = np.repeat(each[:, np.newaxis], SIZE + 1, axis=1)

    def repeated(self, count: int) -> Cell:
        """The same, side by side: for as many models, all like the one of this cell."""
        found = copy(self)
        for name, part in vars(self).items():
            if isinstance(part, np.ndarray):
                setattr(found, name, np.repeat(part, count, axis=-1))
        found.reaching = self.reaching * count
        return found


class Beliefs:
    """Mean and covariance per model, and how well each has predicted so far.

    `table` holds the covariance and, as its last column, the mean: moving and conditioning do the
    same to both. How well a model has predicted is Σ miss²/variance (`misses`) and Π variance,
    which is kept as `spread`·2^`doublings`.
    """

    def __init__(self, models: Models) -> None:
        count = models.count
        self.table: FloatArray = np.zeros((SIZE, SIZE + 1, count))
        self.mean: FloatArray = self.table[:, SIZE]
        self.covariance: FloatArray = self.table[:, :SIZE]
        self.misses: FloatArray = np.zeros(count)
        self.spread: FloatArray = np.ones(count)
        self.doublings: NDArray[np.int32] = np.zeros(count, dtype=np.int32)
        self.mean[LEVEL] = LEVEL_MEAN
        self.covariance[LEVEL, LEVEL] = LEVEL_VARIANCE
        self.covariance[SWING, SWING] = models.variance
        # Views and scratch, made once: at this size making them costs more than the arithmetic. For
        # the same reason rows are copied out (`take`) to where they are needed: broadcasting would
        # cost several times as much.
        self._rows = list(self.table)
        self._columns = [self.table[:, column] for column in range(SIZE)]
        self._means = list(self.mean)
        self._pairs: FloatArray = np.empty((2, SIZE, SIZE + 1, count))
        self._pair_rows = self._pairs.reshape(-1, count)
        self._first, self._second = self._pairs
        self._moved_by = self.table[LEVEL : SWING + 1]
        self._parts: FloatArray = np.empty((2, SIZE + 1, count))
        self._part, self._other_part = self._parts
        # A step, the same for the columns, and one that is none.
        self._step: FloatArray = np.zeros((2 * SIZE + 2, count))
        self._row_step, self._column_step = self._step[:_STEPS], self._step[_STEPS:_NO_STEP]
        self._moving_step = self._column_step[:LEVEL]
        self._own: FloatArray = np.empty((2 * LEVEL, count))
        self._own_level, self._own_swing = self._own[:LEVEL], self._own[LEVEL:]
        self._measured_by = self.table[LEAF : INNER + 1]
        self._shares: dict[float, tuple[FloatArray, FloatArray]] = {}
        self._seen: FloatArray = np.empty((2 * (SIZE + 1), count))
        self._along, self._gain = self._seen[: SIZE + 1], self._seen[SIZE + 1 :]
        self._along_measured = self._along[LEAF : INNER + 1]
        self._missed, self._gain_missed = self._along[SIZE], self._gain[SIZE]
        self._terms: FloatArray = np.empty((2, count))
        self._leaf_term, self._inner_term = self._terms
        self._variances: FloatArray = np.ones((1, count))
        self._variance = self._variances[0]
        self._squares: FloatArray = np.empty(count)
        self._halves: FloatArray = np.empty(count)
        self._roots: FloatArray = np.empty(count)
        self._exponents = np.zeros_like(self.doublings)

    def halvings(self) -> list[float]:
        """How many times a model's weight is halved, up to a constant, `spread` left aside."""
        _divide(self.misses, _PER_HALVING, self._squares)
        _multiply(self.doublings, _HALF, self._halves)
        _add(self._squares, self._halves, self._halves)
        found: list[float] = self._halves.tolist()
        return found

    def weights(self) -> Weights:
        """Posterior probabilities of the models that have any."""
        halvings, roots = self.halvings(), np.sqrt(self.spread, self._roots).tolist()
        least = min(halvings)
        most = least + NOTHING
        found, total = [], 0.0
        for model, times in enumerate(halvings):
            if times < most:
                weight = halved(times - least) / roots[model]
                found.append((model, weight))
                total += weight
        return [(model, weight / total) for model, weight in found]

    def forecast(self, cell: Cell, weights: Weights) -> float:
        """Expected sum over the next cell."""
        levels, swings = self._means[LEVEL].tolist(), self._means[SWING].tolist()
        total = 0.0
        for model, weight in weights:
            total += weight * (cell.width * levels[model] + cell.reaching[model] * swings[model])
        return total

    def running(self, weights: Weights) -> float:
        """Expected running sum."""
        return mixed(weights, self._means[SUM].tolist())

    def count_from(self, amount: float) -> None:
        """So much of the running sum was published: the rest counts from there."""
        running = self._means[SUM]
        _subtract(running, np.array(amount), running)

    def advance(self, cell: Cell) -> None:
        """Over one cell, of which nothing is measured yet."""
        table, step, own = self.table, self._row_step, self._own
        _multiply(self._moved_by, cell.moves, self._parts)
        _add(self._part, self._other_part, step)
        # The same to the columns; by symmetry they move by the same step, and where both the row
        # and the column move, by its own step too.
        self._column_step[:] = step[:SIZE]
        step.take(_THRICE, 0, own, "clip")
        _multiply(own, cell.thrice, own)
        _add(self._own_level, self._own_swing, self._own_level)
        _add(self._moving_step, self._own_level, self._moving_step)
        self._step.take(_MOVES, 0, self._pair_rows, "clip")
        _add(table, self._first, table)
        _add(table, self._second, table)
        _multiply(table, cell.kept, table)
        _add(table, cell.added, table)

    def fade(self, part: float) -> None:
        """The mean over the past, from which the running sum counts, moves towards it by this part.

        With t values behind and w more to come, w/(t + w): they count as what they begin with.
        """
        row, column, kept = self._rows[SUM], self._columns[SUM], np.array(1.0 - part)
        _multiply(row, kept, row)
        _multiply(column, kept, column)

    def unsettle(self, share: float) -> None:
        """The cap changed, and may have moved the level by about this share of it."""
        self.covariance[LEVEL, LEVEL] += (share * self.mean[LEVEL]) ** 2

    def open_leaf(self, leaf: Leaf) -> None:
        """Noise of the nodes that begin with this leaf."""
        if leaf.inner is None:
            return
        rows, columns, share = self._rows, self._columns, leaf.inner_share
        if leaf.outer is not None:
            rows[OUTER].fill(0.0)
            columns[OUTER].fill(0.0)
            self.covariance[OUTER, OUTER] = leaf.outer
        _multiply(rows[OUTER], share, rows[INNER])
        _multiply(columns[OUTER], share, columns[INNER])
        self.covariance[INNER, INNER] = share * share * self.covariance[OUTER, OUTER] + leaf.inner
        if share:
            rows[OUTER] -= rows[INNER]
            columns[OUTER] -= columns[INNER]

    def measure(self, leaf: Leaf, noisy: float | FloatArray | None) -> None:
        """The leaf is complete and its noisy sum known; None: covariances only.

        (The same sum for all, or one for each where the same model sees several streams.)
        """
        table, along, gain, missed = self.table, self._along, self._gain, self._missed
        variance = self._variance
        wide, narrow = self._shares.get(leaf.share) or self._sharing(leaf.share)
        _multiply(self._measured_by, wide, self._parts)
        _add(self._other_part, self._part, along)
        _multiply(self._along_measured, narrow, self._terms)
        _add(self._inner_term, self._leaf_term, variance)
        _add(variance, leaf.contrast, variance)
        if noisy is not None:
            taken = np.array(noisy)
            _subtract(missed, taken, missed)  # the mean's column: by how much it was too high
            inner = self._means[INNER]
            _subtract(inner, taken, inner)
        self._variances.take(_ONE_FOR_ALL, 0, gain, "clip")
        _divide(along, gain, gain)
        self._seen.take(_PAIRS, 0, self._pair_rows, "clip")
        _multiply(self._first, self._second, self._first)
        _subtract(table, self._first, table)
        if noisy is not None:
            _multiply(missed, self._gain_missed, self._squares)
            _add(self.misses, self._squares, self.misses)
            _multiply(self.spread, variance, self.spread)
            np.frexp(self.spread, self.spread, self._exponents)
            _add(self.doublings, self._exponents, self.doublings)
        self._rows[LEAF].fill(0.0)
        self._columns[LEAF].fill(0.0)

    def _sharing(self, share: float) -> tuple[FloatArray, FloatArray]:
        """What the leaf's and the inner node's row count in a measurement, for every entry."""
        if len(self._shares) > 64:  # a tree has few; do not gather for ever
            self._shares.clear()
        narrow = np.repeat([[1.0 - share], [share]], self.misses.size, axis=1)
        found = np.repeat(narrow[:, np.newaxis], SIZE + 1, axis=1), narrow
        self._shares[share] = found
        return found

    def last_measurement(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """By how much each model missed, the variance of that, and the gains."""
        return -self._missed, self._variance, self._gain[:SIZE]


def mixed(weights: Weights, values: list[float]) -> float:
    """Weighted mean, summed in a fixed order."""
    total = 0.0
    for model, weight in weights:
        total += weight * values[model]
    return total
