"""The lower caps of keys whose values below 0 count.

Beside what `refined_state` has of every key; the names are those of `RefinementState`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tidegate.keyed.raw_values_of_many_keys import with_room_for_keys
from tidegate.lattice import IntArray
from tidegate.state_as_bytes import State


class LowerEnds:
    """Every key's `FloorWatch`, its least lower cap, and whether values last fell below it."""

    _COUNTS: ClassVar[tuple[str, ...]] = ("least_below", "fell", "cap", "length")
    _LEVELS: ClassVar[tuple[str, ...]] = ("home", "excess", "variance", "mean", "old", "fair")
    _OWN: ClassVar[tuple[str, ...]] = ("least_below", "fell")

    def __init__(self) -> None:
        self.columns: dict[str, NDArray[Any]] = {
            **{name: np.zeros(0, dtype=np.int64) for name in self._COUNTS},
            **{name: np.zeros(0) for name in self._LEVELS},
        }

    def grow(self, room: int) -> None:
        """Make room for more keys."""
        for name, column in self.columns.items():
            self.columns[name] = with_room_for_keys(column, room, int(name == "least_below"))

    def of(self, code: int, below: int) -> dict[str, Any]:
        """The lower cap's part of `RefinementState.progress` for a key."""
        found = {name: column[code].item() for name, column in self.columns.items()}
        own = {name: found.pop(name) for name in self._OWN}
        return {**own, "watch": {**found, "threshold": below}}

    def put(self, code: int, state: State) -> None:
        """Restore what `of` returned."""
        known = {**state["watch"], **{name: state[name] for name in self._OWN}}
        for name, column in self.columns.items():
            column[code] = known[name]

    def drop(self, code: int) -> None:
        """Forget a key."""
        for name, column in self.columns.items():
            column[code] = int(name == "least_below")

    def state(self, start: int, end: int) -> dict[str, NDArray[Any]]:
        """The state to resume these keys from."""
        return {f"lower {name}": column[start:end] for name, column in self.columns.items()}

    def restore(self, codes: IntArray, state: State) -> None:
        """Restore keys from a `state`."""
        for name, column in self.columns.items():
            column[codes] = state[f"lower {name}"]
