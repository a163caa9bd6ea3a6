"""Gaussian beliefs of several models side by side, updated cell by cell and leaf by leaf.

A belief is about six numbers: the running sum, the level, the swing, the sum of the open leaf, and
the noise left in the open outer and inner node of the tree (`noise_path`). Every step is a few
elementwise operations on arrays with one entry per model, in a fixed order: no linear-algebra
library takes part, so results do not depend on one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidegate.forecast.models import LEVEL_MEAN, LEVEL_VARIANCE, SCATTER, Models
from tidegate.forecast.noise_path import Leaf
from tidegate.lattice import FloatArray

SUM, LEVEL, SWING, LEAF, OUTER, INNER = range(6)
SIZE = 6


class Cell:
    """How the belief moves over one cell of `length` values (one length, or one per model)."""

    def __init__(self, models: Models, length: float | FloatArray) -> None:
        lengths: FloatArray = np.broadcast_to(np.float64(length), models.walk.shape)
        rate = lengths / models.relaxation
        has_swing = models.variance > 0
        self.length = lengths
        self.keep = np.where(has_swing, np.exp(-rate), 1.0)
        # What one unit of swing at the start adds to the sum, and the joint variance of the sum and
        # the swing at the end: the integral of an Ornstein-Uhlenbeck process.
        self.reach = np.where(has_swing, models.relaxation * -np.expm1(-rate), 0.0)
        variance = models.variance
        integral = 2 * variance * models.relaxation**2 * (rate + np.expm1(-rate))
        own = np.where(has_swing, np.maximum(integral - variance * self.reach**2, 0.0), 0.0)
        both = variance * self.reach * (1 - self.keep)
        # The level counts as it is in the middle of the cell: half a step before, half after.
        half = models.walk * lengths / 2
        added: FloatArray = np.zeros((SIZE, SIZE, models.count))
        for row in (SUM, LEAF):
            for column in (SUM, LEAF):
                added[row, column] = half * lengths**2 + own + lengths * SCATTER
            added[row, LEVEL] = added[LEVEL, row] = half * lengths
            added[row, SWING] = added[SWING, row] = both
        added[LEVEL, LEVEL] = 2 * half
        added[SWING, SWING] = variance * (1 - self.keep**2)
        self.added = added

    def matrix(self) -> NDArray[np.float64]:
        """The same movement as one matrix per model, models first."""
        matrix = np.zeros((self.length.size, SIZE, SIZE))
        matrix[:] = np.eye(SIZE)
        for row in (SUM, LEAF):
            matrix[:, row, LEVEL] = self.length
            matrix[:, row, SWING] = self.reach
        matrix[:, SWING, SWING] = self.keep
        return matrix


class Beliefs:
    """Mean and covariance per model, and how well each has predicted so far."""

    def __init__(self, models: Models) -> None:
        self.mean: FloatArray = np.zeros((SIZE, models.count))
        self.covariance: FloatArray = np.zeros((SIZE, SIZE, models.count))
        self.evidence: FloatArray = np.zeros(models.count)  # log likelihood, up to a constant
        self.mean[LEVEL] = LEVEL_MEAN
        self.covariance[LEVEL, LEVEL] = LEVEL_VARIANCE
        self.covariance[SWING, SWING] = models.variance

    def weights(self) -> FloatArray:
        """Posterior probabilities of the models."""
        weights: FloatArray = np.exp(self.evidence - self.evidence.max())
        total = 0.0
        for weight in weights.tolist():  # in a fixed order
            total += weight
        weights /= total
        return weights

    def forecast(self, cell: Cell) -> FloatArray:
        """Expected sum over the next cell."""
        expected: FloatArray = cell.length * self.mean[LEVEL] + cell.reach * self.mean[SWING]
        return expected

    def advance(self, cell: Cell) -> None:
        """Over one cell, of which nothing is measured yet."""
        mean, covariance = self.mean, self.covariance
        step = self.forecast(cell)
        mean[SUM] += step
        mean[LEAF] += step
        mean[SWING] *= cell.keep
        rows = cell.length * covariance[LEVEL] + cell.reach * covariance[SWING]
        covariance[SUM] += rows
        covariance[LEAF] += rows
        covariance[SWING] *= cell.keep
        columns = cell.length * covariance[:, LEVEL] + cell.reach * covariance[:, SWING]
        covariance[:, SUM] += columns
        covariance[:, LEAF] += columns
        covariance[:, SWING] *= cell.keep
        covariance += cell.added

    def open_leaf(self, leaf: Leaf) -> None:
        """Noise of the nodes that begin with this leaf."""
        if leaf.inner is None:
            return
        mean, covariance = self.mean, self.covariance
        if leaf.outer is not None:
            mean[OUTER] = covariance[OUTER] = covariance[:, OUTER] = 0.0
            covariance[OUTER, OUTER] = leaf.outer
        share = leaf.inner_share
        mean[INNER] = share * mean[OUTER]
        covariance[INNER] = share * covariance[OUTER]
        covariance[:, INNER] = share * covariance[:, OUTER]
        covariance[INNER, INNER] = share * share * covariance[OUTER, OUTER] + leaf.inner
        if share:
            mean[OUTER] -= mean[INNER]
            covariance[OUTER] -= covariance[INNER]
            covariance[:, OUTER] -= covariance[:, INNER]

    def measure(self, leaf: Leaf, noisy: float | None) -> None:
        """The leaf is complete and its noisy sum known; None: covariances only."""
        mean, covariance, share = self.mean, self.covariance, leaf.share
        along = covariance[:, LEAF] + share * covariance[:, INNER]
        variance = along[LEAF] + share * along[INNER] + leaf.variance
        gain = along / variance
        covariance -= along[:, np.newaxis] * gain
        if noisy is not None:
            miss = noisy - (mean[LEAF] + share * mean[INNER])
            mean += gain * miss
            self.evidence -= 0.5 * (miss * miss / variance + np.log(variance))
            mean[INNER] += mean[LEAF] - noisy  # the noise that the leaf took is known now
            mean[LEAF] = 0.0
        covariance[INNER] += covariance[LEAF]
        covariance[:, INNER] += covariance[:, LEAF]
        covariance[LEAF] = 0.0
        covariance[:, LEAF] = 0.0


def mixed(weights: FloatArray, values: FloatArray) -> float:
    """Weighted mean, summed in a fixed order."""
    total = 0.0
    for weight, value in zip(weights.tolist(), values.tolist(), strict=True):
        total += weight * value
    return total
