"""Gaussian beliefs of several models side by side, updated cell by cell and leaf by leaf.

A belief is about six numbers: the running sum; the sum of the open leaf; that sum plus the noise
left in the open inner node of the tree (`noise_path`); the level; the swing; and the noise left in
the open outer node. A leaf's measurement is (1 − share)·LEAF + share·INNER plus a contrast, and
takes itself from INNER: leaf sum + noise left − (leaf sum + leaf's noise). Every step is a few
elementwise operations on arrays with one entry per model, in a fixed order: no linear-algebra
library takes part, and no exp or log but those of `elementary`, so that all machines agree on
every bit.
"""

from __future__ import annotations

import math

import numpy as np

from tidegate.forecast.elementary import NOTHING, exp, expm1, halved
from tidegate.forecast.models import LEVEL_MEAN, LEVEL_VARIANCE, SCATTER, Models
from tidegate.forecast.noise_path import Leaf
from tidegate.lattice import FloatArray

# Those that move together lie side by side: one operation for all.
SUM, LEAF, INNER, LEVEL, SWING, OUTER = range(6)
SIZE = 6
# A weight goes as exp(−misses/2): it is halved whenever the misses grow by this, 2·ln 2.
MISSES_PER_HALVING = 1.3862943611198906


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
                added[row, column] = half * lengths**2 + own + lengths * SCATTER
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
        self.lengths: FloatArray = np.tile(lengths, (SIZE + 1, 1))
        self.reaches: FloatArray = np.tile(self.reach, (SIZE + 1, 1))


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
        self.doublings: FloatArray = np.zeros(count)
        self.mean[LEVEL] = LEVEL_MEAN
        self.covariance[LEVEL, LEVEL] = LEVEL_VARIANCE
        self.covariance[SWING, SWING] = models.variance
        # Views and scratch, made once: at this size making them costs more than the arithmetic.
        self._rows = list(self.table)
        self._columns = [self.table[:, column] for column in range(SIZE)]
        self._moving_columns = self.table[:, :LEVEL]
        self._step: FloatArray = np.empty((SIZE + 1, count))
        self._part: FloatArray = np.empty((SIZE + 1, count))
        self._moving_step, self._step_column = self._step[:LEVEL], self._step[:SIZE, np.newaxis]
        self._along: FloatArray = np.empty((SIZE + 1, count))
        self._along_rows, self._along_column = list(self._along), self._along[:SIZE, np.newaxis]
        self._gain: FloatArray = np.empty((SIZE + 1, count))
        self._gain_rows, self._means = list(self._gain), list(self.mean)
        self._exponents = np.zeros(count, dtype=np.int32)
        self._outer: FloatArray = np.empty((SIZE, SIZE + 1, count))
        self._variance: FloatArray = np.ones(count)

    def halvings(self) -> list[float]:
        """How many times a model's weight is halved, up to a constant, `spread` left aside."""
        pairs = zip(self.misses.tolist(), self.doublings.tolist(), strict=True)
        return [misses / MISSES_PER_HALVING + doublings * 0.5 for misses, doublings in pairs]

    def weights(self) -> Weights:
        """Posterior probabilities of the models that have any."""
        halvings = self.halvings()
        least = min(halvings)
        found, total = [], 0.0
        for model, times in enumerate(halvings):
            if times - least < NOTHING:
                weight = halved(times - least) / math.sqrt(self.spread.item(model))
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

    def advance(self, cell: Cell) -> None:
        """Over one cell, of which nothing is measured yet."""
        rows, step, part = self._rows, self._step, self._part
        np.multiply(rows[LEVEL], cell.lengths, step)
        np.multiply(rows[SWING], cell.reaches, part)
        np.add(step, part, step)
        for row in rows[:LEVEL]:
            np.add(row, step, row)
        # The same to the columns; by symmetry they move by the same step, and where both the row
        # and the column move, by its own step too.
        twice = cell.length * step[LEVEL] + cell.reach * step[SWING]
        self._moving_step += twice
        self._moving_columns += self._step_column
        np.multiply(self.table, cell.kept, self.table)
        np.add(self.table, cell.added, self.table)

    def unsettle(self, share: float) -> None:
        """The cap changed, and may have moved the level by about this share of it."""
        self.covariance[LEVEL, LEVEL] += (share * self.mean[LEVEL]) ** 2

    def open_leaf(self, leaf: Leaf) -> None:
        """Noise of the nodes that begin with this leaf."""
        if leaf.inner is None:
            return
        rows, columns, share = self._rows, self._columns, leaf.inner_share
        if leaf.outer is not None:
            rows[OUTER][:] = columns[OUTER][:] = 0.0
            self.covariance[OUTER, OUTER] = leaf.outer
        rows[INNER][:] = share * rows[OUTER]
        columns[INNER][:] = share * columns[OUTER]
        self.covariance[INNER, INNER] = share * share * self.covariance[OUTER, OUTER] + leaf.inner
        if share:
            rows[OUTER] -= rows[INNER]
            columns[OUTER] -= columns[INNER]

    def measure(self, leaf: Leaf, noisy: float | None) -> None:
        """The leaf is complete and its noisy sum known; None: covariances only."""
        rows, (rest, share, contrast) = self._rows, leaf.parts
        along, gain, part = self._along, self._gain, self._part
        np.multiply(rows[INNER], share, along)
        np.multiply(rows[LEAF], rest, part)
        np.add(along, part, along)
        variance = self._along_rows[INNER] * share
        variance += self._along_rows[LEAF] * rest
        variance += contrast
        if noisy is not None:
            taken = np.array(noisy)
            self._along_rows[SIZE] -= taken  # the mean's column: by how much it was too high
            self._means[INNER] -= taken
        np.divide(along, variance, gain)
        np.multiply(self._along_column, gain, self._outer)
        np.subtract(self.table, self._outer, self.table)
        if noisy is not None:
            self.misses += self._along_rows[SIZE] * self._gain_rows[SIZE]
            np.frexp(self.spread * variance, self.spread, self._exponents)
            self.doublings += self._exponents
        rows[LEAF].fill(0.0)
        self._columns[LEAF].fill(0.0)
        self._variance = variance

    def last_measurement(self) -> tuple[float, float, list[float]]:
        """Of the first model: by how much it missed, the variance of that, and the gain."""
        gain: list[float] = self._gain[:SIZE, 0].tolist()
        return -self._along.item(SIZE, 0), self._variance.item(0), gain


def mixed(weights: Weights, values: list[float]) -> float:
    """Weighted mean, summed in a fixed order."""
    total = 0.0
    for model, weight in weights:
        total += weight * values[model]
    return total
