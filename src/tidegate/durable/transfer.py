"""Transfer a source through a release into a sink, exactly once.

    source → skip what was read before → DurableRelease.push → commit ║ sink
                                          journal → rows that the sink lacks ┘

Whatever the moment of a crash, the same call completes the output: every row once, with the noise
that it had. The command line, a service and a Python program all use this one function.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tidegate.durable.durable_release import DurableRelease
from tidegate.durable.folder_lock import StateError
from tidegate.durable.input_digests import InputRecogniser
from tidegate.durable.output_check import check_output_not_ahead, output_rows_written
from tidegate.durable.output_writer import Format, OutputTarget, OutputWriter
from tidegate.durable.release_in_memory import ReleaseInMemory
from tidegate.errors import SettingError
from tidegate.io import Batch, Sink, Source
from tidegate.io.open_sink import Receiver
from tidegate.lattice import Lattice
from tidegate.record.times.time_ranges_and_tables import Moment
from tidegate.run.release import Release
from tidegate.tables.columns_to_numpy import library_of_column


@dataclass(frozen=True)
class Transferred:
    """The progress of a release after a transfer.

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


class TransferPassage:
    """A context: entering it completes the sink from the journal; `take` continues from there.

    Args:
        release: what releases the values.
        output: where the rows go.
        start, written, progress, warn: see `tidegate.durable.transfer`.
        more: public facts for the metadata, beside those of the release.
    """

    def __init__(
        self,
        release: DurableRelease | Release,
        output: OutputTarget,
        *,
        warn: Callable[[str], None],
        start: int | None = None,
        written: int | None = None,
        progress: Callable[[int], None] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        if output.path is not None and written is not None:
            raise SettingError("written", "must not be given for a file: its rows are counted")
        append_at, self._sent = 0, written or 0
        self.run: DurableRelease | ReleaseInMemory
        if isinstance(release, DurableRelease):
            self.run = release
            if output.path is not None:
                kind = output.format() if callable(output.format) else output.format
                append_at = self._sent = output_rows_written(output.path, kind, release, warn)
            check_output_not_ahead("the sink", self._sent, release)
        else:
            self.run = ReleaseInMemory(release)
        self._writer = OutputWriter(output, self.run, append_at, warn, more)
        self._stack = ExitStack()
        self._progress = progress or _ignore_in_transfer
        self._place, self._placed = start or 0, start is not None
        self._recogniser: InputRecogniser | None = None

    def __enter__(self) -> TransferPassage:
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
        """Release a batch, except for values that were read before, which are compared."""
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
        """Release the ticks that are over; do nothing for streams without ticks."""
        ticks, run = self.run.pipeline.ticks, self.run
        read_before = self._place < run.seen and not self._placed
        if ticks is not None and not read_before and ticks.complete(until) > run.position:
            self._writer.write(run.advance(until))

    def finish(self, until: Moment | None = None) -> Transferred:
        """Commit everything at the end of the source; for events, release ticks `until` then."""
        run = self.run
        if self._place < run.seen and not self._placed:
            missing = "" if run.pipeline.ticks else f"{run.seen - self._place} values "
            raise StateError(
                f"the input ends {missing}before the place where the last run stopped. Give the "
                f"whole input again ({_CONTINUES})"
            )
        if until is not None:
            self._writer.write(run.advance(until))
        unmeasured = 0 if run.phases else run.warming
        if not run.resumable:  # nothing will follow, and the end of the input is public
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
        if known:
            self._recognise(place, batch.part(0, known))
            self._progress(known)
        self._place += len(batch)
        return batch.part(known) if known else batch

    def _recognise(self, place: int, old: Batch) -> None:
        run, recogniser = self.run, self._recogniser
        if recogniser is None or recogniser.place != place or recogniser.left < len(old):
            recogniser = self._recogniser = run.recogniser(place)
        if recogniser is None:  # for a run in memory the caller says what was read
            return
        units = run.pipeline.lattice.units(old.values)
        if not recogniser.push(units, old.users, old.times and old.times.ticks):
            # How many events there are is nobody's business.
            where = "" if run.pipeline.ticks else f", within its first {run.seen} values"
            raise StateError(
                f"the input differs from what was read before{where}. Reusing noise on changed "
                "data would reveal the change. Give the same input from its beginning "
                f"({_CONTINUES}), or begin again with new_epoch=True (--new-epoch), which is "
                "charged on top"
            )


def _ignore_in_transfer(count: int) -> None:
    pass


_CONTINUES = (
    "one file a day: append each to one that grows, and give that; a pipe that continues where it "
    "stopped: --stdin continues, or start=release.seen"
)


Values = Source | Iterable[Any]
_log = logging.getLogger(__name__)


def transfer(
    source: Values,
    release: DurableRelease | Release,
    sink: str | Path | Sink | Receiver | None,
    *,
    format: Format = None,  # noqa: A002  # as in open_sink
    start: int | None = None,
    written: int | None = None,
    until: Moment | Callable[[], Moment] | None = None,
    progress: Callable[[int], None] | None = None,
    warn: Callable[[str], None] = _log.warning,
) -> Transferred:
    """Read a source to its end, release it, and write the result, each row once.

    With a `DurableRelease`: values that an earlier transfer has read are compared with keyed
    digests and skipped; rows that the sink lacks are written from the journal, never computed
    again; a state that is older than its output is refused. When this returns, all that was read is
    committed. If it raises, call it again with the same arguments, after opening the state again.

    Everything that reaches the sink, metadata included, is committed state. A push that fails
    before its commit will be done again, perhaps with other values, so its noise and its threshold
    must not be seen by anybody.

    With a new `Release` the same is done once, without any of these: an existing file is replaced.

    One transfer at a time: a second thread would write its rows in between.

    Args:
        source: from `tidegate.io.open_source`, or any iterable of blocks: arrays, single numbers,
            or `tidegate.io.Batch` with users, or with the place of each. An array, or a column of
            pandas, polars, pyarrow or DuckDB, is one block.
        release: what releases the values.
        sink: a file, which is compared with the journal and completed; None or "-" for standard
            output; a `tidegate.io.Sink`; or a function that takes the position of the first row
            and an array of values.
        format: the format of a file whose extension does not tell; a function is asked when the
            first row is written.
        start: the position of the source's first value, counted from 0 over the whole input; a
            batch may also have its own. Repeated values are compared and skipped, a gap is
            refused. None: the source is the whole input, from its beginning.

        written: how many rows a sink holds that cannot be read back (standard output, a function).
            It gets the rows from there on: all of them by default.
        until: for an event stream, the time up to which ticks are released; public, never read off
            the events. A function is a clock: ticks are released as time passes, whenever a source
            that follows a file has read all of it.
        progress: called with the number of values handled, block by block.
        warn: called with repairs, and with problems besides an error. Logged by default.

    Raises:
        StateError: the input is not the one that was read before, or values are missing; the
            output is not of this release, or is newer than its state.
        CapExceeded: the ledger's cap is reached. What it paid for is released and written.
    """
    if (until is None) != (release.pipeline.ticks is None):
        raise SettingError("until", "must be given for an event stream, and only for one")
    options: dict[str, Any] = {"start": start, "written": written, "progress": progress}
    with TransferPassage(release, OutputTarget.to(sink, format), warn=warn, **options) as passage:
        if callable(until) and hasattr(source, "when_idle"):
            clock = until
            source.when_idle(lambda: passage.advance(clock()))
        for batch in batches_to_transfer(source, passage.run.pipeline.lattice, start or 0):
            passage.take(batch)
        return passage.finish(until() if callable(until) else until)


def batches_to_transfer(source: Values, lattice: Lattice, at: int) -> Iterator[Batch]:
    """The source as batches; `at` is the position of its first value."""
    if isinstance(source, str | bytes | Path):
        raise SettingError("source", "must be open: use tidegate.io.open_source(path)")
    if hasattr(source, "batches"):
        yield from source.batches()
        return
    whole = isinstance(source, np.ndarray) or bool(library_of_column(source))
    blocks: Iterable[Any] = [source] if whole else source
    for block in blocks:
        batch = block
        if not isinstance(batch, Batch):
            single = not isinstance(block, list | tuple) and np.ndim(block) == 0
            batch = Batch(lattice.numbers([block] if single else block, at))
        yield batch
        at += len(batch)
