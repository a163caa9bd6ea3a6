"""exp and log with the same bits on every machine, without a mathematical library.

IEEE arithmetic (+ − × ÷ √) is the same everywhere; exp and log are not, they come from whatever
library numpy or Python was built with. What is published must not depend on it. Constants are
therefore computed in whole numbers, in decimals (whose every digit is specified) where those leave
a doubt, and weights by plain arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from functools import cache

import numpy as np

from tidegate.lattice import FloatArray

_DIGITS = 30
_LN2 = 0.6931471805599453
# A halving in this many equal parts, and how wide one is.
PARTS = 32
PART = _LN2 / PARTS
# Halving more often than this leaves less than the error of `halved_each`: no weight at all.
NOTHING = 36.0


def _each(function: Callable[[float], float], values: FloatArray) -> FloatArray:
    different, where = np.unique(values.reshape(-1), return_inverse=True)
    found = [function(value) for value in different.tolist()]
    return np.array(found)[where].reshape(values.shape)


def exp(values: FloatArray) -> FloatArray:
    """e^x, correctly rounded: the result of `one_exp` for each entry, by the same steps.

    >>> exp(np.array([0.0, 1.0])).tolist()
    [1.0, 2.718281828459045]
    """
    near = np.abs(values) < _NEAR
    inside = np.where(near, values, 0.0)
    places = inside * 256.0 + _CENTRE - _CENTRE
    rest = inside - places * 0.00390625
    series = rest + rest * rest * (0.5 + rest * (_SIXTH + rest * (_24TH + rest * _120TH)))
    firsts, seconds = _exp_and_log_tables()
    place = places.astype(np.intp)
    first = firsts[place]
    second = seconds[place] + first * series
    doubt = first * _IN_DOUBT
    found: FloatArray = first + (second + doubt)
    undecided = ~near | (found != first + (second - doubt))
    if undecided.any():
        found[undecided] = _each(_exp_in_integers, values[undecided])
    return found


def expm1(values: FloatArray) -> FloatArray:
    """e^x − 1, accurate to the last bits also where x is nearly 0."""
    with localcontext(Context(prec=_DIGITS)):
        return _each(lambda value: float(Decimal(value).exp() - 1), values)


def log(values: FloatArray) -> FloatArray:
    """ln x, correctly rounded."""
    return _each(one_log, values)


_FIXED = 80  # binary places of fixed-point numbers
_UNCERTAIN = 1 << 11  # units in the last place, more than all roundings down together
_FARTHEST = 700.0  # beyond, e^x or its reciprocal may not be a normal number
_LEAST, _MOST = 1e-300, 1e300
_MIDDLE, _LN_MIDDLE = 0.7071067811865476, -_LN2 / 2
_ODD = (15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0)


def _exp_fixed_point(value: Decimal) -> int:
    return int(value * (1 << _FIXED))


def _exp_powers(steps: int, count: int) -> list[Decimal]:
    """e^(k/steps) for k = 0, …, count − 1; products take a hundredth of the time of `exp`."""
    step, found = (Decimal(1) / steps).exp(), [Decimal(1)]
    while len(found) < count:
        found.append(found[-1] * step)
    return found


with localcontext(Context(prec=2 * _DIGITS)):
    _LN2_FIXED = _exp_fixed_point(Decimal(2).ln())
    # e^x for multiples of 1/64, and of 1/4096 below that.
    _COARSE, _FINE = (list(map(_exp_fixed_point, _exp_powers(steps, 64))) for steps in (64, 4096))
_ONE, _2ND, _3RD, _4TH, _5TH = ((1 << _FIXED) // each for each in (1, 2, 6, 24, 120))
_BELOW_STEP = (1 << _FIXED - 12) - 1
_MANTISSA = float(1 << 53)
_NEAR, _PLACES = 3.9, 1024  # up to here floats propose, in steps of 1/256
_CENTRE = 1.5 * (1 << 52)  # added and taken away, it rounds to a whole number
_SIXTH, _24TH, _120TH = 1 / 6, 1 / 24, 1 / 120
_IN_DOUBT = 1 / (1 << 60)  # of the result: twice what errors add up to


# e^(k/256) as sums of two floats, for k = 0 … 1024, −1024 … −1: negative indices work.
_FIRST_FLOATS: list[float] = []
_SECOND_FLOATS: list[float] = []


def _fill_exp_and_log_tables() -> None:
    """Fill the tables. Threads may race: each assigns whole lists, the tested one last."""
    with localcontext(Context(prec=2 * _DIGITS)):
        up = _exp_powers(256, _PLACES + 1)
        exact = up + [1 / each for each in reversed(up[1:])]
        first = [float(each) for each in exact]
        _FIRST_FLOATS[:] = first
        _SECOND_FLOATS[:] = [float(a - Decimal(b)) for a, b in zip(exact, first, strict=True)]


@cache
def _exp_and_log_tables() -> tuple[FloatArray, FloatArray]:
    """Both tables as arrays."""
    if not _SECOND_FLOATS:
        _fill_exp_and_log_tables()
    return np.array(_FIRST_FLOATS), np.array(_SECOND_FLOATS)


def one_exp(value: float) -> float:
    """`exp` of one number: floats first, integers if the rounding is in doubt, then decimals.

    >>> one_exp(1.0)
    2.718281828459045
    """
    if -_NEAR < value < _NEAR:
        # e^(k/256) is kept as a sum of two floats; of e^r − 1 with |r| ≤ 1/512 the first five
        # terms do: all errors together are below 2^-61 of the result.
        places = value * 256.0 + _CENTRE - _CENTRE
        rest = value - places * 0.00390625
        series = rest + rest * rest * (0.5 + rest * (_SIXTH + rest * (_24TH + rest * _120TH)))
        if not _SECOND_FLOATS:
            _fill_exp_and_log_tables()
        place = int(places)
        first = _FIRST_FLOATS[place]
        second = _SECOND_FLOATS[place] + first * series
        doubt = first * _IN_DOUBT
        found = first + (second + doubt)
        if found == first + (second - doubt):
            return found
    return _exp_in_integers(value)


def _exp_in_integers(value: float) -> float:
    """e^x correctly rounded; decimals only if integers leave doubt."""
    if -_FARTHEST < value < _FARTHEST:
        found, doublings = _portable_exp_of_fixed(_portable_fixed_of_float(value))
        rounded = float(found + _UNCERTAIN)
        if rounded == float(found - _UNCERTAIN):
            return math.ldexp(rounded, doublings - _FIXED)
    return float(Decimal(value).exp(Context(prec=_DIGITS)))


def one_log(value: float) -> float:
    """ln x, correctly rounded: like `one_exp`, by a Newton step from a series in floats.

    x·e^−y = 1 + d for a y that is nearly ln x, and ln x = y + d − d²/2 + …, where the next term is
    far below the last place. What y is off by goes into d, so it decides nothing.

    >>> one_log(10.0)
    2.302585092994046
    """
    if value == 1.0:
        return 0.0
    if _LEAST < value < _MOST:
        mantissa, exponent = math.frexp(value)
        near = _portable_fixed_of_float(_near_log(mantissa) + exponent * _LN2)
        power, doublings = _portable_exp_of_fixed(-near)
        product, places = int(mantissa * _MANTISSA) * power, 53 - exponent - doublings
        off = (product >> places if places >= 0 else product << -places) - _ONE
        found = near + off - (off * off >> _FIXED + 1)
        rounded = float(found + 2 * _UNCERTAIN)
        if rounded == float(found - 2 * _UNCERTAIN):
            return math.ldexp(rounded, -_FIXED)
    return float(Decimal(value).ln(Context(prec=_DIGITS)))


def _near_log(mantissa: float) -> float:
    """ln m for ½ ≤ m < 1, to about 10⁻¹⁴: 2·artanh of (m − c)/(m + c), with the middle c."""
    ratio = (mantissa - _MIDDLE) / (mantissa + _MIDDLE)
    square, series = ratio * ratio, 0.0
    for odd in _ODD:
        series = series * square + 1 / odd
    return 2 * ratio * series + _LN_MIDDLE


def _portable_fixed_of_float(value: float) -> int:
    mantissa, exponent = math.frexp(value)
    whole, places = int(mantissa * _MANTISSA), exponent + _FIXED - 53
    return whole << places if places >= 0 else whole >> -places


def _portable_exp_of_fixed(fixed: int) -> tuple[int, int]:
    """e^x as a fixed-point number from 1 to 2, off by fewer than 1,100 units, and its doublings."""
    # Off by a unit, and another for each doubling.
    doublings, rest = divmod(fixed, _LN2_FIXED)
    step = rest >> _FIXED - 12
    rest &= _BELOW_STEP
    # Six terms of the series: (1/4096)^6/6! < 2^-81.
    series = _4TH + (rest * _5TH >> _FIXED)
    series = _3RD + (rest * series >> _FIXED)
    series = _2ND + (rest * series >> _FIXED)
    series = _ONE + (rest * series >> _FIXED)
    series = _ONE + (rest * series >> _FIXED)
    return (_COARSE[step >> 6] * _FINE[step & 63] >> _FIXED) * series >> _FIXED, doublings


# 2^(−k/32) for k = 0 … 31, and halved again and again, which is exact.
# (The tables of `one_exp` would take longer than these few.)
_FIRST = [_exp_in_integers(part) for part in np.linspace(0.0, -_LN2, PARTS, False).tolist()]
POWERS = [math.ldexp(part, -whole) for whole in range(int(NOTHING) + 1) for part in _FIRST]


_POWERS = np.array(POWERS)


def halved_each(times: FloatArray) -> FloatArray:
    """2^−t for each t from 0 to `NOTHING`, to about 10⁻¹⁰: by a table and terms of the series.

    `kalman_filters.weigh_filters` has the same written out for single numbers, bit for bit.

    >>> halved_each(np.array([0.0, 3.0])).tolist()
    [1.0, 0.125]
    """
    scaled = times * PARTS
    step = scaled.astype(np.intp)
    power = (step - scaled) * PART
    series = 1.0 + power * (1.0 + power * (0.5 + power * (1 / 6 + power * (1 / 24))))
    found: FloatArray = _POWERS[step] * series
    return found
