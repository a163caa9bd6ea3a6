"""`UserCap`: count the values of each user within a horizon; those beyond the limit become 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tidegate.errors import InputError
from tidegate.lattice import IntArray
from tidegate.units import Unit
from tidegate.user_ids import canonical_users


class UserCap:
    """Counts each user's values within a horizon; values beyond the limit become 0.

    Privacy: who sent which value is public, so neighbours share the positions of the user; the
    same first `most` of them count in both streams, and all others are 0, also those that name no
    user. The two differ in at most `most` values.

    Branches. A fork continues its parent's counts, and its horizons begin where its parent's do.
    So within any one horizon, and within the hold-out, at most `most` values of a user count in
    each branch (those that a branch was handed at the fork among them): each costs the user at most
    its ε there, and the charge of one ε for each branch covers their sum. With horizons of its own
    a branch would lie across two of its parent's, and let `2·most` values count within one.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.period = -1
        self.counts: dict[str, int] = {}
        self.fresh: list[str] | None = None  # counted since this was emptied; None: not kept
        self.beyond = 0  # values of this run that counted as 0; public, as who sent which is

    def branch(self) -> UserCap:
        """A copy of the counter, which counts on by itself."""
        branch = UserCap(self._most)
        branch.period, branch.counts = self.period, dict(self.counts)
        return branch

    def state(self) -> dict[str, Any]:
        """The counts as plain data: a list and an array, which are fast to write for many users.

        Names of users are in it: it is as secret as the state that holds it.
        """
        numbers = np.fromiter(self.counts.values(), dtype=np.int64, count=len(self.counts))
        return {"period": self.period, "names": list(self.counts), "numbers": numbers}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state."""
        self.period = state["period"]
        self.counts = dict(zip(state["names"], state["numbers"].tolist(), strict=True))

    def apply(self, units: IntArray, users: Sequence[str | None], period: int) -> IntArray:
        """`units` with the values beyond the limit set to 0; all must lie in the same horizon.

        `users` are canonical (`tidegate.user_ids`).
        """
        if period != self.period:
            self.period, self.counts = period, {}
            if self.fresh is not None:
                self.fresh = []
        allowed = np.ones(units.size, dtype=bool)
        counts, most = self.counts, self._most
        for index, name in enumerate(users):
            if name is None:  # without a user the value would escape every limit
                allowed[index] = False
                continue
            seen = counts.get(name, 0)
            if seen < most:
                counts[name] = seen + 1
                if self.fresh is not None:
                    self.fresh.append(name)
            else:
                allowed[index] = False
        self.beyond += int(units.size - np.count_nonzero(allowed))
        return np.where(allowed, units, 0)

    def count_again(self, names: Sequence[str]) -> None:
        """Count users of values that were taken earlier."""
        for name in names:
            self.counts[name] = self.counts.get(name, 0) + 1


def user_cap_of(unit: Unit) -> UserCap | None:
    """The counter of users' values, if users are the unit of privacy."""
    most = unit.counted_per_user
    return None if most is None else UserCap(most)


def checked_users(
    users: Any, count: int, *, needed: bool, position: int = 0
) -> list[str | None] | None:
    """One canonical user id for each value, where users are needed; errors name no user."""
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
