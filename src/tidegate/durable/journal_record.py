"""`JournalRecord`: the record of the whole past, rebuilt from the journal, to be queried."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidegate._hash_chain import START
from tidegate.clock import Clock
from tidegate.durable.commit import Committed
from tidegate.durable.journal import entries, verified
from tidegate.durable.state_stores import StateStore
from tidegate.errors import QueryError
from tidegate.record.range_queries_and_answers import Answers, RangeQueries
from tidegate.record.record import Record
from tidegate.record.record_from_journal import Recorder
from tidegate.record.times.time_index import TimeIndex
from tidegate.run.pipeline import Pipeline

Facts = tuple[Committed, Clock | None, str]  # what is committed, the clock, the guarantee


class JournalRecord(Recorder):
    """A record that is brought up to date from the journal."""

    def __init__(self, pipeline: Pipeline, clock: Clock | None = None) -> None:
        super().__init__(pipeline)
        self.times = None if clock is None else TimeIndex(clock)
        self.rows, self._head = 0, START  # how far it has read

    def catch_up(self, store: StateStore, key: bytes, committed: Committed) -> None:
        """Read the rows that were added since, after their chain was verified."""
        first, last = self.rows, committed.rows
        verified(store.journal(first, last), key, committed.head, self._head)
        phases = {phase.start: phase for phase in committed.phases}
        for entry in entries(store.journal(first, last)):
            self.push(entry, phases)
        self.rows, self._head = last, committed.head


class JournalHistory:
    """One record for all who ask, as far as the journal was read for the newest of them.

    Attributes:
        lock: of the record. Pushes do not need it: they only add to the journal.
    """

    def __init__(self, pipeline: Pipeline, store: StateStore, key: bytes) -> None:
        self._pipeline, self._store, self._key = pipeline, store, key
        self._record = JournalRecord(pipeline)
        self.lock = threading.RLock()

    def record(self, facts: Facts) -> Record | None:
        """The record at a commit, or at a later one for which somebody asked meanwhile.

        The lock must be held as long as it is used.
        """
        committed, clock, guarantee = facts
        if clock is not None and self._record.times is None:
            self._record = JournalRecord(self._pipeline, clock)
        try:
            if self._record.rows < committed.rows:
                self._record.catch_up(self._store, self._key, committed)
        except BaseException:
            self._record = JournalRecord(self._pipeline, clock)  # half a row may be in it
            raise
        return self._record.record(guarantee)


class JournalView(RangeQueries):
    """Answers as of one commit, or of a later one that came before the answer."""

    def __init__(self, history: JournalHistory, facts: Facts, nothing: str) -> None:
        self._history, self._facts, self._nothing = history, facts, nothing

    @property
    def position(self) -> int:
        """How many values were released."""
        return self._facts[0].position

    @property
    def guarantee(self) -> str:
        """What was promised by then."""
        return self._facts[2]

    @contextmanager
    def record(self) -> Iterator[Record | None]:
        """What was released by then; None: nothing. It must not be kept."""
        with self._history.lock:
            yield self._history.record(self._facts)

    def _answered(self, ask: Callable[[Record], Answers]) -> Answers:
        with self.record() as record:
            if record is None:
                raise QueryError(self._nothing)
            return ask(record)
