"""The journal's rows: encode, verify by hash chain, replay; and the record built from them.

A row holds what one commit added. Everything in it was released, so emitting it again costs no
privacy; it contains no raw values and no noise. Rows are chained by a keyed hash (`_hash_chain`):
a row that was changed, dropped or moved is noticed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tidegate._hash_chain import START, chain_head, chain_link
from tidegate.clock import Clock
from tidegate.durable.folder_lock import StateError
from tidegate.durable.state_stores import StateStore
from tidegate.errors import QueryError, SnapshotError
from tidegate.estimate.published_values_of_cells import (
    fill_equal_published_cells,
    fill_published_cells,
)
from tidegate.record.range_queries_and_answers import Answers, RangeQueries
from tidegate.record.record import Record
from tidegate.record.record_from_journal import JournalRecorder
from tidegate.record.rows_and_levels import Levels, Rows
from tidegate.record.segments.journal_entry import JournalEntry, JournalTrace
from tidegate.record.times.time_index import TimeIndex, TimeKnots
from tidegate.run.non_negative import NonNegativeRemainder
from tidegate.run.phased_run import Phase
from tidegate.run.pipeline import Pipeline
from tidegate.sealing import seal, unseal
from tidegate.stages import NO_SUMS
from tidegate.state_as_bytes import understood

if TYPE_CHECKING:
    from tidegate.durable.commit import CommittedFacts


def encoded_journal_entry(entry: JournalEntry, head: bytes, key: bytes) -> tuple[bytes, bytes]:
    """An entry as the bytes of a row, and the chain's new head."""
    content = {**vars(entry), **vars(entry.trace)}
    del content["trace"], content["times"]
    if not entry.trace.sizes.size:  # of event streams only
        del content["sizes"]
    if entry.times.size:
        content["time_places"], content["time_ticks"] = TimeKnots.through(entry.times)
    body = seal({"content": "journal"}, content, None)
    return body, chain_link(head, body, key)


def verified_journal_rows(
    bodies: Iterable[bytes], key: bytes, expected: bytes, head: bytes = START
) -> None:
    """Refuse rows whose hash chain, from `head` on, does not end in the expected head."""
    if chain_head(bodies, key, head) != expected:
        raise StateError(f"the journal {_TAMPERED}")


def journal_entries(bodies: Iterable[bytes]) -> Iterator[JournalEntry]:
    """The entries in verified rows."""
    for body in bodies:
        try:
            _, content = unseal(body, None)
            with understood():
                known = {item.name for item in fields(JournalTrace)}
                trace = JournalTrace(**{name: content.pop(name) for name in known & content.keys()})
                times = NO_SUMS
                if "time_places" in content:
                    knots = TimeKnots(content.pop("time_places"), content.pop("time_ticks"))
                    times = knots.between(0, content["end"] - content["start"])
                entry = JournalEntry(**content, trace=trace, times=times)
        except SnapshotError:
            raise StateError(f"the journal {_TAMPERED}") from None
        yield entry


def merged_journal_entries(released: list[JournalEntry]) -> list[JournalEntry]:
    """Join neighbouring entries of one phase."""
    result: list[JournalEntry] = []
    for entry in released:
        last = result[-1] if result else None
        # An entry without values ends a warm-up whose rows were out: it is not joined.
        same = last and (last.phase_start, last.measured) == (entry.phase_start, entry.measured)
        if last and same and last.end > last.start and entry.end > entry.start:
            last.end, last.trace = entry.end, last.trace.joined(entry.trace)
            last.times = np.concatenate((last.times, entry.times))
        else:
            result.append(entry)
    return result


def published_from_journal(
    pipeline: Pipeline, journal: Iterable[JournalEntry], phases: Iterable[Phase]
) -> Iterator[Rows]:
    """The published rows of each entry; `phases` are all phases in the journal."""
    ends = {known.start: known.ends(pipeline.lattice.step) for known in phases}
    block, step = pipeline.perturber.block, pipeline.lattice.step
    remainder = NonNegativeRemainder() if pipeline.non_negative else None
    phase: int | None = None
    prediction, filled = 0.0, 0  # of the open cell
    track = Levels(pipeline.method, None, 0.0)
    for row in journal:
        if row.phase_start != phase:
            phase, prediction, filled = row.phase_start, row.first, 0
            known = ends.get(phase)
            track = Levels(
                pipeline.method,
                known and known.width,
                prediction,
                below=known.below if known else 0,
            )
        out, levels = np.zeros(row.end - row.start), np.zeros(row.end - row.start)
        cells = row.trace
        if row.measured:
            track.push(cells, levels)
        else:
            levels[:] = row.first
        pipeline.lattice.bounded(levels)
        if not out.size:
            if cells.predictions.size:  # else sizes were counted alone
                prediction, filled = cells.predictions.item(-1), 0
        elif not row.measured:
            out[:] = row.first
        elif cells.widths.size:
            prediction, filled = fill_published_cells(
                out, prediction, filled, cells.widths, cells.totals, cells.predictions
            )
        else:
            prediction, filled = fill_equal_published_cells(
                out, prediction, filled, block, cells.sums, cells.predictions
            )
        out *= step
        if remainder is not None:
            remainder.settle(out)
        yield Rows(row.start, out, levels, row.times if row.times.size else None)


_TAMPERED = (
    "is damaged or was tampered with: restore it, or begin again with new_epoch=True (--new-epoch)"
)


# What is committed, the clock, the guarantee.
Facts: TypeAlias = "tuple[CommittedFacts, Clock | None, str]"


class JournalRecord(JournalRecorder):
    """A record that is updated from the journal."""

    def __init__(self, pipeline: Pipeline, clock: Clock | None = None) -> None:
        super().__init__(pipeline)
        self.times = None if clock is None else TimeIndex(clock)
        self.rows, self._head = 0, START  # how far it has read

    def catch_up(self, store: StateStore, key: bytes, committed: CommittedFacts) -> None:
        """Read the rows added since the last call, after verifying their chain."""
        first, last = self.rows, committed.rows
        verified_journal_rows(store.journal(first, last), key, committed.head, self._head)
        phases = {phase.start: phase for phase in committed.phases}
        for entry in journal_entries(store.journal(first, last)):
            self.push(entry, phases)
        self.rows, self._head = last, committed.head


class JournalHistory:
    """One record for all readers, as far as the newest of them has read the journal.

    Attributes:
        lock: of the record. Pushes do not need it: they only add to the journal.
    """

    def __init__(self, pipeline: Pipeline, store: StateStore, key: bytes) -> None:
        self._pipeline, self._store, self._key = pipeline, store, key
        self._record = JournalRecord(pipeline)
        self.lock = threading.RLock()

    def record(self, facts: Facts) -> Record | None:
        """The record at a commit, or at a later one that was asked for meanwhile.

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
    """Answers as of one commit, or of a later one before the answer."""

    def __init__(self, history: JournalHistory, facts: Facts, nothing: str) -> None:
        self._history, self._facts, self._nothing = history, facts, nothing

    @property
    def position(self) -> int:
        """The number of released values."""
        return self._facts[0].position

    @property
    def guarantee(self) -> str:
        """The guarantee at that commit."""
        return self._facts[2]

    @contextmanager
    def record(self) -> Iterator[Record | None]:
        """The record at that commit. None: nothing was released. Callers must not keep it."""
        with self._history.lock:
            yield self._history.record(self._facts)

    def _answered(self, ask: Callable[[Record], Answers]) -> Answers:
        with self.record() as record:
            if record is None:
                raise QueryError(self._nothing)
            return ask(record)
