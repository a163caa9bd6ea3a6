"""State-space models of a stream: their constants, their state, and F and Q over a cell.

Everything is in units of θ, so that nothing here knows the unit of the data. A model says: a value
is level + swing + scatter. The level is a random walk of variance q/horizon per value. The swing,
in three of the models, is mean-reverting (an Ornstein-Uhlenbeck process), as a daily cycle is;
extrapolating the cycle was 1.3 to 3.6 times worse in 28 of 30 checks.

F and Q are the matrices of a Kalman filter over a cell. The state x has six entries: SUM, the
running sum, from its beginning or above its own mean over the past (`KalmanFilters.fade`); LEAF,
the sum of the open leaf; INNER, that sum plus the noise left in the open inner node of the tree
(`leaf_noise`); LEVEL, a random walk; SWING, an Ornstein-Uhlenbeck process; OUTER, the noise left in
the open outer node.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from tidegate.estimate.mixture.portable_exp_and_log import exp, expm1
from tidegate.lattice import FloatArray, IntArray

# Level random walks: variance over one horizon, from "constant" to "anything goes" in decades.
WALKS = (0.0, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
# Mean-reverting: variance of the swing, its relaxation as a fraction of the horizon, and the walk
# of the level beneath. Large swings, as wide as the scatter, quick and slow; and small ones around
# a level that stays, which a walk would mistake for a beginning.
SWINGS = ((1e-2, 1 / 512, 1e-3), (1e-2, 1 / 128, 1e-3), (2e-4, 1 / 256, 0.0))
# Variance of one value around its level: θ cuts off the tail, so a tenth of θ is typical. Where
# much lies between that and θ (heavy tails, two scales), sums scatter more; a level that stays
# would then look as if it moved, but for one model that expects it.
SCATTER, WIDE_SCATTER = 0.01, 0.03
# The level before anything is known: most streams have a mean of about a tenth of θ, and values
# without a tail one of more than half: not so unlikely that it would look like a sudden change.
LEVEL_MEAN, LEVEL_VARIANCE = 0.1, 0.03
# The choice of a tree assumes a level that is this much rougher than measured: what happens on
# scales finer than the present tree is not seen in its sums.
ROUGHER = 3.0
# A block is published in at least this many cells, each with its own forecast.
CELLS = 16
# Expected sum of what truncation takes away, per value and in θ/(ε·hold-out): the selection leaves
# a few times 1/ε of the held-out values above θ, and the caps cut a little more or less.
TRUNCATED = 0.2
# With a tiny hold-out that formula says nothing; a hundredth of θ per value is the most we add.
MOST_TRUNCATED = 0.01
# A new horizon counts no more halvings of a model's weight than this, so that all have about a
# thousandth of the best one's at least: streams change.
SECOND_CHANCE = 10.0
COUNT = len(WALKS) + len(SWINGS) + 1


@dataclass(frozen=True, eq=False)  # known by identity: caches ask for it often
class Models:
    """Several models, one array entry each; numbers are per value."""

    walk: FloatArray  # variance of the level's step
    variance: FloatArray  # of the swing; 0: none
    relaxation: FloatArray  # of the swing, in values
    scatter: FloatArray  # variance of one value around level and swing

    @property
    def count(self) -> int:
        """The number of models."""
        return self.walk.size

    def only(self, index: int) -> Models:
        """The model with this index alone: the same object every time."""
        return self._each[index]

    @cached_property
    def _each(self) -> list[Models]:
        ones = [slice(index, index + 1) for index in range(self.count)]
        return [Models(*(part[one] for part in self.parts)) for one in ones]

    @property
    def parts(self) -> tuple[FloatArray, ...]:
        """All arrays, in the order of the fields."""
        return self.walk, self.variance, self.relaxation, self.scatter


@lru_cache(maxsize=64)
def models(horizon: int, rougher: float = 1.0, scatter: float = SCATTER) -> Models:
    """The models for a horizon: random walks first, then those with a mean-reverting swing."""
    wide = WIDE_SCATTER if scatter == SCATTER else WIDE_SCATTER / SCATTER * scatter
    rows = [
        *((walk, 0.0, 1.0 / horizon, scatter) for walk in WALKS),
        *((walk, variance, relaxation, scatter) for variance, relaxation, walk in SWINGS),
        (0.0, 0.0, 1.0 / horizon, wide),
    ]
    walk, variance, relaxation, around = np.array(rows).T
    return Models(walk * rougher / horizon, variance, relaxation * horizon, around)


# SUM, LEAF and INNER grow by the same amount over a cell: side by side, one operation for all.
SUM, LEAF, INNER, LEVEL, SWING, OUTER = range(6)
SIZE = 6
GROWING = LEVEL  # the entries before it grow
MEAN = SIZE  # the column of the mean in the augmented matrix [P | m]


class StateTransition:
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
        # As plain numbers: of the first model, or of all models.
        self.swing_decay = float(decay[0])
        self.width, self.swing_sums = float(lengths[0]), swing_sums.tolist()
        self.swing_row = swing_sums


def models_side_by_side(parts: Sequence[StateTransition], columns: IntArray) -> StateTransition:
    """Join transitions: column k is that of `parts[columns[k]]`, each of one model."""
    found = copy(parts[0])
    for name, part in vars(found).items():
        if isinstance(part, np.ndarray):
            every = np.concatenate([getattr(one, name) for one in parts], axis=-1)
            setattr(found, name, every[..., columns])
    found.swing_sums = found.swing_row.tolist()
    return found


@lru_cache(maxsize=256)
def state_transition_over(horizon: int, width: int, scatter: float) -> StateTransition:
    """The transition of all models over a cell; cached, since a horizon has few widths."""
    return StateTransition(models(horizon, scatter=scatter), width)


@lru_cache(maxsize=4096)  # a horizon has few widths, and every smoother needs all of them again
def state_transition_of(one: Models, width: int) -> StateTransition:
    """The transition of a single model over a cell; cached."""
    return StateTransition(one, width)
