"""The unit of privacy: one event, a window of time, or a user within a horizon.

Noise is calibrated per event, and a larger unit divides the budget among its events (group
privacy); only w-event methods calibrate it for a window (`Perturber.guarantee`). What is shown to
the user is derived: `Pipeline.guarantee` says it for the unit.

>>> from tidegate import tops
>>> print(tops(epsilon=1, bound=100, unit=Window(length=60)).guarantee)
ε = 1 per window of 60 consecutive values (exact arithmetic, central model)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tidegate.errors import InputError
from tidegate.guarantee import EVENT, Guarantee, grouped
from tidegate.lattice import IntArray
from tidegate.settings import Spec, Whole
from tidegate.user_ids import canonical_users


@dataclass(frozen=True, kw_only=True, repr=False)
class Event(Spec):
    """One value at one position."""

    KIND: ClassVar[str] = "units.Event"

    @property
    def size(self) -> int:
        """How many events the unit can hold."""
        return 1

    def widen(self, guarantee: Guarantee) -> Guarantee:
        """The guarantee for this unit, from the one per event."""
        return guarantee

    @property
    def name(self) -> str:
        """As guarantees say it."""
        return EVENT


@dataclass(frozen=True, kw_only=True, repr=False)
class Window(Spec):
    """Any `length` consecutive values, all replaced at once."""

    KIND: ClassVar[str] = "units.Window"

    length: Whole = Whole(minimum=1)

    @property
    def size(self) -> int:
        """How many events the unit can hold."""
        return self.length

    def widen(self, guarantee: Guarantee) -> Guarantee:
        """Group privacy over the window, wherever it lies: across hold-out and stream too."""
        return grouped(guarantee, self.length, self.name)

    @property
    def name(self) -> str:
        """As guarantees say it."""
        return f"window of {self.length} consecutive values"


@dataclass(frozen=True, kw_only=True, repr=False)
class UserHorizon(Spec):
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

    def widen(self, guarantee: Guarantee) -> Guarantee:
        """Group privacy over the values of one user that count within one horizon."""
        return grouped(guarantee, self.most, self.name)

    @property
    def name(self) -> str:
        """As guarantees say it."""
        return f"user and horizon (at most {self.most} values count; every further horizon adds ε)"


Unit = Event | Window | UserHorizon
__all__ = ["Event", "UserHorizon", "Window"]


class UserCap:
    """Counts each user's values within a horizon; those beyond the limit, or of nobody, become 0.

    Privacy: who sent which value is public, so neighbours share the positions of the user; the
    same first `most` of them count in both streams, and all others are 0. The two differ in at most
    `most` values.

    Branches. A fork goes on from its parent's counts, and its horizons begin where its parent's do.
    So within any one horizon, and within the hold-out, at most `most` values of a user count in
    each branch (those that a branch was handed at the fork among them): each costs the user at most
    its ε there, and the charge of one ε for each branch covers their sum. With horizons of its own
    a branch would lie across two of its parent's, and let `2·most` values count within one.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.window = -1
        self.counts: dict[str, int] = {}
        self.fresh: list[str] | None = None  # who counted since it was last emptied, if asked for

    def branch(self) -> UserCap:
        """A second counter that goes on from the same counts."""
        branch = UserCap(self._most)
        branch.window, branch.counts = self.window, dict(self.counts)
        return branch

    def state(self) -> dict[str, Any]:
        """The counts as plain data: a list and an array, which are quick to write for many users.

        Names of users are in it: it is as secret as the state that holds it.
        """
        numbers = np.fromiter(self.counts.values(), dtype=np.int64, count=len(self.counts))
        return {"window": self.window, "names": list(self.counts), "numbers": numbers}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self.window = state["window"]
        self.counts = dict(zip(state["names"], state["numbers"].tolist(), strict=True))

    def apply(self, units: IntArray, users: Sequence[str | None], window: int) -> IntArray:
        """`units` with the values beyond the limit set to 0; all lie in the same window.

        `users` are canonical (`tidegate.user_ids`).
        """
        if window != self.window:
            self.window, self.counts = window, {}
            if self.fresh is not None:
                self.fresh = []
        allowed = np.ones(units.size, dtype=bool)
        counts, most = self.counts, self._most
        for index, name in enumerate(users):
            if name is None:  # nobody: the value would escape every limit
                allowed[index] = False
                continue
            seen = counts.get(name, 0)
            if seen < most:
                counts[name] = seen + 1
                if self.fresh is not None:
                    self.fresh.append(name)
            else:
                allowed[index] = False
        return np.where(allowed, units, 0)

    def count_again(self, names: Sequence[str]) -> None:
        """Count users whose values were taken before."""
        for name in names:
            self.counts[name] = self.counts.get(name, 0) + 1


def cap_of(unit: Unit) -> UserCap | None:
    """What counts the values of users, if users are the unit."""
    return UserCap(unit.most) if isinstance(unit, UserHorizon) else None


def checked_users(
    users: Any, count: int, *, needed: bool, position: int = 0
) -> list[str | None] | None:
    """One canonical user per value where they are needed, else none; errors name no user."""
    if not needed:
        if users is not None:
            raise InputError("this pipeline does not protect users: push the values alone")
        return None
    if users is None:
        raise InputError("this pipeline protects users: push(values, users=...) needs both")
    names = canonical_users(users, position)
    if len(names) != count:
        raise InputError(f"{count} values but {len(names)} users")
    return names
