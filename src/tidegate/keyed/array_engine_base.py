"""The common part of both array engines: one threshold, newest times, public facts."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import InputError, QueryError, SettingError
from tidegate.exact_numbers import said
from tidegate.keyed.key_names import KeyNames
from tidegate.keyed.keyed_rows import KeyedReleased, KeyedRowGroups
from tidegate.keyed.keyed_views_for_threads import LazyKeyedView
from tidegate.lattice import FloatArray, IntArray
from tidegate.randomness import Epoch
from tidegate.record.record import Record
from tidegate.record.times.time_index import LATE
from tidegate.run.phased_run import Phase
from tidegate.run.pipeline import Pipeline
from tidegate.run.two_sided_caps import Ends
from tidegate.state_as_bytes import State
from tidegate.threshold import Fixed
from tidegate.timestamps import Times

_NEVER = np.iinfo(np.int64).min
_NOTHING_KEPT = "this run keeps no record (record=False): ask the released file"


def fits_arrays(pipeline: Pipeline, *, shared: bool) -> bool:
    """Whether arrays can run this pipeline, as far as all kinds of methods require."""
    return (
        (shared or type(pipeline.threshold) is Fixed)
        and pipeline.reselect is None
        and pipeline.ticks is None
        and not pipeline.non_negative
    )


class ArrayEngineBase:
    """Keys in arrays, indexed by code; `last` holds their newest times, empty if there are none."""

    PAGE: ClassVar[int] = 64  # keys that are stored together
    position: IntArray

    def __init__(
        self, pipeline: Pipeline, epoch: Epoch, names: KeyNames, ends: Ends | None
    ) -> None:
        self._pipeline, self._epoch, self._names = pipeline, epoch, names
        if ends is None:  # a fixed threshold: no value, and no noise, decides about it
            keystream = epoch.keystream("threshold", b"")
            none = np.zeros(0, dtype=np.int64)
            above = pipeline.threshold.choose(none, pipeline.lattice, keystream)
            ends = Ends(above, pipeline.lattice.bottom)
        self._ends = ends
        self.last: IntArray = np.zeros(0, dtype=np.int64)

    def _grow(self) -> None:
        """Make room for all present keys."""
        raise AssertionError("an engine has its own")

    def _room(self, had: int) -> int:
        """The number of keys to make room for: a few more than there are, if more may come."""
        count = len(self._names)
        return count if not self._names.open else max(count, had + had // 4)

    # -- rows ------------------------------------------------------------------------------------

    def check_times(self, groups: KeyedRowGroups, times: Times | None, late: str) -> None:
        """Refuse times that go back within a key; takes no rows."""
        if late not in LATE:
            raise SettingError("late", f"must be one of {', '.join(LATE)}, not {said(late)}")
        self._grow()
        if times is None or late == "keep":
            return
        before = self._newest(groups.codes)
        ticks = times.ticks
        if not groups.once:
            order = groups.order
            ticks, before = ticks[order], before[order]
            inner = np.ones(ticks.size, dtype=np.bool_)
            inner[groups.starts] = False
            before[inner] = ticks[:-1][inner[1:]]
        if (ticks < before).any():
            raise InputError(
                "a time is before an earlier one of the same key. Sort the rows by time, or keep "
                "them at their place with late='keep' (--late keep)"
            )

    def _newest(self, codes: IntArray) -> IntArray:
        found: IntArray = np.full(codes.size, _NEVER)
        known = codes < self.last.size  # others are new: they are added once the push is taken
        found[known] = self.last[codes[known]]
        return found

    def push(
        self, groups: KeyedRowGroups, numbers: NDArray[Any], times: Times | None, late: str
    ) -> KeyedReleased:
        """Release checked rows; results are in the order of the rows."""
        self._grow()
        out = self._push_units(groups, self._pipeline.lattice.units(numbers))
        if times is not None:
            self._make_last()
            np.maximum.at(self.last, groups.codes, times.ticks)
        return out

    def _push_units(self, groups: KeyedRowGroups, units: IntArray) -> KeyedReleased:
        """Release rows in lattice units; results are in the unit of the data."""
        raise AssertionError("an engine has its own")

    def _in_data_unit(self, values: FloatArray, levels: FloatArray) -> None:
        """Convert published values from lattice units to the unit of the data, in place."""
        step = self._pipeline.lattice.step
        if step != 1.0:
            values *= step
        self._pipeline.lattice.bounded(levels)

    def _make_last(self) -> None:
        """Make room for the newest times of all keys."""
        missing = self.position.size - self.last.size
        if missing:
            self.last = np.concatenate((self.last, np.full(missing, _NEVER)))

    def _restore_last(self, codes: IntArray, state: State) -> None:
        if state["last"].size:
            self._make_last()
            self.last[codes] = state["last"]

    # -- public facts ----------------------------------------------------------------------------

    def finish(self) -> None:
        """Do nothing: no warm-up is open."""

    def positions(self) -> IntArray:
        """The number of released rows of each key."""
        return self.position[: len(self._names)]

    def phases(self, code: int) -> list[Phase]:
        """The one threshold."""
        epoch = self._epoch.of_key(self._names.names[code])
        return [Phase.of(0, self._ends, self._pipeline.lattice.step, epoch.id.hex())]

    def unmeasured(self) -> int:
        """Always 0: no key chooses a threshold."""
        return 0

    def record(self, code: int) -> Record | None:
        """Refuse: this engine keeps no record."""
        raise QueryError(_NOTHING_KEPT)

    def view(self, code: int) -> LazyKeyedView | None:
        """Refuse: this engine keeps no record."""
        raise QueryError(_NOTHING_KEPT)
