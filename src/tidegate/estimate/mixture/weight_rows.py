"""The models' weights for many streams at once: bit for bit what `kalman.normalised` gives each.

A row for each stream, an entry for each model. Models that `normalised` leaves out have weight 0
here, which adds nothing to any sum. Sums run from the first model to the last (`cumsum`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidegate.estimate.mixture.kalman import DISTANCE_PER_HALVING
from tidegate.estimate.mixture.portable_math import NOTHING, halved_each
from tidegate.lattice import FloatArray


def halving_rows(mahalanobis: FloatArray, exponent: NDArray[np.int32]) -> FloatArray:
    """`KalmanFilters.halvings`."""
    found: FloatArray = mahalanobis / DISTANCE_PER_HALVING + exponent * 0.5
    return found


def weight_rows(halvings: FloatArray, determinant: FloatArray) -> FloatArray:
    """Posterior probabilities of the models of each stream."""
    least = halvings.min(axis=1, keepdims=True)
    some = halvings < least + NOTHING
    times = np.where(some, halvings - least, 0.0)
    weights = np.where(some, halved_each(times) / np.sqrt(determinant), 0.0)
    weights /= np.cumsum(weights, axis=1)[:, -1:]
    return weights


def mixed_rows(weights: FloatArray, values: FloatArray) -> FloatArray:
    """`kalman.mixed` of each stream."""
    found: FloatArray = np.cumsum(weights * values, axis=1)[:, -1]
    return found
