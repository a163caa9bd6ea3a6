"""Numbers as users write them: exact fractions, with limits that are checked before any work."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from tidegate.errors import SettingError

Number = int | float | str | Fraction | Decimal
_SHOWN = 60  # characters of a wrong setting in a message


# What a number may be, checked before anything is computed from it: 1e3000000000 is twelve
# characters and a gigabyte. Whatever passes as a number prints as text that passes too.
_LONGEST = 4000  # characters
_EXPONENT = 1000  # a power of ten, either way
_BITS = 4096  # of a numerator or denominator
_DECIMAL = r"(?:\d+\.?\d*|\.\d+)(?:e(?P<exponent>[-+]?\d{1,20}))?"
_NUMBER = re.compile(rf"\s*[-+]?(?:\d+/\d+|{_DECIMAL})\s*", re.ASCII | re.IGNORECASE)
LARGEST = 1 << 62
"""No whole number of a setting is larger: positions, lengths and counts stay below 64 bits."""


def exact(name: str, value: object) -> Fraction:
    """The fraction that the decimal text of `value` means: the float 0.1 is 1/10.

    (As a binary number the float 0.1 is a little more than 1/10: it would overspend a budget.)
    Text is digits of ASCII, with a point and an exponent, or a fraction of two whole numbers.

    >>> exact("epsilon", 0.1), exact("epsilon", "2/3")
    (Fraction(1, 10), Fraction(2, 3))
    """
    if isinstance(value, bool | np.bool_) or not isinstance(
        value, int | float | str | Fraction | Decimal | np.integer | np.floating
    ):
        raise SettingError(name, f"must be a number, not {type(value).__name__}")
    try:
        number = _exact_fraction(str(value) if isinstance(value, float | np.floating) else value)
    except (ValueError, OverflowError, ZeroDivisionError, TypeError):  # the last: a duration
        comma = isinstance(value, str) and "," in value
        how = ": write decimals as 0.1, and thousands as 1000" if comma else ""
        raise SettingError(name, f"must be a finite number, not {said(value)}{how}") from None
    if number is None or max(number.numerator, -number.numerator, number.denominator) >> _BITS:
        raise SettingError(name, "is too large, too small or too long a number")
    return number


def _exact_fraction(value: Any) -> Fraction | None:
    """The fraction. None: it is too large to compute; ValueError: it is not a number."""
    if isinstance(value, str):
        if len(value) > _LONGEST:
            return None
        match = _NUMBER.fullmatch(value)
        if match is None:
            raise ValueError
        if abs(int(match["exponent"] or 0)) > _EXPONENT:
            return None
    elif isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError
        if abs(value.adjusted()) > _EXPONENT or len(value.as_tuple().digits) > _LONGEST:
            return None
    elif isinstance(value, np.integer):
        return Fraction(int(value))
    return Fraction(value)


def said(value: object) -> str:
    """The number as text, shortened for messages: it may have a thousand digits.

    >>> said(0.5), said("x"), said(10**99)
    ('0.5', "'x'", '100000000000000000000000000000000000000000000000000000000000… (100 characters)')
    """
    try:
        text = repr(value) if isinstance(value, str) else str(value)
    except (ValueError, RecursionError):  # more digits, or deeper, than Python likes to print
        return f"one {type(value).__name__} that is too long to show"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text):,} characters)"


def roughly(number: Fraction | int) -> str:
    """A number of any size, to three digits.

    >>> roughly(Fraction(2, 3)), roughly(10**400)
    ('0.667', 'more than 1e308')
    """
    try:
        return f"{float(number):.3g}"
    except OverflowError:
        return "more than 1e308"


def positive(name: str, value: object) -> Fraction:
    """An exact number greater than zero."""
    number = exact(name, value)
    if number <= 0:
        raise SettingError(name, f"must be greater than 0, not {said(number)}")
    return number


def whole(name: str, value: object, minimum: int) -> int:
    """A whole number of at least `minimum`, below 2**62; 16.0 and "16" count as whole."""
    number = exact(name, value)
    if number.denominator != 1:
        raise SettingError(name, f"must be a whole number, not {said(number)}")
    if number < minimum:
        raise SettingError(name, f"must be at least {minimum}, not {said(number)}")
    if number > LARGEST:
        raise SettingError(name, f"must be at most 2**62, not {said(number)}")
    return int(number)


def shown(number: Fraction) -> str:
    """Exact and short: a decimal if there is one, else a fraction, else an approximation.

    >>> shown(Fraction(3, 10)), shown(Fraction(2, 3)), shown(Fraction(10**20 + 1, 3 * 10**21))
    ('0.3', '2/3', '≈0.0333333')
    """
    for places in range(13):
        scaled = abs(number) * 10**places
        if scaled.denominator == 1:
            digits = f"{int(scaled):0{places + 1}d}"
            point = len(digits) - places
            decimal = digits[:point] + ("." + digits[point:] if places else "")
            return f"-{decimal}" if number < 0 else decimal
    text = str(number)
    return text if len(text) <= 15 else f"≈{float(number):.6g}"
