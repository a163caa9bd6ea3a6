"""`Passage`: one release on its way from batches to a sink; what was read before is skipped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tidegate.durable.folder import StateError
from tidegate.durable.input_digests import Recogniser
from tidegate.durable.memory_run import MemoryRun
from tidegate.durable.output_check import check_not_ahead, rows_written
from tidegate.durable.release import DurableRelease
from tidegate.durable.writer import Output, Writer
from tidegate.errors import SettingError
from tidegate.io import Batch
from tidegate.record.time_ranges import Moment
from tidegate.run.release import Release


@dataclass(frozen=True)
class Transferred:
    """How far a release has come after a transfer.

    Attributes:
        read: how many values were taken, in this transfer and before.
        released: how many rows there are.
        held: how many more values the hold-out needs before anything is released.
        threshold: in the unit of the data; None while it is not chosen.
        unmeasured: how many more values the warm-up would have needed: the rows are placeholders.
            Without durable state the warm-up was ended with what there was, and the sum of the
            values is in the record.
    """

    read: int
    released: int
    held: int
    threshold: float | None
    unmeasured: int = 0


class Passage:
    """A context manager: entering completes the sink from the journal, `take` goes on from there.

    Args:
        release: what releases the values.
        output: where the rows go.
        start, written, progress, warn: see `tidegate.durable.transfer`.
        more: public facts for the metadata, beside those of the release.
    """

    def __init__(
        self,
        release: DurableRelease | Release,
        output: Output,
        *,
        warn: Callable[[str], None],
        start: int | None = None,
        written: int | None = None,
        progress: Callable[[int], None] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        if output.path is not None and written is not None:
            raise SettingError("written", "must not be given for a file: its rows are counted")
        self.run = release if isinstance(release, DurableRelease) else MemoryRun(release)
        append_at, self._sent = 0, written or 0
        if isinstance(self.run, DurableRelease):
            if output.path is not None:
                append_at = self._sent = rows_written(output.path, output.format, self.run, warn)
            check_not_ahead("the sink", self._sent, self.run)
        self._writer = Writer(output, self.run, append_at, warn, more)
        self._stack = ExitStack()
        self._progress = progress or _ignore
        self._place, self._placed = start or 0, start is not None
        self._recogniser: Recogniser | None = None

    def __enter__(self) -> Passage:
        with ExitStack() as entering:
            entering.enter_context(self._writer)
            if self._sent < self.run.position:  # else the journal need not be read
                for rows in self.run.replay_rows(self._sent):
                    self._writer.write(rows)
            self._stack = entering.pop_all()
        return self

    def __exit__(self, *reason: Any) -> bool | None:
        return self._stack.__exit__(*reason)

    def take(self, batch: Batch) -> None:
        """Release a batch, but for values that were read before, which are compared."""
        rest = self._unread(batch)
        fresh = len(rest)
        while len(rest):
            taken = self.run.seen
            # A source has checked the order of its times, by its own policy.
            rows = self.run.push_rows(rest.values, rest.users, rest.times, "keep")
            self._writer.write(rows)
            rest = rest.part(self.run.seen - taken)
        if fresh:
            self._progress(fresh)

    def advance(self, until: Moment) -> None:
        """Release the ticks of events that are over, if there are any."""
        ticks, run = self.run.pipeline.ticks, self.run
        read_before = self._place < run.seen and not self._placed
        if ticks is not None and not read_before and ticks.complete(until) > run.position:
            self._writer.write(run.advance(until))

    def finish(self, until: Moment | None = None) -> Transferred:
        """The source is at its end: commit everything; of events, release ticks `until` then."""
        run = self.run
        if self._place < run.seen and not self._placed:
            raise StateError(
                f"the input ends {run.seen - self._place} values before the place where the last "
                f"run stopped. Give the whole input again ({_CONTINUES})"
            )
        if until is not None:
            self._writer.write(run.advance(until))
        unmeasured = 0 if run.phases else run.warming
        if isinstance(run, MemoryRun):  # nothing will go on, and the end of the input is public
            run.finish()
        run.save()
        return Transferred(run.seen, run.position, run.holding, run.threshold, unmeasured)

    def _unread(self, batch: Batch) -> Batch:
        run = self.run
        if batch.start is not None:
            self._place, self._placed = batch.start, True
        place = self._place
        if place > run.seen:
            raise StateError(
                f"the source continues at value {place}, but only {run.seen} values were read. "
                f"Send the values from {run.seen} on"
            )
        known = min(run.seen - place, len(batch))
        if known and isinstance(run, DurableRelease):
            self._recognise(run, place, batch.part(0, known))
        if known:
            self._progress(known)
        self._place += len(batch)
        return batch.part(known) if known else batch

    def _recognise(self, run: DurableRelease, place: int, old: Batch) -> None:
        recogniser = self._recogniser
        if recogniser is None or recogniser.place != place or recogniser.left < len(old):
            recogniser = self._recogniser = run.recogniser(place)
        units = run.pipeline.lattice.units(old.values)
        if not recogniser.push(units, old.users, old.times and old.times.ticks):
            raise StateError(
                "the input differs from what was read before, within its first "
                f"{run.seen} values. Reusing noise on changed data would reveal the change. "
                f"Give the same input from its beginning ({_CONTINUES}), or begin again with "
                "--new-epoch, which is charged on top"
            )


def _ignore(count: int) -> None:
    pass


_CONTINUES = "for a pipe that continues where it stopped: --stdin continues, or start=release.seen"
