"""`advance` for a durable release, tick by tick; and changing or removing its state's key."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidegate.durable.charging import Charging
from tidegate.durable.committed_reading import CommittedReading
from tidegate.errors import SettingError
from tidegate.record.rows_and_levels import Rows
from tidegate.record.times.time_ranges_and_tables import Moment
from tidegate.run.event_ticks import check_event_values
from tidegate.sealing import seal
from tidegate.tables.table_input import table_column_has_times
from tidegate.timestamps import Times


class KeyChanges(CommittedReading):
    """A durable release whose state can be sealed with another key, or erased."""

    @property
    def sealed(self) -> bool:
        """Whether the state on the disk is encrypted."""
        return self._committer.sealed

    def change_key(self, key: bytes) -> None:
        """Seal the state with another key; the old key opens nothing afterwards."""
        if not isinstance(key, bytes):  # None would unseal it
            raise SettingError("key", "must be 32 bytes; to have no key, use unseal()")
        seal({}, {}, key)  # refuses an invalid key before anything changes
        self._sealed_anew(key)

    def unseal(self) -> None:
        """Keep the state unencrypted from now on: whoever can read the folder can read raw sums."""
        self._sealed_anew(None)

    def _sealed_anew(self, key: bytes | None) -> None:
        with self._ownership.lock:
            self._check()
            self._ownership.begin()
            self._committer.change_key(key)
            self._ownership.done()

    def erase(self) -> None:
        """Erase everything secret: raw sums, held-out values, the noise key. This is final.

        What was released can no longer be emitted again: keep the output.
        """
        with self._ownership.lock:
            self._check()
            self._ownership.begin()  # never done: nothing more can be released or saved
            self._committer.erase()


class DurableTicks(KeyChanges):
    """A durable release that can be advanced if its stream has ticks."""

    _charging: Charging

    def begin_charges(self) -> None:
        """Charge costs that do not depend on values, once (`Charging.begin`)."""
        self._charging.begin(counted=self.pipeline.ticks is None)

    @property
    def warming(self) -> int:
        """How many values the warm-up still needs; for events, ticks until its next check."""
        if self._pipeline.ticks is None or self.phases or self._ownership.cut_short:
            return super().warming
        return self._release.warming

    @property
    def dropped(self) -> int:
        """How many events came too late since the state was opened. For the operator only."""
        return getattr(self._release, "dropped", 0)

    @property
    def waiting(self) -> bool:
        """Whether ticks that are not released yet have events. For the operator only."""
        return bool(getattr(self._release, "waiting", False))

    def _in_order(self, values: Any, users: Any, times: Any) -> tuple[Any, Any, Any]:
        """The arguments of `push` in the order of `push_rows`; events: `push(times, values)`."""
        if self._pipeline.ticks is None or not (
            isinstance(values, Times) or table_column_has_times(values)
        ):
            return values, users, times
        values, users, times = users, times, values
        check_event_values(self._pipeline, values)
        if values is None:  # each counts as one
            values = np.ones(times.ticks.size if isinstance(times, Times) else len(times))
        return values, users, times

    def advance(self, until: Moment) -> Rows:
        """Release every tick that is over at `until`. When this returns they are committed.

        Events are durable from here on, or after `save`; what was only pushed is committed now and
        then, and is sent again after a crash. See `tidegate.run.event_release.EventRelease.advance`
        for what `until` must not be.
        """
        release, ticks = self._release, self._pipeline.ticks
        if ticks is None:
            raise SettingError("until", "is for event streams: give `every` and `start`")
        began = False
        try:
            with self._ownership.lock:
                self._check()
                ticks.complete(until)  # refuses what is not a time, before anything changes
                self._charging.charge(0, 1)  # a tick without events is charged, too
                self._ownership.begin()
                began = True
                rows = release.advance(until)
                released = release.journal_entries()
                for entry in released:
                    first, last = entry.start - rows.first, entry.end - rows.first
                    entry.times = ticks.times(rows.first, rows.first + rows.values.size)[first:last]
                self._committer.commit(released)
                self._ownership.done()
                return rows
        except BaseException:
            if began:  # it may be committed, but the caller does not know
                self._ownership.refuse()
            raise
