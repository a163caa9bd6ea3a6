"""A release without durable state, with the interface that `transfer` uses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidegate.clock import Clock
from tidegate.errors import SettingError
from tidegate.record.record_from_journal import JournalRecorder
from tidegate.record.rows_and_levels import Rows
from tidegate.record.times.time_ranges_and_tables import Moment
from tidegate.run.phased_run import Phase
from tidegate.run.public_facts import public_facts
from tidegate.run.release import Release


class ReleaseInMemory:
    """A new `Release`, with the methods of a `DurableRelease` that `transfer` uses.

    What it tells is what whole pushes gave: a push that fails half-way has moved the release in
    memory, and nothing of that leaves.
    """

    def __init__(self, release: Release) -> None:
        if release.seen:
            raise SettingError(
                "release",
                "has taken values already, and without durable state nobody knows which. Transfer "
                "with a new release, or with a DurableRelease",
            )
        self._release = release
        self.pipeline = release.pipeline
        self.epoch = release.epoch
        self.seen = self.position = 0
        self._phases: dict[int, Phase] = {}  # all of them: the release forgets old ones
        self._recorder = JournalRecorder(release.pipeline)  # the same for the record
        # A journal: for the record, and because phases would be forgotten within a long push.
        self._recorded = not self.pipeline.estimator.adds_up
        self._keeps_journal = self._recorded or self.pipeline.reselect is not None
        if self._keeps_journal:
            release.journal_entries()

    @property
    def resumable(self) -> bool:
        """False: no other process can resume it."""
        return False

    @property
    def holding(self) -> int:
        """How many more values the hold-out needs before anything is released."""
        return self._release.holding

    @property
    def warming(self) -> int:
        """How many more values the open warm-up needs before anything is measured."""
        return self._release.warming

    @property
    def threshold(self) -> float | None:
        """The threshold in the unit of the data; None while it is not chosen."""
        return self.phases[-1].threshold if self._phases else self._release.threshold

    @property
    def phases(self) -> list[Phase]:
        """Every threshold so far."""
        return list(self._phases.values())

    def facts(self) -> dict[str, Any]:
        """The public metadata of the returned values."""
        promise = self._release.guarantee
        record = self._recorder.record(str(promise))
        return public_facts(
            self.pipeline,
            promise,
            self.phases,
            released=self.position,
            record=record,
            clock=self.clock,
        )

    @property
    def clock(self) -> Clock | None:
        """Zone and text form of the times; None: no value has had a time so far."""
        return self._release.clock

    def push_rows(
        self, values: Any, users: Any = None, times: Any = None, late: str = "refuse"
    ) -> Rows:
        """Release values, with their levels."""
        released = self._release.push_rows(values, users, times, late)
        self._take()
        self.position, self.seen = self._release.position, self._release.seen
        return released

    def advance(self, until: Moment) -> Rows:
        """Release the ticks of an event stream that are over."""
        rows = self._release.advance(until)
        self._take()
        self.position = self._release.position
        return rows

    def finish(self) -> None:
        """End an open warm-up: nothing will follow, and the end of the input is public."""
        self._release.finish()
        self._take()

    def _take(self) -> None:
        """Take over the results of a whole push."""
        self._phases.update({phase.start: phase for phase in self._release.phases})
        entries = self._release.journal_entries() if self._keeps_journal else []
        if self._recorded:
            for entry in entries:
                self._recorder.push(entry, self._phases)

    def recogniser(self, start: int = 0) -> None:
        """None: the input is not stored."""
        return

    def replay_rows(self, start: int = 0) -> Iterator[Rows]:
        """No rows: there is no journal."""
        return iter(())

    def save(self) -> None:
        """Do nothing: nothing is stored."""
