"""`WideKalmanFilters`: the Kalman filters of many streams in arrays; and a compact form of [P | m].

`KalmanFilters` is written for a dozen filters, where a call costs more than its numbers: it copies
rows to where they are needed, adds zeros and multiplies by ones. With hundreds of filters the
numbers cost more than the calls: here only entries that change are touched.

P is symmetric but for the last bits: one half is stored whole, and for the other half its
difference in units in the last place, in 16 bits; larger differences are stored separately. Models
without a swing have zeros in its row and column, which are left out. More than half of the other
entries are zeros, too (nodes of trees that are not open, halves that do not differ): they take a
bit each. The length of the result follows from released data, as [P | m] does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidegate.estimate.mixture.kalman_filter.kalman_filters import KalmanFilters
from tidegate.estimate.mixture.kalman_filter.state_space_models import (
    GROWING,
    MEAN,
    OUTER,
    SIZE,
    SWING,
    StateTransition,
)
from tidegate.lattice import FloatArray
from tidegate.state_as_bytes import State

_add, _multiply, _divide = np.add, np.multiply, np.divide


class WideKalmanFilters(KalmanFilters):
    """A Kalman filter for each model of each of many streams."""

    def predict(self, over: StateTransition) -> None:
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


_SMALL = np.iinfo(np.int16)


def _places_in_filters(swing: bool) -> tuple[list[int], list[int], list[int]]:
    """Entries of the flat [P | m]: those kept, then the other half of P and their counterparts."""
    used = [entry for entry in range(SIZE) if swing or entry != SWING]
    pairs = [(row, column) for row in used for column in used if row < column]
    upper = [row * (SIZE + 1) + column for row, column in pairs]
    lower = [column * (SIZE + 1) + row for row, column in pairs]
    rest = [entry * (SIZE + 1) + column for entry in used for column in (entry, MEAN)]
    return [*upper, *rest], lower, upper


_WITHOUT, _WITH = _places_in_filters(False), _places_in_filters(True)


def packed_filters(
    augmented: FloatArray, swings: NDArray[np.bool_]
) -> dict[str, NDArray[np.generic]]:
    """Pack `augmented`: entries of [P | m] × streams × models."""
    whole, differences = [], []
    for (kept, lower, upper), chosen in ((_WITHOUT, ~swings), (_WITH, swings)):
        some = augmented[:, :, chosen]
        whole.append(some[kept].reshape(-1))
        bits = some.view(np.int64)
        differences.append((bits[lower] - bits[upper]).reshape(-1))
    last_bits = np.concatenate(differences)
    large = np.flatnonzero((last_bits < _SMALL.min) | (last_bits > _SMALL.max))
    small = last_bits.copy()
    small[large] = 0
    kept_bits = np.concatenate(whole).view(np.int64)
    return {
        "covariance": kept_bits[kept_bits != 0].view(np.float64),
        "covaries": np.packbits(kept_bits != 0),
        "asymmetry": small[small != 0].astype(np.int16),
        "differs": np.packbits(small != 0),
        "asymmetric": large.astype(np.int32),
        "asymmetries": last_bits[large],
    }


def _filters_with_zeros(
    items: NDArray[np.generic], places: NDArray[np.uint8]
) -> NDArray[np.generic]:
    """Nonzero items at their places; up to seven zeros follow the last one."""
    used = np.unpackbits(places) > 0
    found = np.zeros(used.size, dtype=items.dtype)
    found[used] = items
    return found


def unpacked_filters(state: State, streams: int, swings: NDArray[np.bool_]) -> FloatArray:
    """The inverse of `packed_filters`."""
    covariance = _filters_with_zeros(state["covariance"], state["covaries"])
    last_bits = _filters_with_zeros(state["asymmetry"], state["differs"]).astype(np.int64)
    last_bits[state["asymmetric"]] = state["asymmetries"]
    found = np.zeros((SIZE * (SIZE + 1), streams, swings.size))
    at = difference_at = 0
    for (kept, lower, upper), chosen in ((_WITHOUT, ~swings), (_WITH, swings)):
        columns = int(np.count_nonzero(chosen))
        some = np.zeros((SIZE * (SIZE + 1), streams, columns))
        size = len(kept) * streams * columns
        some[kept] = covariance[at : at + size].reshape(len(kept), streams, columns)
        at += size
        bits, size = some.view(np.int64), len(lower) * streams * columns
        part = last_bits[difference_at : difference_at + size]
        bits[lower] = bits[upper] + part.reshape(len(lower), streams, columns)
        difference_at += size
        found[:, :, chosen] = some
    if -(-at // 8) != state["covaries"].size or -(-difference_at // 8) != state["differs"].size:
        raise ValueError("the state is of another number of streams")
    return found
