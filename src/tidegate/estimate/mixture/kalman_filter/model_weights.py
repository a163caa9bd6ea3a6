"""Weights of the models: packed into one integer, and for many streams at once.

Packed, a weight has four bits, in fifteenths.

Records keep it for every block, so that the past can be answered with the weights of that time. A
fifteenth is fine enough: what matters is which two or three models have most of the weight.

>>> model_weights = packed_weights([(0, 0.7), (2, 0.28), (3, 0.02)])
>>> hex(model_weights), unpacked_weights(model_weights)
('0x40b', [(0, 0.7333333333333333), (2, 0.26666666666666666)])

The models' weights for many streams at once: bit for bit what `weigh_filters` gives each.

A row for each stream, an entry for each model. Models that `weigh_filters` leaves out have
weight 0 here, which adds nothing to any sum. Sums run from the first model to the last (`cumsum`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tidegate.estimate.mixture.kalman_filter.kalman_filters import DISTANCE_PER_HALVING, Weights
from tidegate.estimate.mixture.kalman_filter.state_space_models import COUNT
from tidegate.estimate.mixture.portable_exp_and_log import NOTHING, halved_each
from tidegate.lattice import FloatArray

_BITS = 4
_MOST = (1 << _BITS) - 1
MOST_MODELS = 15  # in the 63 bits of a number in a record
UNDECIDED = _MOST  # before the first block: the first model


def packed_weights(weights: Weights, cycles: Sequence[float] = ()) -> int:
    """Pack weights that add up to 1; those below a thirtieth are left out.

    `cycles` are the probabilities of a cycle, of each amplitude: in the places of more models.
    """
    both = [*weights, *enumerate(cycles, COUNT)]
    return sum(int(weight * _MOST + 0.5) << _BITS * model for model, weight in both)


def packed_weight_rows(weights: FloatArray) -> list[int]:
    """`packed_weights` for many streams, one row each."""
    parts = (weights * _MOST + 0.5).astype(np.int64)
    found: list[int] = np.left_shift(parts, _BITS * np.arange(COUNT)).sum(axis=1).tolist()
    return found


def unpacked_weights(model_weights: int) -> Weights:
    """Unpack weights; they add up to 1, with and without a cycle together.

    Raises:
        ValueError: all weights are 0, or one is of an unknown model: a damaged record.
    """
    parts = [(model, model_weights >> _BITS * model & _MOST) for model in range(COUNT)]
    total = sum(part for _, part in parts)
    if not total or model_weights >> _BITS * MOST_MODELS:
        raise ValueError("the packed weights are of unknown models, or all 0")
    return [(model, part / total) for model, part in parts if part]


def check_packed_weights(model_weights: int, *, cycles: bool) -> None:
    """Refuse what `unpacked_weights` refuses, and cycle weights where there is no cycle.

    Raises:
        ValueError: a damaged record.
    """
    of_cycles = model_weights >> _BITS * COUNT
    if of_cycles >> _BITS * (MOST_MODELS - COUNT) or model_weights == of_cycles << _BITS * COUNT:
        raise ValueError("the packed weights are of unknown models, or all 0")
    if of_cycles and not cycles:
        raise ValueError("the packed weights are of a cycle, and there is no period")


def cycle_weights(model_weights: int) -> list[float]:
    """The probabilities of a cycle at each amplitude that has room; at most 1 together."""
    parts = [model_weights >> _BITS * place & _MOST for place in range(COUNT, MOST_MODELS)]
    total = max(_MOST, sum(parts))
    return [part / total for part in parts]


def weight_halving_rows(mahalanobis: FloatArray, exponent: NDArray[np.int32]) -> FloatArray:
    """`KalmanFilters.halvings` for many streams, one row each."""
    found: FloatArray = mahalanobis / DISTANCE_PER_HALVING + exponent * 0.5
    return found


def weight_rows(halvings: FloatArray, determinant: FloatArray) -> FloatArray:
    """Posterior probabilities of each stream's models."""
    least = halvings.min(axis=1, keepdims=True)
    some = halvings < least + NOTHING
    times = np.where(some, halvings - least, 0.0)
    weights = np.where(some, halved_each(times) / np.sqrt(determinant), 0.0)
    weights /= np.cumsum(weights, axis=1)[:, -1:]
    return weights


def mixed_rows(weights: FloatArray, values: FloatArray) -> FloatArray:
    """`mixed_filters` for each stream."""
    found: FloatArray = np.cumsum(weights * values, axis=1)[:, -1]
    return found
