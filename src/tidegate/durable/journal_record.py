"""The record of the whole past, from the journal: the release in memory has only recent data."""

from __future__ import annotations

from tidegate._chain import START
from tidegate.durable.commit import Committed
from tidegate.durable.journal import entries, verified
from tidegate.durable.store import Store
from tidegate.record.rebuild import Recorder
from tidegate.run.pipeline import Pipeline


class JournalRecord(Recorder):
    """A record that is brought up to date from the journal."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(pipeline)
        self._rows, self._head = 0, START  # how far it has read

    def catch_up(self, store: Store, key: bytes, committed: Committed) -> None:
        """Read the rows that were added since, after their chain was verified."""
        first, last = self._rows, committed.rows
        verified(store.journal(first, last), key, committed.head, self._head)
        thresholds = {phase.start: (phase.threshold, phase.epoch) for phase in committed.phases}
        for entry in entries(store.journal(first, last)):
            self.push(entry, thresholds)
        self._rows, self._head = last, committed.head
