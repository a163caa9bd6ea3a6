"""Settings of stages as checked fields (`Exact`, `Whole`, `Choice`, `Flag`), kept exactly.

A stage is a frozen, keyword-only dataclass whose fields are the descriptors below. They turn what
a user may write (0.1, "1/10", Decimal, …) into one exact value, or refuse it by name:

>>> from dataclasses import dataclass
>>> @dataclass(frozen=True, kw_only=True, repr=False)
... class Example(Spec):
...     KIND = "example.Example"
...     epsilon: Exact = Exact()
...     fanout: Whole = Whole(minimum=2, default=16)
>>> Example(epsilon=0.1)
Example(epsilon=1/10, fanout=16)
>>> Example(epsilon="NaN")
Traceback (most recent call last):
    ...
tidegate.errors.SettingError: epsilon: must be a finite number, not 'NaN'
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any, ClassVar, Generic, TypeVar, cast

import numpy as np

from tidegate.errors import SettingError
from tidegate.exact_numbers import Number, exact, positive, said, whole

Kept = TypeVar("Kept")
Given = TypeVar("Given")
_REQUIRED: Any = object()


class Setting(Generic[Kept, Given]):
    """A dataclass field that checks its value and stores the checked value.

    (Dataclasses pass assignments on to descriptors, in frozen classes too.)
    """

    def __init__(self, default: Any = _REQUIRED) -> None:
        self._default = default

    def check(self, value: Given) -> Kept:
        """The value to store; raises a `SettingError` that names this setting."""
        raise AssertionError("every kind of setting says how to check it")

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> Kept:
        """Read a checked setting; on the class, its default."""
        if instance is not None:
            kept: Kept = instance.__dict__[self.name]
            return kept
        if self._default is _REQUIRED:
            raise AttributeError(self.name)  # tells dataclass that there is no default
        return self.check(self._default)

    def __set__(self, instance: object, value: Given) -> None:
        instance.__dict__[self.name] = self.check(value)


class Exact(Setting[Fraction, Number]):
    """A positive number, stored as a `Fraction`."""

    # Wide enough for every use; beyond, formulas in floats would overflow.
    smallest: ClassVar[Fraction] = Fraction(1, 10**18)
    largest: ClassVar[Fraction] = Fraction(10**18)

    def check(self, value: Number) -> Fraction:
        """Require a positive number within sane limits."""
        return _within_setting(self.name, value, self.smallest, self.largest)


def within(name: str, value: Number, kind: type[Exact]) -> Fraction:
    """The value that such a setting would store, for a preset that computes with it first."""
    return _within_setting(name, value, kind.smallest, kind.largest)


def _within_setting(name: str, value: Number, low: Fraction, high: Fraction) -> Fraction:
    number = positive(name, value)
    if not low <= number <= high:
        limits = f"must lie between {float(low):g} and {float(high):g}"
        raise SettingError(name, f"{limits}, not {said(value)}")
    return number


class Epsilon(Exact):
    """A privacy budget."""

    smallest = Fraction(1, 10**9)
    largest = Fraction(10**6)


class Delta(Exact):
    """The probability that the guarantee fails."""

    smallest = Fraction(1, 10**100)
    largest = 1 - Fraction(1, 10**9)


class Flag(Setting[bool, bool]):
    """True or False; text such as "false" is refused, since it would count as true."""

    def check(self, value: bool) -> bool:
        """True or False."""
        return flag(self.name, value)


def flag(name: str, value: object) -> bool:
    """Check True or False, for a preset that branches on it."""
    if not isinstance(value, bool | np.bool_):
        raise SettingError(name, f"must be True or False, not {said(value)}")
    return bool(value)


class OptionalExact(Setting[Fraction | None, Number | None]):
    """Like `Exact`, but `None` means "decide for me"."""

    def check(self, value: Number | None) -> Fraction | None:
        """Allow None; else a positive number within sane limits."""
        return (
            None
            if value is None
            else _within_setting(self.name, value, Delta.smallest, Exact.largest)
        )


class Lower(Setting[Fraction, Number]):
    """A lower limit: 0, the default, or a number below it."""

    def __init__(self) -> None:
        super().__init__(0)

    def check(self, value: Number) -> Fraction:
        """Require at most 0, within sane limits."""
        number = exact(self.name, value)
        if number > 0:
            raise SettingError(
                self.name, f"must be 0 or below, not {said(value)}: 0 lies between the two bounds"
            )
        if number and not Exact.smallest <= -number <= Exact.largest:
            raise SettingError(self.name, f"must lie between -1e18 and -1e-18, not {said(value)}")
        return number


class Resolution(Setting[Fraction, Number | None]):
    """Like `Exact`; None means "derive it from the bound", which its owner does."""

    def check(self, value: Number | None) -> Fraction:
        """Require a positive number within sane limits, or None, which the owner replaces."""
        if value is None:
            return cast("Fraction", None)
        return _within_setting(self.name, value, Exact.smallest, Exact.largest)


class Whole(Setting[int, int]):
    """A whole number of at least `minimum`."""

    def __init__(self, minimum: int, default: Any = _REQUIRED) -> None:
        super().__init__(default)
        self.minimum = minimum

    def check(self, value: int) -> int:
        """Require a whole number of at least `minimum`."""
        return whole(self.name, value, self.minimum)


class OptionalWhole(Setting[int | None, int | None]):
    """Like `Whole`, but `None`, the default, means "decide for me"."""

    def __init__(self, minimum: int) -> None:
        super().__init__(None)
        self.minimum = minimum

    def check(self, value: int | None) -> int | None:
        """Allow None; else a whole number of at least `minimum`."""
        return None if value is None else whole(self.name, value, self.minimum)


class Choice(Setting[str, str]):
    """One of several names."""

    def __init__(self, *names: str, default: Any = _REQUIRED) -> None:
        super().__init__(default)
        self.names = names

    def check(self, value: str) -> str:
        """Require one of the names."""
        if value not in self.names:
            raise SettingError(
                self.name, f"must be one of {', '.join(self.names)}, not {said(value)}"
            )
        return str(value)


class OptionalChoice(Setting[str | None, str | None]):
    """Like `Choice`, but `None`, the default, means "decide for me"."""

    def __init__(self, *names: str) -> None:
        super().__init__(None)
        self.names = names

    def check(self, value: str | None) -> str | None:
        """Allow None, or one of the names."""
        if value is not None and value not in self.names:
            raise SettingError(
                self.name, f"must be one of {', '.join(self.names)}, not {said(value)}"
            )
        return value


class Spec:
    """Base of every frozen specification: compared by value, short repr, stored as plain data.

    Privacy: noise keys are derived from a digest of `settings()`. `KIND` identifies the
    specification there and in stored settings, so it is written by hand: renaming a class or moving
    a file changes no noise and refuses no state. Two specifications that behave differently need
    different KINDs, so a subclass does not inherit one.
    """

    KIND: ClassVar[str]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        kind = vars(cls).get("KIND")
        if not isinstance(kind, str) or not kind:
            raise TypeError(
                f"{cls.__name__} has no KIND: write one in the class, for example "
                f'KIND: ClassVar[str] = "family.{cls.__name__}". It identifies the noise, so it '
                "must stay the same when the class is renamed"
            )

    def settings(self) -> dict[str, Any]:
        """The specification as plain data (numbers that must stay exact become strings)."""
        values: dict[str, Any] = {"kind": self.KIND}
        for item in fields(self):  # type: ignore[arg-type]  # every Spec is a dataclass
            values[item.name] = _plain_setting(getattr(self, item.name))
        return values

    def __repr__(self) -> str:
        shown = (f"{item.name}={_shown_setting(getattr(self, item.name))}" for item in fields(self))  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(shown)})"


def digest(settings: Mapping[str, Any]) -> bytes:
    """SHA-256 of plain data in a canonical encoding."""
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).digest()


def _plain_setting(value: Any) -> Any:
    if hasattr(value, "settings"):
        return value.settings()
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, tuple):
        return [_plain_setting(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value


def _shown_setting(value: Any) -> str:
    return str(value) if isinstance(value, Fraction) else repr(value)
