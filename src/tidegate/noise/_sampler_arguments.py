"""Checks of the samplers' arguments. Settings are public, so the messages may show them."""

from __future__ import annotations

from fractions import Fraction
from numbers import Integral, Rational

from tidegate.errors import SettingError
from tidegate.exact_numbers import said


def exact_sampler_argument(name: str, value: object, *, allow_zero: bool = False) -> Fraction:
    """`value` as a Fraction of Python integers; floats are refused, since 0.1 is not 1/10."""
    if isinstance(value, bool) or not isinstance(value, Rational):
        raise SettingError(name, f"must be an exact fraction or integer, not {said(value)}")
    fraction = Fraction(int(value.numerator), int(value.denominator))
    if fraction < 0 or (fraction == 0 and not allow_zero):
        raise SettingError(
            name, f"must be {'at least zero' if allow_zero else 'positive'}, not {said(value)}"
        )
    return fraction


def whole_sampler_argument(name: str, value: object, *, minimum: int) -> int:
    """`value` as a Python integer of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise SettingError(name, f"must be a whole number, not {said(value)}")
    number = int(value)
    if number < minimum:
        raise SettingError(name, f"must be at least {minimum}, not {said(number)}")
    return number
