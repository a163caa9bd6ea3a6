"""`FilterMeans`: means of many Kalman filters, whose covariances are those of few.

The covariances of a filter do not depend on what is measured. Filters that begin with the same
covariance and measure in the same way share them, and only their means differ: six numbers each
instead of 42. The steps are those of `KalmanFilters`, bit for bit.
"""

from __future__ import annotations

import numpy as np

from tidegate.estimate.mixture.kalman_filter.leaf_noise import Leaves
from tidegate.estimate.mixture.kalman_filter.state_space_models import (
    GROWING,
    INNER,
    LEAF,
    LEVEL,
    OUTER,
    SIZE,
    SWING,
    StateTransition,
)
from tidegate.lattice import FloatArray, IntArray


class FilterMeans:
    """The mean of each filter, 0 at first; `columns` says which covariances each has."""

    def __init__(self, columns: IntArray) -> None:
        self._columns = columns
        self.values: FloatArray = np.zeros((SIZE, columns.size))

    def open_leaf(self, leaf: Leaves) -> None:
        """As `KalmanFilters.open_leaf`."""
        if leaf.inner is None:
            return
        values, share = self.values, leaf.inner_share
        if leaf.outer is not None:
            values[OUTER] = 0.0
        if isinstance(share, float):  # nothing is handed on
            values[INNER] = values[OUTER] * share
            return
        np.multiply(values[OUTER], share[self._columns], values[INNER])
        values[OUTER] -= values[INNER]

    def predict(self, over: StateTransition) -> None:
        """Over one cell: m ← F·m."""
        values, columns = self.values, self._columns
        by_level, by_swing = over.growth[:, 0][:, columns]
        growth = values[LEVEL] * by_level + values[SWING] * by_swing
        values[:GROWING] += growth
        values[SWING] *= over.decay[SWING, LEVEL][columns]

    def update(
        self,
        narrow: FloatArray,
        projected: FloatArray,
        variances: FloatArray,
        measured: FloatArray,
    ) -> FloatArray:
        """Update with these sums, given h, P·h and s of the covariances; gives the innovations."""
        values, columns = self.values, self._columns
        by_leaf, by_inner = narrow[:, columns]
        short: FloatArray = values[INNER] * by_inner + values[LEAF] * by_leaf
        short -= measured  # −e
        values[INNER] -= measured
        values -= projected[:, columns] * (short / variances[columns])
        values[LEAF] = 0.0
        innovations: FloatArray = -short
        return innovations
