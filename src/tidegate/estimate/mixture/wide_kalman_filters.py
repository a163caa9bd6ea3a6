"""`KalmanFilters` for many filters side by side: the same bits, with less memory moved.

`KalmanFilters` is written for a dozen filters, where a call costs more than its numbers: it copies
rows to where they are needed, adds zeros and multiplies by ones. With hundreds of filters the
numbers cost more than the calls: here only entries that change are touched.
"""

from __future__ import annotations

import numpy as np

from tidegate.estimate.mixture.kalman_filters import KalmanFilters
from tidegate.estimate.mixture.models import GROWING, OUTER, SIZE, SWING, Transition

_add, _multiply, _divide = np.add, np.multiply, np.divide


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

    def _gain_of_projected(self) -> None:
        _divide(self._projected, self._variance, self._gain)
        _multiply(self._projected[:SIZE, np.newaxis], self._gain, self._first)
