"""The record of the whole past, from the journal: the release in memory has only recent data."""

from __future__ import annotations

from tidegate._hash_chain import START
from tidegate.clock import Clock
from tidegate.durable.commit import Committed
from tidegate.durable.journal import entries, verified
from tidegate.durable.store_contract import StateStore
from tidegate.record.record_from_journal import Recorder
from tidegate.record.time_index import TimeIndex
from tidegate.run.pipeline import Pipeline


class JournalRecord(Recorder):
    """A record that is brought up to date from the journal."""

    def __init__(self, pipeline: Pipeline, clock: Clock | None = None) -> None:
        super().__init__(pipeline)
        self.times = None if clock is None else TimeIndex(clock)
        self._rows, self._head = 0, START  # how far it has read

    def catch_up(self, store: StateStore, key: bytes, committed: Committed) -> None:
        """Read the rows that were added since, after their chain was verified."""
        first, last = self._rows, committed.rows
        verified(store.journal(first, last), key, committed.head, self._head)
        phases = {phase.start: phase for phase in committed.phases}
        for entry in entries(store.journal(first, last)):
            self.push(entry, phases)
        self._rows, self._head = last, committed.head
