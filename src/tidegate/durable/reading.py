"""What is public of a durable release: all of it comes from what was committed."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from numpy.typing import ArrayLike

from tidegate.durable.commit import Saving
from tidegate.durable.folder import StateError
from tidegate.durable.input_digests import Recogniser
from tidegate.durable.journal import pieces, published, verified
from tidegate.durable.journal_record import JournalRecord
from tidegate.durable.metadata import public_facts
from tidegate.durable.store import Store
from tidegate.errors import QueryError
from tidegate.guarantee import Guarantee
from tidegate.lattice import FloatArray
from tidegate.ownership import Custody
from tidegate.record.answer import Answer, Answers
from tidegate.record.record import Record
from tidegate.run.phases import Phase
from tidegate.run.pipeline import Pipeline
from tidegate.run.release import Release, nothing_yet

AGAIN = "open the state again to go on; `seen` and `replay` then say what was taken and released"


class Reading:
    """Facts, answers and replays of a durable release, under the lock that guards its changes.

    After a push that was cut short they tell of the pushes before it, or of a commit that had been
    completed: never of what is in memory only.
    """

    def __init__(
        self, store: Store, release: Release, saving: Saving, source: str, custody: Custody
    ) -> None:
        self._custody = custody
        self._store = store
        self._release = release
        self._pipeline = release.pipeline
        self._source = source
        self._saving = saving
        self._journalled = JournalRecord(release.pipeline)
        self._seen = release.seen
        self._first_threshold = release.threshold  # before anything that may not be committed
        self._open = True

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} source={self.source!r} seen={self.seen} "
            f"position={self.position}; {self.guarantee}>"
        )

    # -- public facts ----------------------------------------------------------------------------

    @property
    def pipeline(self) -> Pipeline:
        """What is released, and how."""
        return self._pipeline

    @property
    def source(self) -> str:
        """Whose values these are, for the ledger."""
        return self._source

    @property
    def epoch(self) -> str:
        """The public id of this run's noise."""
        return self._release.epoch

    @property
    def guarantee(self) -> Guarantee:
        """What is promised to every value of this epoch; what came before is in the ledger."""
        return self._release.guarantee

    @property
    def seen(self) -> int:
        """How many input values were taken."""
        return self._seen

    @property
    def position(self) -> int:
        """How many values were released."""
        return self._saving.committed.position

    @property
    def holding(self) -> int:
        """How many more values the hold-out will take before anything is released."""
        return max(0, self._pipeline.holdout - self._seen)

    @property
    def warming(self) -> int:
        """How many more values the first warm-up needs before anything is measured."""
        return 0 if self.phases else max(0, self._pipeline.warm_up - self.position)

    @property
    def phases(self) -> list[Phase]:
        """Every threshold so far, and from which position on it holds."""
        return list(self._saving.committed.phases)

    @property
    def threshold(self) -> float | None:
        """θ in the unit of the data; None while it is not chosen."""
        phases = self._saving.committed.phases
        if phases:
            return phases[-1].threshold
        # Without a hold-out it is chosen before any value is read. Not asked of the release, which
        # may have chosen again from values that were not committed.
        return None if self._pipeline.threshold.holdout else self._first_threshold

    def facts(self) -> dict[str, Any]:
        """The public metadata of what was committed: enough to understand and query it.

        After a push that failed it says nothing of that push. Its threshold in particular may be
        chosen again from other values with the same noise, and must not be known by then.
        """
        with self._custody.lock:
            committed = self._saving.committed
            record = self._whole_record() if not self._pipeline.estimator.adds_up else None
            return public_facts(
                self._pipeline,
                self.guarantee,
                committed.phases,
                released=committed.position,
                record=record,
            )

    # -- what was released, and what was read ----------------------------------------------------

    def replay(self, start: int = 0) -> Iterator[tuple[int, FloatArray]]:
        """Published values from position `start` on, as they were published: from the journal.

        Everything up to the moment of the call; what is pushed meanwhile is not part of it.
        """
        with self._custody.lock:
            self._check_open()
            key, committed = self._release.derived_key("journal"), self._saving.committed
            # All of it, before any of it goes out again.
            verified(self._store.journal(0, committed.rows), key, committed.head)
        return self._replayed(start, committed.rows)

    def _replayed(self, start: int, count: int) -> Iterator[tuple[int, FloatArray]]:
        for first, values in published(self._pipeline, pieces(self._rows(count))):
            if first + values.size > start:
                skip = max(0, start - first)
                yield first + skip, values[skip:]

    def _rows(self, count: int) -> Iterator[bytes]:
        """The first rows of the journal, a few at a time: others may push in between."""
        done = 0
        while done < count:
            with self._custody.lock:
                self._check_open()
                rows = self._store.journal_rows(done, count)
            yield from rows
            done += len(rows)

    @property
    def record(self) -> Record | None:
        """All that was released, from the journal, to be asked; None: nothing was.

        A copy as of now, for `tidegate.Record.joined` and the like; `query` needs none.
        """
        with self._custody.lock:
            return deepcopy(self._whole_record())

    def query(
        self, start: int, end: int, confidence: float = 0.95, *, as_of: int | None = None
    ) -> Answer:
        """The sum of the released values [start, end), counted from 0: see `Release.query`."""
        return self.queries([start], [end], confidence, as_of=as_of)[0]

    def queries(
        self,
        starts: ArrayLike,
        ends: ArrayLike,
        confidence: float = 0.95,
        *,
        as_of: int | None = None,
    ) -> Answers:
        """Many ranges at once, over the whole past: the journal remembers it."""
        with self._custody.lock:
            record = self._whole_record()
            if record is None:
                raise QueryError(nothing_yet(self.holding, self.warming))
            return record.queries(starts, ends, confidence, as_of=as_of)

    def _whole_record(self) -> Record | None:
        self._check_open()
        key = self._release.derived_key("journal")
        try:
            self._journalled.catch_up(self._store, key, self._saving.committed)
        except BaseException:
            self._journalled = JournalRecord(self._pipeline)  # half a row may be in it
            raise
        return self._journalled.record(str(self.guarantee))

    def recogniser(self) -> Recogniser:
        """Tells whether an input that is read again is the one that was read before."""
        with self._custody.lock:
            self._check()
            return Recogniser(self._saving.digests, self._store.inputs())

    def _check_open(self) -> None:
        if not self._open:
            raise StateError(f"the state in {self._store.folder} is closed")

    def _check(self) -> None:
        """Refuse what is closed, what was cut short, and what belongs to another process."""
        self._check_open()
        if self._custody.cut_short:
            raise StateError(f"an earlier change of this release was cut short: {AGAIN}")
        self._custody.check()
