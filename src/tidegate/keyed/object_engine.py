"""The general engine: a `Release`, or an `EventRelease`, for each key. Every method works.

Where columns can run the method, pushes of many rows a key go through them (`RecordedColumns`).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tidegate.keyed.key_names import KeyNames
from tidegate.keyed.keyed_rows import KeyedReleased, KeyedRowGroups
from tidegate.keyed.keyed_views_for_threads import LazyKeyedView
from tidegate.keyed.recorded_columns import RecordedColumns
from tidegate.keyed.refined_state import refined_state_fits
from tidegate.lattice import IntArray
from tidegate.ownership import Ownership
from tidegate.randomness import Epoch
from tidegate.record.record import Record
from tidegate.record.times.time_index import check_time_order
from tidegate.run.event_release import EventRelease
from tidegate.run.phased_run import Phase
from tidegate.run.pipeline import Pipeline
from tidegate.run.release import Release
from tidegate.run.two_sided_caps import Ends
from tidegate.timestamps import Times

_MOST_VIEWS = 4096  # keys whose answers are kept ready


class ObjectEngine:
    """Releases by code; a key has one from its first row on.

    A key that rests (after `rest`, and every key after `restore`) is kept as the bytes of its
    state: about a tenth of the memory. It is resumed on demand.
    """

    KIND: ClassVar[str] = "objects"
    PAGE: ClassVar[int] = 1  # keys that are stored together: the state of one is a few kB

    def __init__(
        self, pipeline: Pipeline, epoch: Epoch, names: KeyNames, ends: Ends | None
    ) -> None:
        self._pipeline, self._epoch, self._names, self._ends = pipeline, epoch, names, ends
        # Whether a row can be released by itself: the level of the last row before a selection is
        # that of the phase that ends, which nobody can ask for afterwards.
        again = pipeline.reselect
        self._alone = pipeline.ticks is None and (again is None or again.releases_warm_up)
        self._columns: RecordedColumns | None = None  # for pushes of many rows a key
        if refined_state_fits(pipeline, shared=ends is not None):
            self._columns = RecordedColumns(pipeline, epoch, names)
        self.releases: dict[int, Release] = {}  # the one that was pushed to last comes last
        self._resting: dict[int, bytes] = {}  # states, of keys without a release
        self._written: dict[int, bytes] = {}  # states of releases that were not pushed to since
        self._brief = True  # whether those are
        self._counts: IntArray = np.zeros(0, dtype=np.int64)
        self._views: dict[int, LazyKeyedView] = {}  # states of keys that have not changed since
        self.answering = threading.RLock()  # held by who asks them

    def check_times(self, groups: KeyedRowGroups, times: Times | None, late: str) -> None:
        """Refuse times that go back within a key; takes no rows."""
        if times is None and groups.codes.size:  # the same question for all keys
            groups = KeyedRowGroups(groups.codes[:1])
        for code, rows in groups.parts():
            part = None if times is None else Times(times.ticks[rows], times.clock)
            if self._known(code):  # perhaps without what the columns know: times are not there
                release = self.releases.get(code) or self._release(code)
                release.checked_times(part, rows.size, late)
            elif part is not None:
                check_time_order(part.ticks, None, 0, late)

    def push(
        self, groups: KeyedRowGroups, numbers: NDArray[Any], times: Times | None, late: str
    ) -> KeyedReleased:
        """Release checked rows, key by key; results are in the order of the rows."""
        if self._columns is not None and self._columns.takes(groups):
            return self._push_columns(self._columns, groups, numbers, times, late)
        if times is None and self._alone and groups.once:
            return self._push_one_each(groups.codes, numbers)
        return self._push_each(groups, numbers, times, late)

    def _push_each(
        self, groups: KeyedRowGroups, numbers: NDArray[Any], times: Times | None, late: str
    ) -> KeyedReleased:
        out = KeyedReleased.empty(numbers.size)
        counts = self._changing_positions()
        for code, rows in groups.parts():
            part = None if times is None else Times(times.ticks[rows], times.clock)
            release = self._changing(code)
            found = release.push_rows(numbers[rows], None, part, late)
            counts[code] = release.position
            released = rows[rows.size - found.values.size :]
            out.released[released] = True
            out.positions[released] = np.arange(found.first, found.first + released.size)
            out.values[released], out.levels[released] = found.values, found.levels
        return out

    def _push_columns(
        self,
        columns: RecordedColumns,
        groups: KeyedRowGroups,
        numbers: NDArray[Any],
        times: Times | None,
        late: str,
    ) -> KeyedReleased:
        """Push many rows of each key through arrays; a key enters them between leaves."""
        alone, parts, new = np.zeros(numbers.size, dtype=np.bool_), list(groups.parts()), []
        for code, rows in parts:
            release = self._noted(code)
            if code not in columns:
                alone[rows[: columns.rows_before(release)]] = True
                new.append((code, rows[-1]))
        together, some_alone = ~alone, bool(alone.any())
        out = KeyedReleased.empty(numbers.size if some_alone else 0)
        if some_alone:
            some = None if times is None else Times(times.ticks[alone], times.clock)
            lone = KeyedRowGroups(groups.codes[alone])
            out.put(alone, self._push_each(lone, numbers[alone], some, late))
            groups = KeyedRowGroups(groups.codes[together])
        for code, last in new:
            if together[last]:
                columns.enter(code, self.releases[code])
        lattice = self._pipeline.lattice
        if some_alone:
            out.put(together, columns.push_rows(groups, lattice.units(numbers[together])))
        else:  # nothing to copy
            out = columns.push_rows(groups, lattice.units(numbers))
        self._changing_positions()[groups.present] = columns.mixture.position[groups.present]
        if times is not None:
            for code, rows in parts:
                mine = rows[together[rows]]
                if mine.size:
                    ticks = Times(times.ticks[mine], times.clock)
                    self.releases[code].note_times(ticks, int(out.positions[mine[0]]))
        return out

    def _push_one_each(self, codes: IntArray, numbers: NDArray[Any]) -> KeyedReleased:
        """Push one row for each key, without an array for each: the same bits."""
        lattice, counts = self._pipeline.lattice, self._changing_positions()
        found = KeyedReleased.empty(codes.size)
        rows = zip(codes.tolist(), lattice.units(numbers).tolist(), strict=True)
        for row, (code, unit) in enumerate(rows):
            published = _published_by_engine(self._changing(code), unit)
            if published is not None:
                found.released[row] = True
                found.values[row], found.levels[row] = published
        found.positions[:] = counts[codes]
        counts[codes] += found.released
        lattice.bounded(found.levels)
        return found

    def _changing(self, code: int) -> Release:
        """The release of a key before it changes without the arrays."""
        if self._columns is not None:
            self._columns.leave(code)
        return self._noted(code)

    def _noted(self, code: int) -> Release:
        """The release of a key before it changes: its written state becomes outdated."""
        release = self.releases.get(code) or self._release(code)
        self._resting.pop(code, None)
        self._written.pop(code, None)
        self._views.pop(code, None)
        self.releases[code] = self.releases.pop(code)
        return release

    def _known(self, code: int) -> bool:
        return code in self.releases or code in self._resting

    def _release(self, code: int) -> Release:
        # Questions ask here too, and may be interrupted anywhere: a state that rests stays until
        # its release is kept. A key that has none begins anew, with the noise that it had.
        release = self.releases.get(code)
        if release is None:
            stored = self._resting.get(code)
            if stored is not None:
                release = self._pipeline.resume(stored)
                self._written[code] = stored
            else:
                epoch = self._epoch.of_key(self._names.names[code])
                kind = Release if self._pipeline.ticks is None else EventRelease
                release = kind(self._pipeline, epoch, ownership=Ownership(), ends=self._ends)
            self.releases[code] = release
            self._resting.pop(code, None)
        elif self._columns is not None:
            self._columns.settle(code)
        return release

    def rest(self, most: int) -> None:
        """Keep the releases of `most` keys in memory, and the written states of the others."""
        for code in list(self.releases)[: max(0, len(self.releases) - most)]:
            if code in self._written:
                if self._columns is not None:
                    self._columns.leave(code)
                self._resting[code] = self._written.pop(code)
                del self.releases[code]

    def finish(self) -> None:
        """End open warm-ups: the input is over."""
        self._written.clear()
        self._views.clear()
        going = set() if self._columns is None else self._columns.measuring_keys()
        for code in {*self.releases, *self._resting} - going:
            self._changing(code).finish()

    def positions(self) -> IntArray:
        """The number of released rows of each key. Read-only, as readers call it too."""
        counts, keys = self._counts, len(self._names)
        return np.pad(counts, (0, max(0, keys - counts.size)))[:keys]

    def _changing_positions(self) -> IntArray:
        """The positions of all keys, to be changed, with room for every key."""
        had = self._counts.size
        if had < len(self._names):
            self._counts = np.pad(self._counts, (0, max(len(self._names) - had, had)))
        return self._counts

    def phases(self, code: int) -> list[Phase]:
        """The thresholds of a key."""
        return self._release(code).phases

    def unmeasured(self) -> int:
        """How many keys have nothing measured yet."""
        return sum(not self._release(code).phases for code in {*self.releases, *self._resting})

    def record(self, code: int) -> Record | None:
        """The record of a key. None: it has no rows."""
        return self._release(code)._growing_record() if self._known(code) else None

    def view(self, code: int) -> LazyKeyedView | None:
        """The record of a key, readable during releases. QueryError: nothing is measured yet."""
        if code in self._views or not self._known(code):
            return self._views.get(code)
        if code in self.releases:
            if self._columns is not None:
                self._columns.settle_past(code)
            found = LazyKeyedView.of(self.releases[code]._growing_record())
        else:  # to resume it takes a millisecond: not before somebody needs it
            stored, resume = self._resting[code], self._pipeline.resume
            found = LazyKeyedView(lambda: resume(stored).record)
        self._views[code] = found
        while len(self._views) > _MOST_VIEWS:
            del self._views[next(iter(self._views))]
        return found

    def drop(self, code: int) -> None:
        """Forget the state of a key; the caller keeps a tombstone."""
        if self._columns is not None:
            self._columns.leave(code)
        for states in (self.releases, self._resting, self._written, self._views):
            states.pop(code, None)
        self._changing_positions()[code] = 0

    def state(self, brief: bool, start: int, end: int) -> dict[str, Any]:
        """The states of the keys with these codes, if they have one."""
        found = np.array([code for code in range(start, end) if self._known(code)], dtype=np.int64)
        states = [self._state(code, brief=brief) for code in found.tolist()]
        return {
            "codes": found,
            "counts": self.positions()[found],
            "sizes": np.array([len(one) for one in states], dtype=np.int64),
            "states": np.frombuffer(b"".join(states), dtype=np.uint8),
        }

    def _state(self, code: int, *, brief: bool) -> bytes:
        if code in self._resting:
            return self._resting[code]
        if brief is not self._brief:  # states of the other kind
            self._written, self._brief = {}, brief
        if code not in self._written:
            self._written[code] = self._release(code).snapshot(brief=brief)
        return self._written[code]

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore keys from a `state`."""
        ends, stored = np.cumsum(state["sizes"]), state["states"].tobytes()
        self._changing_positions()[state["codes"]] = state["counts"]
        for code, size, end in zip(state["codes"], state["sizes"], ends, strict=True):
            self._resting[int(code)] = stored[end - size : end]


def _published_by_engine(release: Release, unit: int) -> tuple[float, float] | None:
    """Release one checked value; return its published value, and its level in units.

    None: it is held out. The level of a row is the forecast that is valid once the row is out.
    """

    def taken() -> tuple[float, float] | None:
        run = release._run
        release._seen += 1
        if run is None:
            release._hold(np.array([unit]))
            return None
        return run.push_one(unit), run.level

    return release._ownership.whole(taken)
