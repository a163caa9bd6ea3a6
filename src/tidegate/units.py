"""The unit of privacy: one event, a window of time, or a user within a horizon.

Noise is calibrated per event, and a larger unit divides the budget among its events (group
privacy); only w-event methods calibrate it for a window (`Perturber.guarantee`). What is shown to
the user is derived: `Pipeline.guarantee` says it for the unit.

>>> from tidegate import tops
>>> print(tops(epsilon=1, bound=100, unit=Window(length=60)).guarantee)
ε = 1 per window of 60 consecutive values (exact arithmetic, central model)
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

from tidegate.errors import SettingError
from tidegate.exact_numbers import said
from tidegate.guarantee import ADDED, EVENT, OF_USERS, Guarantee, grouped
from tidegate.settings import Spec, Whole

_COUNTED = "values count; every further horizon adds ε"


@lru_cache(maxsize=64)  # a record is made for every question
def users_note(guarantee: str) -> str:
    """The note about values that do not count, for every answer under this guarantee; may be empty.

    Records and files keep the guarantee in words, which `UserHorizon.name` wrote.

    >>> users_note("ε = 1 per event")
    ''
    >>> print(users_note(f"ε = 1 per {UserHorizon(most=8).name}"))
    At most 8 values of a user count in a horizon: others are 0 here, and no interval includes them.
    """
    found = re.search(rf"\(at most (\d+) {re.escape(_COUNTED)}\)", guarantee)
    if found is None:
        return ""
    return (
        f"At most {found[1]} values of a user count in a horizon: others are 0 here, and no "
        "interval includes them."
    )


class _UnitOfPrivacy:
    """The base of all units."""

    @property
    def counted_per_user(self) -> int | None:
        """How many values of a user count within a horizon. None: values have no users."""
        return None


@dataclass(frozen=True, kw_only=True, repr=False)
class Event(_UnitOfPrivacy, Spec):
    """One value at one position."""

    KIND: ClassVar[str] = "units.Event"

    @property
    def size(self) -> int:
        """How many events the unit can hold."""
        return 1

    def widen(self, guarantee: Guarantee) -> Guarantee:
        """The guarantee for this unit, from that of one event."""
        return guarantee

    @property
    def name(self) -> str:
        """The name of the unit in guarantees."""
        return EVENT


@dataclass(frozen=True, kw_only=True, repr=False)
class AddedEvent(_UnitOfPrivacy, Spec):
    """One event of a log, added or removed at any time (`tidegate.events`).

    Neighbours have one event more or less. A changed value, or a time that is moved, is an event
    removed and another one added: 2·ε.
    """

    KIND: ClassVar[str] = "units.AddedEvent"

    @property
    def size(self) -> int:
        """How many events the unit can hold."""
        return 1

    @property
    def name(self) -> str:
        """The name of the unit in guarantees."""
        return ADDED

    def widen(self, guarantee: Guarantee) -> Guarantee:
        """The guarantee, from that of stages whose argument covers added and removed events."""
        return replace(guarantee, unit=ADDED)


class _GroupUnit(_UnitOfPrivacy, ABC):
    """A unit of several events: it gets group privacy for all values that it can hold."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many events the unit can hold."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the unit in guarantees."""

    def widen(self, guarantee: Guarantee) -> Guarantee:
        """The guarantee for all events of the unit together, from that of one event."""
        return grouped(guarantee, self.size, self.name)


@dataclass(frozen=True, repr=False)
class Window(_GroupUnit, Spec):
    """Any `length` consecutive values, all replaced at once, also across hold-out and stream."""

    KIND: ClassVar[str] = "units.Window"

    length: Whole = Whole(minimum=1)

    @property
    def size(self) -> int:
        """How many events the unit can hold."""
        return self.length

    @property
    def name(self) -> str:
        """The name of the unit in guarantees."""
        return f"window of {self.length} consecutive values"


@dataclass(frozen=True, repr=False)
class UserHorizon(_GroupUnit, Spec):
    """All values of one user within one horizon; at most `most` of them count.

    Further values of the user count as 0 in their place. The hold-out is a horizon of its own. A
    user who stays for n horizons is covered n times: the budget grows with each.
    """

    KIND: ClassVar[str] = "units.UserHorizon"

    most: Whole = Whole(minimum=1)

    @property
    def size(self) -> int:
        """How many events the unit can hold."""
        return self.most

    @property
    def counted_per_user(self) -> int:
        """How many values of a user count within a horizon."""
        return self.most

    @property
    def name(self) -> str:
        """The name of the unit in guarantees."""
        return f"{OF_USERS} and horizon (at most {self.most} {_COUNTED})"


Unit = Event | AddedEvent | Window | UserHorizon
__all__ = ["AddedEvent", "Event", "UserHorizon", "Window"]


def __dir__() -> list[str]:
    """The public names only, not modules that happen to be imported."""
    return list(__all__)


def checked_unit(unit: Unit | str | None) -> Unit:
    """The unit of privacy from itself or its name on the command line. None: one event."""
    if isinstance(unit, str):
        return unit_named(unit)
    unit = Event() if unit is None else unit
    if not isinstance(unit, Unit):
        raise SettingError("unit", "must be a unit such as tidegate.units.Window(length=60)")
    return unit


def unit_named(text: str) -> Unit:
    """The unit of privacy with this name.

    >>> unit_named("window:60").size
    60
    """
    kind, _, size = text.partition(":")
    if kind == "event" and not size:
        return Event()
    try:
        if kind == "window" and size:
            return Window(length=size)  # type: ignore[arg-type]  # checked and converted there
        if kind == "user-horizon" and size:
            return UserHorizon(most=size)  # type: ignore[arg-type]  # checked and converted there
    except SettingError as error:  # its name is no option
        raise SettingError("unit", str(error)) from None
    raise SettingError("unit", f"must be event, window:60 or user-horizon:8, not {said(text)}")
