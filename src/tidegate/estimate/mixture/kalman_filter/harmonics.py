"""Harmonics of public periods: their sums over any range of positions, in closed form.

A cycle of period T is Σ_h a_h·cos(2πhp/T) + b_h·sin(2πhp/T) at position p, h = 1 … 4. Its first
four harmonics are most of a daily cycle; more would cost more to learn than they tell. Days that
differ by the day of the week are a daily cycle whose a_h and b_h have the period of a week
themselves: products of both are harmonics of the week next to those of the day, h·7 ± 1. With
ω = 2πh/T, the sums over positions before p are, up to a constant, sin(ω(p − ½))/(2·sin(ω/2)) and
−cos(ω(p − ½))/(2·sin(ω/2)).

Angles are fractions of a turn, reduced in whole numbers; sine and cosine are polynomials in a fixed
order. So all machines agree on every bit (see `portable_exp_and_log`).
"""

from __future__ import annotations

from itertools import permutations
from typing import NamedTuple

import numpy as np

from tidegate.lattice import FloatArray, IntArray

HARMONICS = 4
MOST_PERIODS = 3
LONGEST_PERIOD = 1 << 40  # rows; whole numbers stay far from overflow
# What is modulated: the first harmonics of a period, where a longer one has a whole number of it,
# at most as many as a month has days. (On taxi trips more harmonics told nothing more.)
MODULATED, _MOST_IN_LONGER = 2, 31
_TURN = 6.283185307179586
# Coefficients 1/n! of the series of sine and cosine up to an eighth of a turn, highest power first.
_SINE = tuple(np.array(part) for part in (1 / 355687428096000, -1 / 1307674368000, 1 / 6227020800,
    -1 / 39916800, 1 / 362880, -1 / 5040, 1 / 120, -1 / 6, 1.0))  # fmt: skip
_COSINE = tuple(np.array(part) for part in (1 / 20922789888000, -1 / 87178291200, 1 / 479001600,
    -1 / 3628800, 1 / 40320, -1 / 720, 1 / 24, -1 / 2, 1.0))  # fmt: skip


class HarmonicFrequency(NamedTuple):
    """`number` cycles in `period` rows; `order` is 1 … 4: higher orders have smaller priors."""

    period: int
    number: int
    order: int


Cycle = tuple[HarmonicFrequency, ...]


def harmonics_of_periods(periods: tuple[int, ...], *, modulated: bool = False) -> Cycle:
    """Four harmonics of each period, without those above the Nyquist frequency.

    `modulated`: also those by which a period changes with a longer one, as days with the week.

    >>> [one.number for one in harmonics_of_periods((24, 168), modulated=True)]
    [1, 2, 3, 4, 1, 2, 3, 4, 6, 8, 13, 15]
    """
    found = [
        HarmonicFrequency(period, number, number)
        for period in periods
        for number in range(1, HARMONICS + 1)
    ]
    for longer, period in permutations(periods, 2) if modulated else ():
        times, rest = divmod(longer, period)
        if rest == 0 and times <= _MOST_IN_LONGER:
            beside = (number * times + by for number in range(1, MODULATED + 1) for by in (-1, 1))
            new = [
                HarmonicFrequency(longer, number, HARMONICS)
                for number in beside
                if number > HARMONICS
            ]
            found += [one for one in new if one not in found]
    return tuple(one for one in found if 2 * one.number < one.period)


class Harmonics:
    """The harmonics of a cycle: a cosine and a sine each.

    Attributes:
        count: cosines and sines.
        order: that of each.
    """

    def __init__(self, cycle: Cycle) -> None:
        parts = np.array(cycle, dtype=np.int64).reshape(-1, 3).T
        self._period, self._number, order = parts
        self.count = 2 * len(cycle)
        self.order: FloatArray = np.repeat(order, 2).astype(np.float64)
        _, half_sine = _harmonic_cos_sin(self._number, 2 * self._period)  # sin(ω/2)
        self._scale: FloatArray = 2.0 * half_sine

    def at(self, positions: int | IntArray) -> FloatArray:
        """The value of each harmonic at these positions; the last axis counts harmonics."""
        return self._pairs(2 * (np.asarray(positions)[..., np.newaxis] % self._period))

    def before(self, positions: int | IntArray) -> FloatArray:
        """The sum of each harmonic over the positions before these, up to a constant."""
        halves = 2 * (np.asarray(positions)[..., np.newaxis] % self._period) - 1
        found = self._pairs(halves)
        swapped = np.empty_like(found)
        swapped[..., 0::2] = found[..., 1::2] / self._scale
        swapped[..., 1::2] = -found[..., 0::2] / self._scale
        return swapped

    def _pairs(self, halves: IntArray) -> FloatArray:
        """Cosine and sine alternately, at positions in half rows."""
        cosine, sine = _harmonic_cos_sin(self._number * halves, 2 * self._period)
        found = np.empty((*halves.shape[:-1], self.count))
        found[..., 0::2], found[..., 1::2] = cosine, sine
        return found


def _harmonic_cos_sin(part: IntArray, whole: IntArray) -> tuple[FloatArray, FloatArray]:
    """Cosine and sine of part/whole of a full turn, for integers.

    >>> cosine, sine = _harmonic_cos_sin(np.array([0, 1, 3]), np.array([12, 12, 12]))
    >>> cosine.round(3)[:2].tolist(), sine.round(3).tolist()
    ([1.0, 0.866], [0.0, 0.5, 1.0])
    """
    quarter, left = np.divmod(
        4 * (part % whole), whole
    )  # left/(4·whole) of a turn beyond a quarter
    mirrored = 2 * left > whole
    near = np.where(mirrored, whole - left, left) * _TURN / (4 * whole)  # up to an eighth
    square = near * near
    sine, cosine = _harmonic_horner(_SINE, square) * near, _harmonic_horner(_COSINE, square)
    sine, cosine = np.where(mirrored, cosine, sine), np.where(mirrored, sine, cosine)
    turned = quarter % 2 == 1
    sine, cosine = np.where(turned, cosine, sine), np.where(turned, sine, cosine)
    return (
        np.where((quarter == 1) | (quarter == 2), -cosine, cosine),
        np.where(quarter >= 2, -sine, sine),
    )


def _harmonic_horner(parts: tuple[FloatArray, ...], at: FloatArray) -> FloatArray:
    total: FloatArray = parts[0] * at
    for part in parts[1:-1]:
        total = (total + part) * at
    return total + parts[-1]
