"""`CommittedReading`: facts, answers and replays of a durable release, from committed data."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from copy import deepcopy
from typing import Any

from tidegate.clock import Clock
from tidegate.durable.commit import CommittedFacts, Committer
from tidegate.durable.folder_lock import StateError
from tidegate.durable.input_digests import InputRecogniser
from tidegate.durable.journal import (
    JournalHistory,
    JournalView,
    journal_entries,
    published_from_journal,
    verified_journal_rows,
)
from tidegate.durable.state_stores import StateStore
from tidegate.guarantee import Guarantee
from tidegate.lattice import FloatArray
from tidegate.ownership import Ownership
from tidegate.record.range_queries_and_answers import Answers, RangeQueries
from tidegate.record.record import Record
from tidegate.record.rows_and_levels import Rows
from tidegate.run.phased_run import Phase
from tidegate.run.pipeline import Pipeline
from tidegate.run.public_facts import public_facts
from tidegate.run.readable_release import nothing_readable_yet
from tidegate.run.release import Release

AGAIN = "open the state again; `seen` and `replay` then say what was taken and released"


class CommittedReading(RangeQueries):
    """Facts, answers and replays of a durable release, under the lock that guards its changes.

    After a push that was interrupted they describe the last commit, never what is in memory only.
    """

    def __init__(
        self,
        store: StateStore,
        release: Release,
        committer: Committer,
        source: str,
        ownership: Ownership,
    ) -> None:
        self._ownership = ownership
        self._store = store
        self._release = release
        self._pipeline = release.pipeline
        self._source = source
        self._committer = committer
        self._history = JournalHistory(release.pipeline, store, release.derived_key("journal"))
        self._seen = release.seen
        self._first_threshold = release.threshold  # before anything that may not be committed
        self._open = True

    @property
    def resumable(self) -> bool:
        """True: another process can resume from the state and complete the output."""
        return True

    def __repr__(self) -> str:
        # How many events there were is not public.
        seen = "" if self._pipeline.ticks else f"seen={self.seen} "
        return (
            f"<{type(self).__name__} source={self.source!r} {seen}"
            f"position={self.position}; {self.guarantee}>"
        )

    # -- public facts ----------------------------------------------------------------------------

    @property
    def pipeline(self) -> Pipeline:
        """The settings of the release."""
        return self._pipeline

    @property
    def source(self) -> str:
        """The name of the source in the ledger."""
        return self._source

    @property
    def epoch(self) -> str:
        """The public id of this run's noise."""
        return self._release.epoch

    @property
    def commits(self) -> int:
        """How many commits its folder has seen, over all epochs."""
        return self._committer.commits

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for every value of this epoch; earlier epochs are in the ledger."""
        return self._release.guarantee

    @property
    def seen(self) -> int:
        """How many input values were taken."""
        return self._seen

    @property
    def position(self) -> int:
        """How many values were released."""
        return self._committer.committed.position

    @property
    def holding(self) -> int:
        """How many more values the hold-out needs before anything is released."""
        return max(0, self._pipeline.holdout - self._seen)

    @property
    def warming(self) -> int:
        """How many more values the first warm-up needs before anything is measured."""
        return 0 if self.phases else max(0, self._pipeline.warm_up - self.position)

    @property
    def phases(self) -> list[Phase]:
        """Every threshold so far, with the position where it begins."""
        return list(self._committer.committed.phases)

    @property
    def threshold(self) -> float | None:
        """θ in the unit of the data; None while it is not chosen."""
        phases = self._committer.committed.phases
        if phases:
            return phases[-1].threshold
        # Without a hold-out it is chosen before any value is read. Not read from the release, which
        # may have chosen another from values that were not committed.
        return None if self._pipeline.threshold.holdout else self._first_threshold

    def facts(self) -> dict[str, Any]:
        """The public metadata of what is committed: enough to understand and query it.

        After a push that failed it does not describe that push. Its threshold in particular may be
        chosen again from other values with the same noise, and must not be known by then.
        """
        scanned = self._pipeline.estimator.adds_up  # then a file needs no record
        with (
            self._ownership.lock,
            nullcontext() if scanned else self.view().record() as record,
        ):
            committed = self._committer.committed
            return public_facts(
                self._pipeline,
                self.guarantee,
                committed.phases,
                released=committed.position,
                record=record,
                clock=self.clock,
            )

    @property
    def cut_short(self) -> bool:
        """Whether a change was interrupted: everything is refused until the state is reopened."""
        return self._ownership.cut_short

    @property
    def offset(self) -> str:
        """Where the values came from, as given to `mark`; empty: never given."""
        return self._committer.offset

    def mark(self, offset: str) -> None:
        """Note where the next values come from, to be committed with them."""
        with self._ownership.lock:
            self._check()
            self._committer.offset = offset

    @property
    def clock(self) -> Clock | None:
        """Zone and text form of the times; None: no value has had a time so far."""
        return self._release.clock

    # -- what was released, and what was read ----------------------------------------------------

    def replay(self, start: int = 0) -> Iterator[tuple[int, FloatArray]]:
        """Published values from position `start` on, unchanged, from the journal.

        Everything up to the moment of the call; what is pushed meanwhile is not part of it.
        """
        rows = self.replay_rows(start)  # which verifies the journal now
        return ((piece.first, piece.values) for piece in rows)

    def replay_rows(self, start: int = 0) -> Iterator[Rows]:
        """Published rows with levels from position `start` on, unchanged, from the journal."""
        with self._ownership.lock:
            self._check_open()
            key, committed = self._release.derived_key("journal"), self._committer.committed
            # All of it, before any of it goes out again.
            verified_journal_rows(self._store.journal(0, committed.rows), key, committed.head)
        return self._replayed(start, committed)

    def _replayed(self, start: int, committed: CommittedFacts) -> Iterator[Rows]:
        journal = journal_entries(self._rows(committed.rows))
        for rows in published_from_journal(self._pipeline, journal, committed.phases):
            if rows.first + rows.values.size > start:
                yield rows.since(start)

    def _rows(self, count: int) -> Iterator[bytes]:
        """The first rows of the journal, in small pieces, as others may push in between."""
        done = 0
        while done < count:
            with self._ownership.lock:
                self._check_open()
                rows = self._store.journal_rows(done, count)
            yield from rows
            done += len(rows)

    @property
    def record(self) -> Record | None:
        """A copy of the record of everything released, from the journal; None: nothing was.

        For `tidegate.Record.joined` and the like; `query` does not need it.
        """
        with self._ownership.lock, self.view().record() as record:
            return deepcopy(record)

    def _answered(self, ask: Callable[[Record], Answers]) -> Answers:
        """Answer over the whole past, which the journal keeps."""
        with self._ownership.lock:
            return self.view()._answered(ask)

    def view(self) -> JournalView:
        """Read-only answers from what is committed now; pushes need not wait.

        For stores whose journal can be read beside the writer.
        """
        with self._ownership.lock:
            self._check_open()
            facts = (self._committer.committed, self.clock, str(self.guarantee))
            return JournalView(self._history, facts, self._nothing_yet())

    def _nothing_yet(self) -> str:
        ticks = self._release.pipeline.ticks is not None
        return nothing_readable_yet(self.holding, self.warming, ticks=ticks)

    def fingerprint(self, content: bytes) -> bytes:
        """A keyed digest that recognises a secret text when it comes again."""
        return hmac.digest(self._release.derived_key("requests"), content, "sha256")

    def recogniser(self, start: int = 0) -> InputRecogniser:
        """Compares re-read input, from value `start` on, with the input taken before."""
        with self._ownership.lock:
            self._check()
            return InputRecogniser(self._committer.digests, self._store.inputs(), start)

    def _check_open(self) -> None:
        if not self._open:
            raise StateError(f"the state in {self._store.place} is closed")

    def _check(self) -> None:
        """Refuse a closed release, an interrupted change, and another process."""
        self._check_open()
        if self.cut_short:
            raise StateError(f"an earlier change of this release was cut short: {AGAIN}")
        self._ownership.check()
