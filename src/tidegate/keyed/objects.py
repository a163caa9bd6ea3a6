"""The general engine: a `Release` for each key. Every method works."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tidegate.keyed.engine import Released
from tidegate.keyed.groups import Groups
from tidegate.keyed.names import Names
from tidegate.lattice import IntArray
from tidegate.ownership import Ownership
from tidegate.randomness import Epoch
from tidegate.record.record import Record
from tidegate.record.time_index import check_order
from tidegate.run.ends import Ends
from tidegate.run.event_release import EventRelease
from tidegate.run.phased_run import Phase
from tidegate.run.pipeline import Pipeline
from tidegate.run.release import Release
from tidegate.timestamps import Times


class Objects:
    """Releases by code; a key has one from its first row on."""

    KIND: ClassVar[str] = "objects"
    PAGE: ClassVar[int] = 64  # keys that are stored together

    def __init__(self, pipeline: Pipeline, epoch: Epoch, names: Names, ends: Ends | None) -> None:
        self._pipeline, self._epoch, self._names, self._ends = pipeline, epoch, names, ends
        self.releases: dict[int, Release] = {}

    def check_times(self, groups: Groups, times: Times | None, late: str) -> None:
        """Refuse times that go back within a key; nothing is taken."""
        for code, rows in groups.parts():
            known = self.releases.get(code)
            part = None if times is None else Times(times.ticks[rows], times.clock)
            if known is not None:
                known.checked_times(part, rows.size, late)
            elif part is not None:
                check_order(part.ticks, None, 0, late)

    def push(
        self, groups: Groups, numbers: NDArray[Any], times: Times | None, late: str
    ) -> Released:
        """Release checked rows, key by key; what comes out is in the order of the rows."""
        out = Released.empty(numbers.size)
        for code, rows in groups.parts():
            part = None if times is None else Times(times.ticks[rows], times.clock)
            found = self._release(code).push_rows(numbers[rows], None, part, late)
            released = rows[rows.size - found.values.size :]
            out.released[released] = True
            out.positions[released] = np.arange(found.first, found.first + released.size)
            out.values[released] = found.values
            out.levels[released] = found.levels
        return out

    def _release(self, code: int) -> Release:
        release = self.releases.get(code)
        if release is None:
            epoch = self._epoch.of_key(self._names.names[code])
            kind = Release if self._pipeline.ticks is None else EventRelease
            release = kind(self._pipeline, epoch, ownership=Ownership(), ends=self._ends)
            self.releases[code] = release
        return release

    def finish(self) -> None:
        """End open warm-ups: the input is over."""
        for release in self.releases.values():
            release.finish()

    def positions(self) -> IntArray:
        """How many rows of each key were released."""
        found = [
            self.releases[code].position if code in self.releases else 0
            for code in range(len(self._names))
        ]
        return np.array(found, dtype=np.int64)

    def phases(self, code: int) -> list[Phase]:
        """The thresholds of a key."""
        return self.releases[code].phases

    def unmeasured(self) -> int:
        """How many keys have nothing measured yet."""
        return sum(not release.phases for release in self.releases.values())

    def record(self, code: int) -> Record | None:
        """What was measured of a key; None: it has no rows."""
        release = self.releases.get(code)
        return None if release is None else release.record

    def drop(self, code: int) -> None:
        """Forget the state of a key; the caller keeps a tombstone."""
        self.releases.pop(code, None)

    def state(self, brief: bool, start: int, end: int) -> dict[str, Any]:
        """The state of the keys with these codes, of those that have one."""
        found = [code for code in range(start, end) if code in self.releases]
        states = [self.releases[code].snapshot(brief=brief) for code in found]
        return {
            "codes": np.array(found, dtype=np.int64),
            "sizes": np.array([len(one) for one in states], dtype=np.int64),
            "states": np.frombuffer(b"".join(states), dtype=np.uint8),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on with the keys of a `state`."""
        ends, stored = np.cumsum(state["sizes"]), state["states"].tobytes()
        for code, size, end in zip(state["codes"], state["sizes"], ends, strict=True):
            self.releases[int(code)] = self._pipeline.resume(stored[end - size : end])
