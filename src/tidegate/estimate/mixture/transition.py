"""The state of a model, and how it changes over a cell: the matrices F and Q of a Kalman filter.

The state x has six entries: SUM, the running sum, from its beginning or above its own mean over the
past (`KalmanFilters.fade`); LEAF, the sum of the open leaf; INNER, that sum plus the noise left in
the open inner node of the tree (`leaf_noise`); LEVEL, a random walk; SWING, an Ornstein-Uhlenbeck
process; OUTER, the noise left in the open outer node.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import lru_cache

import numpy as np

from tidegate.estimate.mixture.models import Models
from tidegate.estimate.mixture.portable_math import exp, expm1
from tidegate.lattice import FloatArray, IntArray

# SUM, LEAF and INNER grow by the same amount over a cell: side by side, one operation for all.
SUM, LEAF, INNER, LEVEL, SWING, OUTER = range(6)
SIZE = 6
GROWING = LEVEL  # the entries before it grow
MEAN = SIZE  # the column of the mean in the augmented matrix [P | m]


class Transition:
    """F and Q over one cell of `length` values (one length, or one per model).

    F adds length·LEVEL + swing_sum·SWING to SUM, LEAF and INNER, and multiplies SWING by `decay`.
    """

    def __init__(self, models: Models, length: float | FloatArray) -> None:
        lengths: FloatArray = np.broadcast_to(np.float64(length), models.walk.shape)
        swings = models.variance > 0
        relaxation, variance = models.relaxation[swings], models.variance[swings]
        rate = lengths[swings] / relaxation
        gone = -expm1(-rate)
        # The integral of an Ornstein-Uhlenbeck process: what one unit of swing at the start adds to
        # the sum, the variance of the rest, and its covariance with the swing at the end.
        swing_sum = relaxation * gone
        integral = 2 * variance * relaxation**2 * (rate - gone)
        decay = np.ones(models.count)
        swing_sums, sum_variance, sum_with_swing = (np.zeros(models.count) for _ in range(3))
        decay[swings] = exp(-rate)
        swing_sums[swings] = swing_sum
        sum_variance[swings] = np.maximum(integral - variance * swing_sum**2, 0.0)
        sum_with_swing[swings] = variance * swing_sum * (1 - decay[swings])
        # The level counts as it is in the middle of the cell: half a step before, half after.
        half = models.walk * lengths / 2
        noise: FloatArray = np.zeros((SIZE, SIZE + 1, models.count))  # [Q | 0]
        for row in (SUM, LEAF, INNER):
            for column in (SUM, LEAF, INNER):
                noise[row, column] = half * lengths**2 + sum_variance + lengths * models.scatter
            noise[row, LEVEL] = noise[LEVEL, row] = half * lengths
            noise[row, SWING] = noise[SWING, row] = sum_with_swing
        noise[LEVEL, LEVEL] = 2 * half
        noise[SWING, SWING] = models.variance * (1 - decay**2)
        self.process_noise = noise
        # Written out for every entry: at this size one pass costs less than broadcasting.
        self.decay: FloatArray = np.ones((SIZE, SIZE + 1, models.count))
        self.decay[SWING] *= decay
        self.decay[:, SWING] *= decay
        each = np.stack((lengths, swing_sums))
        self.growth: FloatArray = np.repeat(each[:, np.newaxis], SIZE + 1, axis=1)
        self.own_growth: FloatArray = np.repeat(each, GROWING, axis=0)
        # Of the first model, or of all, as plain numbers.
        self.swing_decay = float(decay[0])
        self.width, self.swing_sums = float(lengths[0]), swing_sums.tolist()
        self.swing_row = swing_sums


def side_by_side(parts: Sequence[Transition], columns: IntArray) -> Transition:
    """Of many filters: column k is that of `parts[columns[k]]`, each of a single model."""
    found = copy(parts[0])
    for name, part in vars(found).items():
        if isinstance(part, np.ndarray):
            every = np.concatenate([getattr(one, name) for one in parts], axis=-1)
            setattr(found, name, every[..., columns])
    found.swing_sums = found.swing_row.tolist()
    return found


@lru_cache(maxsize=4096)  # a horizon has few widths, and every smoother needs all of them again
def transition_of(one: Models, width: int) -> Transition:
    """The transition of a single model over a cell; cached."""
    return Transition(one, width)
