"""Real values ↔ integers at a public resolution; no error or branch depends on a number's size.

Input policy: neighbouring streams differ in one value at a fixed position, so a position never
shifts. A NaN or a missing value counts as 0 in its place; a number is clamped to [lower, bound],
lower = 0 unless it is given, and rounded to the nearest multiple of the resolution (a bound that is
none is rounded outwards). What is not a number at all is an error that names the position and never
the content.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import InputError, SettingError
from tidegate.exact_numbers import said
from tidegate.tables.columns_to_numpy import MISSING, column_to_numpy, not_a_number

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

# Integers up to here are exact as floats, which the float path of `units` relies on.
LARGEST = 1 << 53

# How many thresholds apart 0 and the bound are, at least, where nobody chose a resolution. Values
# are rounded far more finely (`grain`).
FINE = 1 << 20
# For a threshold rule whose work grows with the steps, or that knows little.
COARSE = 1 << 10
# Values are rounded to a millionth of such a step, or to the next power of ten for which 64 bits
# hold all sums. A million values that are all rounded the same way are then off by half a step
# together, while noise is several steps large.
GRAIN = 10**6


def divmod_by_number(numbers: IntArray, by: int) -> tuple[IntArray, IntArray]:
    """`np.divmod` by one number, twice as fast: numpy turns only `//` into a multiplication."""
    quotients = numbers // by
    return quotients, numbers - quotients * by


def steps_by_information(price: int, information: Fraction) -> int:
    """How many steps suit a choice that charges `price`/ε values per e-fold of θ.

    With `information` = ε × values, the rule pays at most for e^(information/price) steps: on a
    lattice with more of them it cannot climb from one step to where the values are, and θ would be
    nothing. Half of what is known may be spent on that. (ln FINE is 14.)

    >>> steps_by_information(7, Fraction(50)), steps_by_information(7, Fraction(6553))
    (1024, 1048576)
    """
    return FINE if 2 * 14 * price <= information else COARSE


def default_resolution(bound: Fraction, steps: int = FINE) -> Fraction:
    """The default resolution: a function of the public bound alone.

    The largest power of ten that gives at least `steps` steps and divides the bound, at most 1.
    So whole numbers stay exact, decimals are kept, and the bound stays what it is. (A bound that no
    power of ten divides, such as 1/3, is divided into `steps` steps.)

    Privacy: it looks at no data. A finer lattice costs nothing: noise is drawn in multiples of it,
    at the same scale in the unit of the data.

    >>> default_resolution(Fraction("12.5")), default_resolution(Fraction(30_000_000))
    (Fraction(1, 100000), Fraction(1, 1))
    >>> default_resolution(Fraction(1657), COARSE), default_resolution(Fraction(100), COARSE)
    (Fraction(1, 1), Fraction(1, 100))
    """
    resolution = Fraction(1)
    while bound < steps * resolution:
        resolution /= 10
    finest = resolution / LARGEST
    while (bound / resolution).denominator != 1:
        resolution /= 10
        if resolution < finest or bound >= LARGEST * resolution:
            return bound / steps
    return resolution


# A tuple: a union of types would be made anew for every value.
_NUMBERS = (int, float, Decimal, Fraction, np.integer, np.floating, np.bool_)


class Lattice:
    """The multiples of `resolution` from `lower` to `bound`, numbered −`bottom`, …, 0, …, `top`.

    A bound that is no multiple is rounded outwards to the next one. Rules that choose a threshold
    count in *grains* of `grain` units: how finely values are rounded decides neither which
    thresholds there are nor what they cost.

    >>> lattice = Lattice(bound=Fraction(30), resolution=Fraction(1, 100))
    >>> lattice.top
    3000
    >>> lattice.units(lattice.numbers([0.126, 31, -5, float("nan")]))
    array([  13, 3000,    0,    0])
    >>> signed = Lattice(bound=Fraction(30), resolution=Fraction(1), lower=Fraction(-4))
    >>> signed.units(signed.numbers([-2.6, 31, -5, float("nan")]))
    array([-3, 30, -4,  0])
    """

    def __init__(
        self,
        bound: Fraction,
        resolution: Fraction,
        lower: Fraction = Fraction(0),
        grain: int = 1,
    ) -> None:
        self.bound, self.lower = bound, lower
        self.resolution = resolution
        # Rounded up: a bound of 12.5 in whole numbers is 13. Down, it would cut values that the
        # public bound allows.
        self.top = math.ceil(bound / resolution)
        if resolution > bound:
            raise SettingError(
                "resolution", f"must not exceed the bound {said(bound)}, not {said(resolution)}"
            )
        self.bottom = math.ceil(-lower / resolution)
        self.grain = grain
        self.grains = -(-self.top // grain)
        if max(self.top, self.bottom) >= LARGEST:
            raise SettingError("resolution", "too fine: bound/resolution must stay below 2**53")
        self._low = -self.bottom
        # Numbers of numpy: those of Python it compares with the limits of the type, for every call.
        self._ends = np.int64(-self.bottom), np.int64(self.top)
        self.end = float(self.top)  # exact; a float is compared with a float in a third of the time
        self.step = float(resolution)
        self.per_unit = float(1 / resolution)
        # Units of 1, if that is a whole number: an integer times it needs no rounding (the product
        # of floats is exact, too, up to 2**53). Otherwise every product but 0 is out of range.
        self.factor = resolution.denominator if resolution.numerator == 1 else LARGEST
        # Integers from here to there can be within the bounds; their products fit 64 bits.
        whole = (-(-self.bottom // self.factor), -(-self.top // self.factor))
        self._whole_ends = np.int64(-whole[0]), np.int64(whole[1])
        self._ends_are_whole = (self.bottom % self.factor, self.top % self.factor) == (0, 0)

    def __repr__(self) -> str:
        lower = f", lower={self.lower}" if self.lower else ""
        grain = f", grain={self.grain}" if self.grain > 1 else ""
        return f"Lattice(bound={self.bound}, resolution={self.resolution}{lower}{grain})"

    @cached_property
    def scale(self) -> Lattice:
        """The lattice of sizes |v|: up to the larger of both bounds."""
        return Lattice(max(self.bound, -self.lower), self.resolution, grain=self.grain)

    def numbers(self, values: Any, position: int = 0) -> NDArray[Any]:
        """`values` as a one-dimensional array of numbers; the only place where input can be
        refused.

        Columns of pandas, polars, pyarrow and DuckDB are read too (`tidegate.tables`).

        Raises:
            InputError: if something is not a number; it names the position, counted from
                `position`.
        """
        values = column_to_numpy(values, position)
        array: NDArray[Any] | None = None
        with suppress(ValueError, TypeError):  # it may quote a value: ours has no other as context
            array = np.asarray(values)
        if array is None or array.ndim != 1:
            raise InputError(
                "values must be one number, or a one-dimensional array or list of them"
            )
        if isinstance(values, np.ma.MaskedArray):
            values = array = np.asarray(values.filled(0))
        if array.dtype.kind in "iufb":
            return array
        if array.dtype.kind == "O" or not isinstance(values, np.ndarray):
            return self._from_objects(values, position)
        raise not_a_number(position, text=array.dtype.kind in "US")

    def units(self, numbers: NDArray[Any]) -> IntArray:
        """Clamp and round values to lattice units; a new array of int64."""
        if numbers.dtype.kind == "f" or self.factor >= LARGEST:
            with np.errstate(all="ignore"):  # whatever the value, it is no event
                # fmax takes the 0 instead of a NaN.
                if self.per_unit == 1.0 and not self.bottom:
                    scaled = np.fmax(numbers, 0.0, dtype=np.float64, casting="unsafe")
                else:
                    scaled = np.multiply(numbers, self.per_unit, dtype=np.float64, casting="unsafe")
                    if self.bottom:
                        np.copyto(scaled, 0.0, where=np.isnan(scaled))
                    np.fmax(scaled, float(-self.bottom), out=scaled)
                np.fmin(scaled, float(self.top), out=scaled)
                np.rint(scaled, out=scaled)
            rounded: IntArray = scaled.astype(np.int64)
            return rounded
        if numbers.dtype.kind == "u" and numbers.dtype.itemsize == 8:
            # May not fit int64 before it is clamped.
            numbers = np.minimum(numbers, np.uint64(self._whole_ends[1]), dtype=np.uint64)
        integers = numbers.astype(np.int64, copy=False)
        clamped: IntArray = integers.clip(*self._whole_ends)
        if self.factor != 1:
            clamped *= self.factor
            if not self._ends_are_whole:
                np.clip(clamped, *self._ends, out=clamped)
        return clamped

    def bounded(self, levels: FloatArray) -> None:
        """Convert levels from units to the unit of the data, within the bounds, in place."""
        levels *= self.step
        np.clip(levels, float(self.lower), float(self.bound), out=levels)

    def unit(self, value: Any, position: int = 0) -> int:
        """Clamp and round one value to lattice units; the same result as `units`."""
        low, top = self._low, self.top
        kind = type(value)
        if kind is int and self.factor != LARGEST:
            unit: int = value * self.factor
            return unit if low <= unit <= top else low if unit < low else top
        if kind is not float and (kind is not int or not -LARGEST < value < LARGEST):
            value = self._float(value, position)
        scaled: float = value * self.per_unit
        if low < scaled < top:
            return round(scaled)
        if scaled >= top:
            return top
        return low if scaled <= low else 0  # a NaN

    def _from_objects(self, values: Iterable[Any], position: int) -> FloatArray:
        return np.array(
            [self._float(value, position + index) for index, value in enumerate(values)],
            dtype=np.float64,
        )

    def _float(self, value: Any, position: int) -> float:
        if value is None:
            return 0.0
        if isinstance(value, _NUMBERS):
            try:
                return float(value)
            except OverflowError:  # an integer beyond every float: clamped like any large value
                return float("inf") if value > 0 else -float("inf")
            except (ValueError, TypeError):  # a signalling NaN, a duration
                pass
        if type(value).__name__ in MISSING:
            return 0.0
        raise not_a_number(position, text=isinstance(value, str)) from None


def one_number(value: object) -> float | None:
    """A single value as a float. None: it is not a number, or NaN."""
    try:
        if isinstance(value, int | float | Decimal | Fraction | np.integer | np.floating):
            number = float(value)
            return None if isinstance(value, bool) or math.isnan(number) else number
    except OverflowError:  # an integer beyond every float
        return math.copysign(math.inf, value > 0 or -1)  # type: ignore[operator]  # it is a number
    except (ValueError, TypeError):  # a signalling NaN, a complex number
        pass
    return None
