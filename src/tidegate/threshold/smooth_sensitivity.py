"""Smooth sensitivity of a quantile (Nissim, Raskhodnikova, Smith), in O(m log m)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tidegate.lattice import FloatArray, IntArray
from tidegate.randomness import WordSource
from tidegate.threshold.percentiles import rank_of


def noisy_quantile(
    values: IntArray, percentile: Fraction, decay: float, reach: float, top: int, ceiling: int
) -> int:
    """A quantile plus `reach` smooth sensitivities, rounded, within [1, ceiling].

    In floats: what uses it says `arithmetic="float"`.
    """
    ordered = np.sort(values)
    rank = rank_of(percentile, ordered.size)
    spread = smooth_sensitivity(ordered, rank, top, decay)
    theta = float(ordered[rank - 1]) + spread * reach
    return int(min(max(round(theta), 1), ceiling))


def open_uniform(words: WordSource) -> float:
    """A float strictly between 0 and 1, from one word."""
    return (float(int(words.take(1)[0]) >> (words.bits - 52)) + 0.5) * 2.0**-52


def smooth_sensitivity(ordered: IntArray, rank: int, top: int, decay: float) -> float:
    """max over k of e^(−decay·k) · max over t = 0…k+1 of V(P+t) − V(P+t−k−1).

    V is `ordered` (ascending, counted from 1) with V(i) = 0 below and `top` above; P is `rank`.

    With low = P+t−k−1 ≤ P ≤ high = P+t this is the maximum of e^(−decay·(high−low−1))·(V(high) −
    V(low)) over all pairs low < high around P. For high < high' and low < low',

        (V(high) − V(low))·(V(high') − V(low')) ≥ (V(high) − V(low'))·(V(high') − V(low)),

    since (a+x)(a+y) ≥ a(a+x+y) for x, y ≥ 0; so the best `low` never falls as `high` grows, and
    divide and conquer over `high` looks at O(m) pairs per halving. All intervals of a halving at
    once. (The authors' code lets t stop at k: then it is no upper bound.)
    """
    values = np.concatenate(([0], ordered, [top])).astype(np.float64)  # values[i] = V(i), 0…m+1
    highs, lows = _sensitivity_ends(values, rank)
    best = 0.0
    # Each task: rows [first, last] of highs still to do; their best low lies in [left, right].
    first, last = np.array([0]), np.array([highs.size - 1])
    left, right = np.array([0]), np.array([lows.size - 1])
    while first.size:
        middle = (first + last) // 2
        widths = right - left + 1
        begins = np.cumsum(widths) - widths
        row = np.repeat(np.arange(middle.size), widths)
        column = np.arange(row.size) - begins[row] + left[row]
        high, low = highs[middle[row]], lows[column]
        gains = _sensitivity_gain(values, high, low, decay)
        peaks = np.maximum.reduceat(gains, begins)
        best = max(best, float(peaks.max()))
        hits = np.flatnonzero(gains == peaks[row])
        _, chosen = np.unique(row[hits], return_index=True)  # the leftmost best low of each row
        split = column[hits[chosen]]
        lower, upper = middle > first, middle < last
        first, last, left, right = (
            np.concatenate((first[lower], middle[upper] + 1)),
            np.concatenate((middle[lower] - 1, last[upper])),
            np.concatenate((left[lower], split[upper])),
            np.concatenate((split[lower], right[upper])),
        )
    return best


def _sensitivity_ends(values: FloatArray, rank: int) -> tuple[IntArray, IntArray]:
    """The only places that can matter: nearest to the rank among equal values."""
    highs = np.arange(rank, values.size)
    lows = np.arange(0, rank + 1)
    first_of_value = np.concatenate(([True], np.diff(values[highs]) > 0))
    last_of_value = np.concatenate((np.diff(values[lows]) > 0, [True]))
    return highs[first_of_value], lows[last_of_value]


def _sensitivity_gain(
    values: FloatArray, high: IntArray, low: IntArray, decay: float
) -> FloatArray:
    gains: FloatArray = values[high] - values[low]
    gains *= np.exp(-decay * np.maximum(high - low - 1, 0))
    return gains
