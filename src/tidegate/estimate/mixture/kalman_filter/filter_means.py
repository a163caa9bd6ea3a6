"""`FilterMeans`: the means of many Kalman filters that share few covariances.

The covariances of a filter do not depend on what is measured. Filters that begin with the same
covariance and measure in the same way share them, and only their means differ: six numbers each
instead of 42. The steps are those of `KalmanFilters`, bit for bit.
"""

from __future__ import annotations

import numpy as np

from tidegate.estimate.mixture.kalman_filter import state_space_models as entry
from tidegate.estimate.mixture.kalman_filter.leaf_noise import NoisyLeaf, NoisyLeaves
from tidegate.estimate.mixture.kalman_filter.state_space_models import StateTransition
from tidegate.lattice import FloatArray, IntArray


def hand_means_on(
    means: FloatArray, leaf: NoisyLeaf | NoisyLeaves, share: float | FloatArray
) -> None:
    """Apply `KalmanFilters.open_leaf` to means, and to anything linear in them.

    A node that begins with the leaf has noise of mean 0, but for the `share` that an inner one gets
    of the noise that is left in the outer one.
    """
    if leaf.inner is None:
        return
    if leaf.outer is not None:
        means[entry.OUTER] = 0.0
    np.multiply(means[entry.OUTER], share, means[entry.INNER])
    if isinstance(share, np.ndarray) or share:
        means[entry.OUTER] -= means[entry.INNER]


class FilterMeans:
    """The mean of each filter, 0 at first; `columns` names the covariances that each uses."""

    def __init__(self, columns: IntArray) -> None:
        self._columns = columns
        self.values: FloatArray = np.zeros((entry.SIZE, columns.size))

    def open_leaf(self, leaf: NoisyLeaves) -> None:
        """Like `KalmanFilters.open_leaf`."""
        share = leaf.inner_share
        hand_means_on(
            self.values, leaf, share if isinstance(share, float) else share[self._columns]
        )

    def predict(self, over: StateTransition) -> None:
        """Predict over one cell: m ← F·m."""
        values, columns = self.values, self._columns
        by_level, by_swing = over.growth[:, 0][:, columns]
        growth = values[entry.LEVEL] * by_level + values[entry.SWING] * by_swing
        values[: entry.GROWING] += growth
        values[entry.SWING] *= over.decay[entry.SWING, entry.LEVEL][columns]

    def update(
        self,
        narrow: FloatArray,
        projected: FloatArray,
        variances: FloatArray,
        measured: FloatArray,
    ) -> FloatArray:
        """Update with these sums, given h, P·h and s of the covariances; return the innovations."""
        values, columns = self.values, self._columns
        by_leaf, by_inner = narrow[:, columns]
        short: FloatArray = values[entry.INNER] * by_inner + values[entry.LEAF] * by_leaf
        short -= measured  # −e
        values[entry.INNER] -= measured
        values -= projected[:, columns] * (short / variances[columns])
        values[entry.LEAF] = 0.0
        innovations: FloatArray = -short
        return innovations
