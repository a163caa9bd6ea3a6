"""`KalmanFilters`: one filter per model: predict over a cell, update with a leaf's noisy sum.

With mean m and covariance P of the state x (`transition`),

    predict   m ← F·m,  P ← F·P·Fᵀ + Q                           (F, Q: `StateTransition`)
    update    e = z − hᵀm,  s = hᵀP·h + r,  K = P·h/s,  m ← m + K·e,  P ← P − K·(P·h)ᵀ

for a measurement z = hᵀx + noise of variance r, h = (1 − share)·LEAF + share·INNER. The measured
sum is then taken from INNER: leaf sum + noise left − (leaf sum + leaf's noise).

Every step is a few elementwise operations on arrays with one entry per model, in a fixed order: no
linear-algebra library takes part, and no exp or log but those of `portable_exp_and_log`, so that
all machines agree on every bit. At this size arithmetic is cheaper than views and broadcasting: so
views and scratch arrays are made once, and rows are copied (`take`) to where they are needed.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tidegate.estimate.mixture.kalman_filter.leaf_noise import NoisyLeaf, NoisyLeaves
from tidegate.estimate.mixture.kalman_filter.state_space_models import (
    GROWING,
    INNER,
    LEAF,
    LEVEL,
    LEVEL_MEAN,
    LEVEL_VARIANCE,
    MEAN,
    OUTER,
    SIZE,
    SUM,
    SWING,
    Models,
    StateTransition,
)
from tidegate.estimate.mixture.portable_exp_and_log import NOTHING, PART, PARTS, POWERS
from tidegate.lattice import FloatArray

# A likelihood is exp(−distance/2): it is halved whenever the distance grows by this, 2·ln 2.
DISTANCE_PER_HALVING = 1.3862943611198906
# Numbers as arrays without dimensions: numpy takes them faster.
_PER_HALVING, _HALF = np.array(DISTANCE_PER_HALVING), np.array(0.5)

# predict: which row of `_growth` is added to which entry of [P | m]. Rows: 0 … SIZE for the growing
# rows, by the entry's column; then SIZE rows for the growing columns, by its row; then zeros.
_BY_ROW, _ZEROS = SIZE + 1, SIZE + 1 + SIZE
_GROWTH_OF = np.array(
    [column if row < GROWING else _ZEROS for row in range(SIZE) for column in range(SIZE + 1)]
    + [
        _BY_ROW + row if column < GROWING else _ZEROS
        for row in range(SIZE)
        for column in range(SIZE + 1)
    ]
)
_LEVEL_THEN_SWING = np.repeat((LEVEL, SWING), GROWING)
# update: the outer product (P·h)·[K | K·e]ᵀ, entry by entry: the row of the one, then of the other.
_OUTER_PRODUCT = np.array(
    [row for row in range(SIZE) for _ in range(SIZE + 1)]
    + [SIZE + 1 + column for _ in range(SIZE) for column in range(SIZE + 1)]
)
_ONE_FOR_ALL = np.zeros(SIZE + 1, dtype=np.intp)
_add, _subtract, _multiply, _divide = np.add, np.subtract, np.multiply, np.divide
_copy = np.copyto

Weights = list[tuple[int, float]]  # (model, probability)


class KalmanFilters:
    """A Kalman filter for each model, and the model's likelihood so far.

    Attributes:
        augmented: [P | m]: prediction and update do the same to covariance and mean.
        mean, covariance: views of it.
        mahalanobis: Σ e²/s, of which the likelihood is exp(−½ …)/√Π s.
        determinant, exponent: Π s as determinant·2^exponent.
    """

    def __init__(self, models: Models) -> None:
        count = models.count
        self.augmented: FloatArray = np.zeros((SIZE, SIZE + 1, count))
        self.mean: FloatArray = self.augmented[:, MEAN]
        self.covariance: FloatArray = self.augmented[:, :SIZE]
        self.mahalanobis: FloatArray = np.zeros(count)
        self.determinant: FloatArray = np.empty(count)
        self.determinant.fill(1.0)  # half the time that `np.ones` takes: every resume pays
        self.exponent: NDArray[np.int32] = np.zeros(count, dtype=np.int32)
        self.mean[LEVEL] = LEVEL_MEAN
        self.covariance[LEVEL, LEVEL] = LEVEL_VARIANCE
        self.covariance[SWING, SWING] = models.variance
        self._make_scratch(count)

    def _make_scratch(self, count: int) -> None:
        """Create views of the state, and scratch arrays for `predict` and `update`."""
        self._rows = list(self.augmented)
        self._columns = [self.augmented[:, column] for column in range(SIZE)]
        self._means = list(self.mean)
        self._level_and_swing_means = self.mean[LEVEL : SWING + 1]
        # Two matrices of the shape of [P | m], and all their rows; and two rows of it.
        self._matrices: FloatArray = np.empty((2, SIZE, SIZE + 1, count))
        self._first, self._second = self._matrices
        self._entries = self._matrices.reshape(-1, count)
        self._terms: FloatArray = np.empty((2, SIZE + 1, count))
        self._term, self._other_term = self._terms
        # predict: (F − I)·[P | m] of a growing row, the same for a growing column, and zeros.
        self._level_and_swing = self.augmented[LEVEL : SWING + 1]
        self._growth: FloatArray = np.zeros((2 * SIZE + 2, count))
        self._row_growth = self._growth[:_BY_ROW]
        self._row_growth_of_columns = self._growth[:SIZE]
        self._column_growth = self._growth[_BY_ROW:_ZEROS]
        self._both_growth = self._column_growth[:GROWING]
        self._own: FloatArray = np.empty((2 * GROWING, count))
        self._own_level, self._own_swing = self._own[:GROWING], self._own[GROWING:]
        # update: hᵀ·[P | m], whose last entry becomes −e, and the gain [K | −e/s].
        self._leaf_and_inner = self.augmented[LEAF : INNER + 1]
        self._factors: FloatArray = np.empty((2 * (SIZE + 1), count))
        self._projected, self._gain = self._factors[: SIZE + 1], self._factors[SIZE + 1 :]
        self._projected_measured = self._projected[LEAF : INNER + 1]
        self._minus_innovation, self._minus_scaled = self._projected[MEAN], self._gain[MEAN]
        self._pair: FloatArray = np.empty((2, count))
        self._leaf_part, self._inner_part = self._pair
        self._variances: FloatArray = np.empty((1, count))
        self._variances.fill(1.0)
        self._variance = self._variances[0]
        self._squares, self._halves, self._roots = np.empty((3, count))
        self._exponents: NDArray[np.int32] = np.zeros(count, dtype=np.int32)

    def halvings(self) -> list[float]:
        """−log₂ of each model's likelihood up to a constant, without `determinant`."""
        _divide(self.mahalanobis, _PER_HALVING, self._squares)
        _multiply(self.exponent, _HALF, self._halves)
        _add(self._squares, self._halves, self._halves)
        found: list[float] = self._halves.tolist()
        return found

    def weights(self) -> Weights:
        """Posterior probabilities of the models; models of negligible weight are left out."""
        return weigh_filters(self.halvings(), np.sqrt(self.determinant, self._roots).tolist())

    def forecast(self, over: StateTransition, weights: Weights) -> float:
        """The expected sum of the next cell's values."""
        levels, swings = self._level_and_swing_means.tolist()
        total = 0.0
        for model, weight in weights:
            total += weight * (over.width * levels[model] + over.swing_sums[model] * swings[model])
        return total

    def expected_sum(self, weights: Weights) -> float:
        """The expected running sum."""
        return mixed_filters(weights, self._means[SUM].tolist())

    def predict(self, over: StateTransition) -> None:
        """Kalman prediction over one cell: m ← F·m, P ← F·P·Fᵀ + Q."""
        augmented, growth, own = self.augmented, self._row_growth, self._own
        _multiply(self._level_and_swing, over.growth, self._terms)
        _add(self._term, self._other_term, growth)
        # P is symmetric, so columns grow by what rows grow by; and where both the row and the
        # column grow, by the growth of that growth too.
        _copy(self._column_growth, self._row_growth_of_columns)
        growth.take(_LEVEL_THEN_SWING, 0, own, "clip")
        _multiply(own, over.own_growth, own)
        _add(self._own_level, self._own_swing, self._own_level)
        _add(self._both_growth, self._own_level, self._both_growth)
        self._growth.take(_GROWTH_OF, 0, self._entries, "clip")
        _add(augmented, self._first, augmented)
        _add(augmented, self._second, augmented)
        _multiply(augmented, over.decay, augmented)
        _add(augmented, over.process_noise, augmented)

    def update(self, leaf: NoisyLeaf, noisy: float | FloatArray | None) -> None:
        """Kalman update with the noisy sum of the leaf that ends: one for all models, or one each.

        None: covariances only.
        """
        direction = _filter_direction(leaf.share, self.mahalanobis.size)
        self.update_along(*direction, leaf.contrast, None if noisy is None else np.array(noisy))

    def update_along(
        self,
        wide: FloatArray,
        narrow: FloatArray,
        contrast: FloatArray,
        measured: FloatArray | None,
    ) -> None:
        """`update` with h and r given: one for all filters, or one for each."""
        minus_innovation, variance = self._minus_innovation, self._variance
        _multiply(self._leaf_and_inner, wide, self._terms)
        _add(self._other_term, self._term, self._projected)  # hᵀ·[P | m]
        _multiply(self._projected_measured, narrow, self._pair)
        _add(self._inner_part, self._leaf_part, variance)
        _add(variance, contrast, variance)  # s = hᵀP·h + r
        if measured is not None:
            _subtract(minus_innovation, measured, minus_innovation)  # hᵀm − z
            inner = self._means[INNER]
            _subtract(inner, measured, inner)
        self._gain_of_projected()
        _subtract(self.augmented, self._first, self.augmented)
        if measured is not None:
            _multiply(minus_innovation, self._minus_scaled, self._squares)  # e²/s
            _add(self.mahalanobis, self._squares, self.mahalanobis)
            _multiply(self.determinant, variance, self.determinant)
            np.frexp(self.determinant, self.determinant, self._exponents)
            _add(self.exponent, self._exponents, self.exponent)
        self._rows[LEAF].fill(0.0)
        self._columns[LEAF].fill(0.0)

    def _gain_of_projected(self) -> None:
        """The Kalman gain k = P·h/s, and the term k·hᵀ·[P | m] that an update subtracts."""
        gain = self._gain
        self._variances.take(_ONE_FOR_ALL, 0, gain, "clip")
        _divide(self._projected, gain, gain)
        self._factors.take(_OUTER_PRODUCT, 0, self._entries, "clip")
        _multiply(self._first, self._second, self._first)

    def last_update(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Innovations, their variances, and gains."""
        return -self._minus_innovation, self._variance, self._gain[:SIZE]

    def last_projection(self) -> tuple[FloatArray, FloatArray]:
        """P·h of the last update, and the variances of its innovations."""
        return self._projected[:SIZE], self._variance

    def open_leaf(self, leaf: NoisyLeaf | NoisyLeaves) -> None:
        """Add the noise of the nodes that begin with this leaf: one for all models, or one each."""
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
        if isinstance(share, np.ndarray) or share:
            rows[OUTER] -= rows[INNER]
            columns[OUTER] -= columns[INNER]

    def join_open_nodes(self) -> None:
        """Merge the noise left in the open outer node into the inner one: between leaves."""
        for parts in (self._rows, self._columns):
            parts[INNER] += parts[OUTER]
            parts[OUTER].fill(0.0)

    def subtract_published(self, amount: float | FloatArray) -> None:
        """Subtract the published amount from the running sum."""
        total = self._means[SUM]
        _subtract(total, np.array(amount), total)

    def fade(self, part: float | FloatArray) -> None:
        """Move the mean of the past, the reference point of SUM, towards SUM by this part.

        With t values behind and w more to come, w/(t + w): they count as what they begin with.
        """
        row, column, kept = self._rows[SUM], self._columns[SUM], np.array(1.0 - part)
        _multiply(row, kept, row)
        _multiply(column, kept, column)

    def inflate_level(self, share: float | FloatArray) -> None:
        """Add variance after a change of cap, which may have moved the level by this share."""
        self.covariance[LEVEL, LEVEL] += (share * self.mean[LEVEL]) ** 2


@lru_cache(maxsize=512)  # of all filters: trees have few shares
def _filter_direction(share: float, count: int) -> tuple[FloatArray, FloatArray]:
    """The two nonzero entries of h, repeated for every entry of a row, and once each."""
    narrow = np.repeat([[1.0 - share], [share]], count, axis=1)
    wide = np.repeat(narrow[:, np.newaxis], SIZE + 1, axis=1)
    for shared in (narrow, wide):
        shared.flags.writeable = False
    return wide, narrow


def weigh_filters(halvings: list[float], roots: list[float]) -> Weights:
    """Weights of models with likelihoods 2^−halvings/root, without those of negligible weight."""
    least = min(halvings)
    most = least + NOTHING
    found, total, table = [], 0.0, POWERS
    for model, times in enumerate(halvings):
        if times < most:
            # `portable_exp_and_log.halved_each`, written out: every leaf weighs a dozen models.
            scaled = (times - least) * PARTS
            step = int(scaled)
            power = (step - scaled) * PART
            series = 1.0 + power * (1.0 + power * (0.5 + power * (1 / 6 + power * (1 / 24))))
            weight = table[step] * series / roots[model]
            found.append((model, weight))
            total += weight
    return [(model, weight / total) for model, weight in found]


def mixed_filters(weights: Weights, values: list[float]) -> float:
    """The weighted mean, summed in a fixed order."""
    total = 0.0
    for model, weight in weights:
        total += weight * values[model]
    return total
