"""The engine of events by key: an `EventRelease` for each declared key."""

from __future__ import annotations

from typing import Any, ClassVar

from numpy.typing import NDArray

from tidegate.keyed.keyed_rows import KeyedReleased, KeyedRowGroups
from tidegate.keyed.object_engine import ObjectEngine
from tidegate.record.rows_and_levels import Rows
from tidegate.timestamps import Times


class EventObjectEngine(ObjectEngine):
    """Releases by code; every declared key has one from the first tick on."""

    KIND: ClassVar[str] = "events"

    def check_times(self, groups: KeyedRowGroups, times: Times | None, late: str) -> None:
        """Refuse nothing: events come in any order."""

    def push(
        self, groups: KeyedRowGroups, numbers: NDArray[Any], times: Times | None, late: str
    ) -> KeyedReleased:
        """Take checked events; nothing is released."""
        super().push(groups, numbers, times, late)
        return KeyedReleased.empty(numbers.size)

    def advance(self, code: int, end: int) -> Rows:
        """Release the ticks of a key before number `end`."""
        release = self._changing(code)
        rows = release.close_ticks(max(0, end - release.position))
        self._changing_positions()[code] = release.position
        return rows

    def late(self) -> int:
        """How many events came after the release of their tick, for keys in memory."""
        return sum(getattr(release, "dropped", 0) for release in self.releases.values())
