"""The filters of many streams across changes of threshold: what `RescaledRun` does, bit for bit."""

from __future__ import annotations

import numpy as np

from tidegate.estimate.mixture.catch_up import CatchUp
from tidegate.estimate.mixture.kalman_filter.leaf_noise import NoisyLeaves
from tidegate.estimate.mixture.kalman_filter.state_space_models import LEVEL, MEAN, SIZE
from tidegate.estimate.mixture.many_streams.filters_of_many_streams import FiltersOfManyStreams
from tidegate.estimate.mixture.many_streams.units_and_leaves_of_many_streams import (
    EndedLeaves,
    FilterUnit,
)
from tidegate.estimate.mixture.rescaled_run import MOVED, NEW_MEAN, NEW_VARIANCE
from tidegate.lattice import FloatArray, IntArray

_AT_ONCE = 512  # streams whose covariances are copied: 3.5 kB each


class RescaledFiltersOfManyStreams(FiltersOfManyStreams):
    """Filters that can change to units of another θ, and take the sum of a whole warm-up."""

    def rescale(self, codes: IntArray, ratios: FloatArray) -> None:
        """`RescaledRun.rescale`, with the old θ of each stream as a multiple of the new one."""
        entries = self._augmented.reshape(SIZE, SIZE + 1, *self._augmented.shape[1:])
        for start in range(0, codes.size, _AT_ONCE):
            some, times = codes[start : start + _AT_ONCE], ratios[start : start + _AT_ONCE]
            entries[:, :MEAN, some] *= (times * times)[:, np.newaxis]
            entries[:, MEAN, some] *= times[:, np.newaxis]
        moved = np.minimum(1.0, MOVED * (np.maximum(ratios, 1 / ratios) - 1))
        self.inflate_level(codes, moved)

    def forget_level(self, codes: IntArray) -> None:
        """`RescaledRun.forget_level`: a cap was full."""
        entries = self._augmented.reshape(SIZE, SIZE + 1, *self._augmented.shape[1:])
        entries[LEVEL, :, codes] = 0.0
        entries[:, LEVEL, codes] = 0.0
        entries[LEVEL, MEAN, codes] = NEW_MEAN
        entries[LEVEL, LEVEL, codes] = NEW_VARIANCE

    def at_once(
        self,
        codes: IntArray,
        count: int,
        ends: IntArray,
        noise: FloatArray,
        noisy: FloatArray,
        threshold: IntArray,
        catch_up: CatchUp | None,
    ) -> FloatArray:
        """`RescaledRun.at_once`: warm-ups of `count` values end at these positions.

        Their sums are `noisy`, in θ, with noise of this variance, in θ²; gives how running sums
        move, in units.
        """
        nothing, all_of_it = np.zeros(codes.size), np.ones(codes.size)
        self.open_leaves(codes, NoisyLeaves(None, noise, 0.0, all_of_it, nothing))
        leaves = EndedLeaves((count,), all_of_it, nothing, noisy)
        unit = FilterUnit(threshold, 0.0)
        return self.end_cells(codes, count, ends, leaves, unit, catch_up)
