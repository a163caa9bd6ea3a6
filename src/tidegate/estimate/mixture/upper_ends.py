"""How far upper ends of intervals reach for truncated values, where the evidence for θ is known.

U times the share t of values above θ, in caps, for values from 0 on (`truncated_tail`). It depends
on the level when θ was new as a part of θ (`home`), on t, and on the bound.

A power law of index κ that is 1 at the level leaves t = (θ/level)^−κ above θ. So ln(1/t)/ln(1/home)
is an index that thresholds and released sums tell. Exponential values have 3 to 4, log-normal ones
of σ = 1 about 2.7, Pareto values of index 1.2 have 1.5 to 2.1: θ was extrapolated as for a tail of
index 5, and more values than t lie above it, each of them by more. Post-processing: free.

Where tails count as heavy was chosen on segments of `choose` and `heavy` of `benchmarks.coverage`,
and how much that is on `heavy` and on a Pareto tail of index 1.2 (decision 0110).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tidegate.estimate.mixture.portable_exp_and_log import log
from tidegate.lattice import FloatArray

LEAST_HOME = 0.01  # of the level when θ was new, in θ
# The most and the least of U, and by how much it grows with home·ln(1/t).
_MOST_UPPER, _LEAST_UPPER, _RISE = 7.0, 3.0, 9.0
# By ln(bound/θ) over this, squared above 1, between these: how far values may lie. It is ln 40.
_LOG_USUAL, _NEAREST, _FARTHEST = 3.69, 0.1, 6.0
# The index of a power law that would leave the share t above θ at this level: by how much a heavy
# one multiplies U, from which index on it counts as heavy, and up to where it does in part.
_HEAVY_TIMES, _HEAVY, _NOT_HEAVY = 2.5, 1.9, 2.2
_LEAST_HEAVY_HOME, _MOST_HEAVY_HOME = 1e-4, 0.5


def upper_end(home: float, share: float, times: float) -> float:
    """U, by the level in θ when θ was chosen, the share above θ, and the bound in θ."""
    usual = _upper_end(max(home, LEAST_HOME) * upper_end_logarithm(share))
    return _upper_end_if_heavy(home, share) * usual * _upper_end_by_distance(times)


def _upper_end(rarity: float) -> float:
    """U, from home·ln(1/t)."""
    return min(max(_RISE * rarity, _LEAST_UPPER), _MOST_UPPER)


def _upper_end_if_heavy(home: float, aimed: float) -> float:
    """The additional reach if θ lies so far above the level that the tail is heavy.

    A power law of index κ that is 1 at the level leaves t = (θ/level)^−κ above θ.
    """
    part = min(max(home, _LEAST_HEAVY_HOME), _MOST_HEAVY_HOME)
    index = upper_end_logarithm(aimed) / -float(log(np.array([part]))[0])
    light = min(max((index - _HEAVY) / (_NOT_HEAVY - _HEAVY), 0.0), 1.0)
    return _HEAVY_TIMES + light * (1.0 - _HEAVY_TIMES)


@lru_cache(maxsize=64)
def _upper_end_by_distance(times: float) -> float:
    """The additional reach if the bound is this many times θ."""
    found = float(log(np.array([max(times, 1.0)]))[0]) / _LOG_USUAL
    return min(max(found, found * found, _NEAREST), _FARTHEST)


@lru_cache(maxsize=64)
def upper_end_logarithm(share: float) -> float:
    """ln(1/share), at least 1."""
    return max(1.0, -float(log(np.array([share]))[0]))


def upper_end_weight(values: FloatArray, low: float, high: float) -> FloatArray:
    """0 up to `low`, 1 from `high` on."""
    found: FloatArray = np.minimum(np.maximum((values - low) / (high - low), 0.0), 1.0)
    return found
