"""`DecayedSum`, `SlidingSum`, `WholeCounts`: sums and counts made from released values alone.

All of it is post-processing of a released stream: it costs nothing, and the guarantee stays what it
was. Let e be the largest error of a running sum of the released values so far.

**Decayed and sliding sums.** With weights 1 = g(0) ≥ g(1) ≥ … ≥ 0 by age, let D(t) be the sum of
g(t − i)·y(i). Summed by parts, with P the running sum,

    D(t) = P(t) − Σ (g(t − i − 1) − g(t − i))·P(i)   over i < t.

The factors of the P(i) are not negative and add up to at most 1, so D is off by at most 2e: as
accurate as the difference of two running sums, whatever the weights. (Bolot, Fawaz, Muthukrishnan,
Nikolov, Taft, *Private Decayed Predicate Sums on Streams*, ICDT 2013, state the problem and give
mechanisms of their own for it; this reduction, and its bound, are ours.)

**Whole counts.** Chan, Shi, Song (ICALP 2010) ask that a counter of bits is a whole number that
grows by 0 or 1 in each step. `WholeCounts` follows the running sum by steps from 0 to `most`:

    C(t) = C(t − 1) + min(max(round P(t) − C(t − 1), 0), most).

If every true value is a whole number from 0 to `most`, C is never further from the truth S than E,
the largest error of a rounded running sum so far. Above: where C grew, C(t) ≤ round P(t) ≤ S(t) +
E; where not, C(t) = C(t − 1) ≤ S(t − 1) + E ≤ S(t) + E. Below: where it grew by `most`, C(t) ≥
S(t − 1) − E + most ≥ S(t) − E; where by less, C(t) ≥ round P(t) ≥ S(t) − E. (The rule is ours; the
paper's is not quoted.)
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

import numpy as np

from tidegate.errors import SettingError
from tidegate.exact_numbers import whole
from tidegate.lattice import FloatArray


class DecayedSum:
    """Σ y(i)·2^(−age/half_life) over all released values, updated with each.

    >>> DecayedSum(half_life=1).push([8, 0, 0])
    array([8., 4., 2.])
    """

    def __init__(self, half_life: float) -> None:
        if not 0 < half_life < math.inf:
            raise SettingError("half_life", "must be a number of values above 0")
        self._half_life = half_life
        self._kept = 2.0 ** (-1 / half_life)
        self._sum = 0.0

    def __repr__(self) -> str:
        return f"DecayedSum(half_life={self._half_life!r})"

    def push(self, released: Iterable[float]) -> FloatArray:
        """The decayed sum after each of these released values."""
        found = []
        for value in _listed_sums(released):
            self._sum = self._sum * self._kept + value
            found.append(self._sum)
        return np.array(found)


class SlidingSum:
    """The sum of the last `window` released values, updated with each.

    >>> SlidingSum(window=2).push([1, 2, 3])
    array([1., 3., 5.])
    """

    def __init__(self, window: int) -> None:
        self._window = whole("window", window, minimum=1)
        self._last: deque[float] = deque([0.0], maxlen=self._window + 1)  # running sums

    def __repr__(self) -> str:
        return f"SlidingSum(window={self._window})"

    def push(self, released: Iterable[float]) -> FloatArray:
        """The sliding sum after each of these released values."""
        found = []
        for value in _listed_sums(released):
            self._last.append(self._last[-1] + value)
            found.append(self._last[-1] - self._last[0])
        return np.array(found)


class WholeCounts:
    """Whole numbers from 0 to `most` whose running sum follows that of the released values.

    >>> WholeCounts(most=1).push([1.7, 0.4, -3.0, 2.2])
    array([1., 1., 0., 0.])
    """

    def __init__(self, most: int = 1) -> None:
        self._most = whole("most", most, minimum=1)
        self._running = 0.0
        self._count = 0

    def __repr__(self) -> str:
        return f"WholeCounts(most={self._most})"

    def push(self, released: Iterable[float]) -> FloatArray:
        """An integer for each of these released values."""
        found = []
        for value in _listed_sums(released):
            self._running += value
            step = min(max(round(self._running) - self._count, 0), self._most)
            self._count += step
            found.append(float(step))
        return np.array(found)


def _listed_sums(released: Iterable[float]) -> list[float]:
    values: list[float] = np.asarray(released, dtype=np.float64).reshape(-1).tolist()
    return values
