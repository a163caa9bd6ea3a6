"""`KalmanFilters` for many filters side by side: the same bits, with less memory moved.

`KalmanFilters` is written for a dozen filters, where a call costs more than its numbers: it copies
rows to where they are needed, adds zeros and multiplies by ones. With hundreds of filters the
numbers cost more than the calls: here only entries that change are touched.
"""

from __future__ import annotations

import numpy as np

from tidegate.estimate.mixture.kalman_filters import KalmanFilters
from tidegate.estimate.mixture.models import GROWING, INNER, LEAF, OUTER, SIZE, SWING, Transition
from tidegate.lattice import FloatArray

_add, _subtract, _multiply, _divide = np.add, np.subtract, np.multiply, np.divide


class WideKalmanFilters(KalmanFilters):
    """One filter for each model of each of many streams."""

    def predict(self, over: Transition) -> None:
        """Kalman prediction over one cell: m ← F·m, P ← F·P·Fᵀ + Q."""
        augmented, growth, columns = self.augmented, self._row_growth, self._column_growth
        _multiply(self._level_and_swing, over.growth, self._terms)
        _add(self._term, self._other_term, growth)
        columns[:] = growth[:SIZE]
        # Where both the row and the column grow, by the growth of that growth too.
        level, swing = growth[GROWING], growth[SWING]
        own, other = self._own_level, self._own_swing
        _multiply(level, over.own_growth[:GROWING], own)
        _multiply(swing, over.own_growth[GROWING:], other)
        _add(own, other, own)
        _add(self._both_growth, own, self._both_growth)
        rows = augmented[:GROWING]
        _add(rows, growth, rows)
        grown = augmented[:, :GROWING]
        _add(grown, columns[:, np.newaxis], grown)
        swings = augmented[SWING]
        _multiply(swings, over.decay[SWING], swings)
        for part in (augmented[:SWING, SWING], augmented[SWING + 1 :, SWING]):
            _multiply(part, over.decay[0, SWING], part)
        moved = augmented[:OUTER, :OUTER]  # the rest has no process noise
        _add(moved, over.process_noise[:OUTER, :OUTER], moved)

    def update_along(
        self,
        wide: FloatArray,
        narrow: FloatArray,
        contrast: FloatArray,
        measured: FloatArray | None,
    ) -> None:
        """`update` with h and r given: one for all filters, or one for each."""
        augmented, gain, minus_innovation = self.augmented, self._gain, self._minus_innovation
        variance = self._variance
        _multiply(self._leaf_and_inner, wide, self._terms)
        _add(self._other_term, self._term, self._projected)  # hᵀ·[P | m]
        _multiply(self._projected_measured, narrow, self._pair)
        _add(self._inner_part, self._leaf_part, variance)
        _add(variance, contrast, variance)  # s = hᵀP·h + r
        if measured is not None:
            _subtract(minus_innovation, measured, minus_innovation)  # hᵀm − z
            inner = self._means[INNER]
            _subtract(inner, measured, inner)
        _divide(self._projected, variance, gain)
        _multiply(self._projected[:SIZE, np.newaxis], gain, self._first)
        _subtract(augmented, self._first, augmented)
        if measured is not None:
            _multiply(minus_innovation, self._minus_scaled, self._squares)  # e²/s
            _add(self.mahalanobis, self._squares, self.mahalanobis)
            _multiply(self.determinant, variance, self.determinant)
            np.frexp(self.determinant, self.determinant, self._exponents)
            _add(self.exponent, self._exponents, self.exponent)
        self._rows[LEAF].fill(0.0)
        self._columns[LEAF].fill(0.0)
