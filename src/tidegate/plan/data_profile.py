"""Describe raw values to their owner, before settings are chosen.

**Not private.** Everything here is computed from raw values without noise. It is meant for the
terminal of the person who holds the data, and must not be published, logged or stored.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from tidegate.lattice import LARGEST, FloatArray, Lattice

_KEPT = 1 << 18  # values kept for quantiles; beyond, every second of them, and so on
_BUCKETS = 120  # means over time, of ever longer stretches
_PLACES = 9  # decimal places told apart
ROUNDED = 0.001  # of the sum: what rounding may move before a finer resolution is advised
_MARKERS = {10**digits - 1 for digits in range(2, 10)} | {32767, 32768, 65535}


@dataclass
class DataProfile:
    """Statistics of a stream, gathered piece by piece in bounded memory. Not private.

    >>> profile = DataProfile()
    >>> profile.push(np.array([0.5, 2, np.nan, -1]))
    >>> profile.rows, profile.missing, profile.negative, profile.places
    (4, 1, 1, 1)
    """

    rows: int = 0
    missing: int = 0
    infinite: int = 0
    negative: int = 0
    negative_sum: float = 0.0
    sum: float = 0.0
    smallest: float = math.inf
    largest: float = -math.inf
    places: int = 0  # decimal places of the values, at most 9
    _sample: list[FloatArray] = field(default_factory=list)
    _sampled: int = 0
    _stride: int = 1
    _buckets: list[float] = field(default_factory=list)
    _width: int = 1
    _open: float = 0.0
    _filled: int = 0

    def push(self, values: FloatArray) -> None:
        """Take the next values; NaN means missing."""
        numbers = np.asarray(values, dtype=np.float64)
        present = np.isfinite(numbers)
        finite = numbers[present]
        self.missing += int(np.isnan(numbers).sum())
        self.infinite += int(np.isinf(numbers).sum())
        if finite.size:
            below = finite[finite < 0]
            self.negative += int(below.size)
            self.negative_sum += float(below.sum())
            self.sum += float(finite.sum())
            self.smallest = min(self.smallest, float(finite.min()))
            self.largest = max(self.largest, float(finite.max()))
            self.places = max(self.places, _decimal_places_of_data(finite, self.places))
        self._sample_from(numbers)
        while self._width * _BUCKETS < self.rows + numbers.size:
            self._double()
        self._fill(np.where(present, numbers, 0.0))
        self.rows += numbers.size

    def quantiles(self, *shares: float) -> list[float]:
        """Quantiles of the present values (every second, fourth, … one of a long stream)."""
        kept = np.concatenate([np.empty(0), *self._sample])
        return np.quantile(kept, shares).tolist() if kept.size else [math.nan] * len(shares)

    def marker(self) -> tuple[float, float] | None:
        """The smallest or largest value if it looks like a code for missing ones, and its share.

        Instruments write -999 or 65535 where they have no reading; such a value comes again and
        again, exactly.
        """
        kept = np.concatenate([np.empty(0), *self._sample])
        for value in (self.smallest, self.largest):
            share = float((kept == value).mean()) if kept.size else 0.0
            if abs(value) in _MARKERS and share * kept.size > 1:
                return value, share
        return None

    @property
    def means(self) -> list[float]:
        """Means over pieces of equal length, in order of time."""
        return [total / self._width for total in self._buckets]

    def above(self, level: float) -> tuple[float, float]:
        """About which share of rows lies above a level, and what share of the sum it cuts off."""
        return self._cut(np.concatenate([np.empty(0), *self._sample]), level)

    def below(self, level: float) -> tuple[float, float]:
        """The profile of rows below a level of at most 0."""
        return self._cut(-np.concatenate([np.empty(0), *self._sample]), -level)

    @staticmethod
    def _cut(kept: FloatArray, level: float) -> tuple[float, float]:
        total = float(np.maximum(kept, 0.0).sum())
        if not total:
            return 0.0, 0.0
        excess = np.maximum(kept - level, 0.0)
        return float((excess > 0).mean()), float(excess.sum()) / total

    def rounded(self, resolution: Fraction, bound: Fraction, lower: Fraction) -> float:
        """How far rounding alone changes the sum, as a share of the sum of absolute values.

        Values above and below 0 are looked at apart: what rounding takes from one side does not
        make up for what it takes from the other.
        """
        numbers = np.concatenate([np.empty(0), *self._sample])
        kept = np.clip(numbers, float(lower), float(bound))
        size = float(np.abs(kept).sum())
        if not size:
            return 0.0
        lattice = Lattice(bound, resolution, lower)
        moved = lattice.units(kept) * lattice.step - kept
        sides = (float(moved[side].sum()) for side in (kept >= 0, kept < 0))
        return sum(map(abs, sides)) / size

    def fine_resolution(self, coarsest: Fraction, bound: Fraction, lower: Fraction) -> Fraction:
        """The coarsest of this and its tenths, hundredths, … that hardly changes the sum.

        Below `ROUNDED`, at this resolution and at the next finer one, so that no lucky rounding is
        taken for a fine one. As fine as the lattice goes, if none does.
        """
        resolution = coarsest
        while bound / resolution * 100 < LARGEST and resolution > Fraction(1, 10**_PLACES):
            finer = resolution / 10
            if max(self.rounded(one, bound, lower) for one in (resolution, finer)) < ROUNDED:
                break
            resolution = finer
        return resolution

    def _sample_from(self, numbers: FloatArray) -> None:
        first = -self.rows % self._stride
        kept = numbers[first :: self._stride]
        kept = kept[np.isfinite(kept)]
        self._sample.append(kept)
        self._sampled += kept.size
        while self._sampled > _KEPT:
            self._stride *= 2
            self._sample = [np.concatenate(self._sample)[::2]]
            self._sampled = self._sample[0].size

    def _fill(self, numbers: FloatArray) -> None:
        taken = min(self._width - self._filled, numbers.size)
        self._open += float(numbers[:taken].sum())
        self._filled += taken
        if self._filled < self._width:
            return
        whole = (numbers.size - taken) // self._width
        end = taken + whole * self._width
        sums = numbers[taken:end].reshape(whole, self._width).sum(axis=1)
        self._buckets += [self._open, *sums.tolist()]
        self._open, self._filled = float(numbers[end:].sum()), numbers.size - end

    def _double(self) -> None:
        """Double the length of pieces: join pairs; an odd last one becomes half full."""
        if len(self._buckets) % 2:
            self._open += self._buckets.pop()
            self._filled += self._width
        self._buckets = [
            first + second
            for first, second in zip(self._buckets[::2], self._buckets[1::2], strict=True)
        ]
        self._width *= 2


def _decimal_places_of_data(values: FloatArray, known: int) -> int:
    """The fewest decimal places that write every value."""
    for places in range(known, _PLACES):
        scaled = values * 10.0**places
        if bool((np.abs(scaled - np.rint(scaled)) <= 1e-9 * np.maximum(1.0, np.abs(scaled))).all()):
            return places
    return _PLACES


def round_above(value: float) -> Fraction:
    """The smallest of 1, 2, 5, 10, 20, … that is not below a number.

    >>> [str(round_above(value)) for value in (0.3, 7, 1000, 1001)]
    ['1/2', '10', '1000', '2000']
    """
    if value <= 0:
        return Fraction(1)
    power = Fraction(10) ** math.floor(math.log10(value))
    return next(
        step * power for step in (1, 2, 5, 10, 20) if step * power >= Fraction(repr(float(value)))
    )
