"""The record of the whole past, from the journal: the running release knows only its own time."""

from __future__ import annotations

from tidegate._chain import START
from tidegate.durable.commit import Committed
from tidegate.durable.journal import entries, verified
from tidegate.durable.store import Store
from tidegate.record.rebuild import Recorder
from tidegate.run.pipeline import Pipeline


class JournalRecord(Recorder):
    """A record that reads on in the journal whenever it is asked for."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(pipeline)
        self._rows, self._head = 0, START  # how far it has read

    def catch_up(self, store: Store, key: bytes, committed: Committed) -> None:
        """Read the rows that were added since, once their chain is seen to end as it should."""
        first, last = self._rows, committed.rows
        verified(store.journal(first, last), key, committed.head, self._head)
        thresholds = {phase.start: (phase.threshold, phase.epoch) for phase in committed.phases}
        for entry in entries(store.journal(first, last)):
            self.push(entry, thresholds)
        self._rows, self._head = last, committed.head
