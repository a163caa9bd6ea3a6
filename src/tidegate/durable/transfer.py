"""From a source through a release into a sink, exactly once.

    source → skip what was read before → DurableRelease.push → commit ║ sink
                                          journal → rows that the sink lacks ┘

Whatever the moment of a crash, the same call completes the output: every row once, with the noise
that it had. The command line, a service and a Python program all use this one function.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tidegate.durable.folder import StateError
from tidegate.durable.memory_run import MemoryRun
from tidegate.durable.output_check import check_not_ahead, rows_written
from tidegate.durable.release import DurableRelease
from tidegate.durable.writer import Output, Writer
from tidegate.errors import SettingError
from tidegate.io import Batch, Sink, Source
from tidegate.io.function_sink import Receiver
from tidegate.record.time_ranges import Moment
from tidegate.run.release import Release
from tidegate.tables.incoming import library_of

Values = Source | Iterable[Any]
_log = logging.getLogger(__name__)


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


def transfer(
    source: Values,
    release: DurableRelease | Release,
    sink: str | Path | Sink | Receiver | None,
    *,
    format: str | None = None,  # noqa: A002  # as in open_sink
    start: int | None = None,
    written: int | None = None,
    until: Moment | None = None,
    progress: Callable[[int], None] | None = None,
    warn: Callable[[str], None] = _log.warning,
) -> Transferred:
    """Read a source to its end, release it, and write what was released, each row once.

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
        format: the format of a file whose extension does not tell.
        start: the place of the source's first value, counted from 0 over the whole input; a batch
            may also have its own. Values that are delivered again are compared and skipped, a gap
            is refused. None: the source is the whole input, from its beginning.
        written: how many rows a sink holds that cannot be read back (standard output, a function).
            It gets the rows from there on: all of them by default.
        until: of an event stream, the time up to which ticks are released; public, never read off
            the events.
        progress: is told how many values were handled, block by block.
        warn: is told what was repaired, and what went wrong on top of an error. Logged by default.

    Raises:
        StateError: the input is not the one that was read before, or values are missing; the
            output is not of this release, or is newer than its state.
        CapExceeded: the ledger's cap is reached. What it paid for is released and written.
    """
    if (until is None) != (release.pipeline.ticks is None):
        raise SettingError("until", "must be given for an event stream, and only for one")
    output = Output.to(sink, format)
    if output.path is not None and written is not None:
        raise SettingError("written", "must not be given for a file: its rows are counted")
    run = release if isinstance(release, DurableRelease) else MemoryRun(release)
    append_at, sent = 0, written or 0
    if isinstance(run, DurableRelease):
        if output.path is not None:
            append_at = sent = rows_written(output.path, output.format, run, warn)
        check_not_ahead("the sink", sent, run)
    with Writer(output, run, append_at, warn) as writer:
        if sent < run.position:  # else nothing is missing, and the journal need not be read
            for rows in run.replay_rows(sent):
                writer.write(rows)
        for batch in _unread(run, _batches(source, run, start or 0), start, progress or _ignore):
            rest = batch
            while len(rest):
                taken = run.seen
                # A source has checked the order of its times, by its own policy.
                rows = run.push_rows(rest.values, rest.users, rest.times, "keep")
                writer.write(rows)
                rest = rest.part(run.seen - taken)
            if progress is not None:
                progress(len(batch))
        if until is not None:
            writer.write(run.advance(until))
        unmeasured = 0 if run.phases else run.warming
        if isinstance(run, MemoryRun):  # nothing will go on, and the end of the input is public
            run.finish()
        run.save()
    return Transferred(run.seen, run.position, run.holding, run.threshold, unmeasured)


def _batches(source: Values, run: DurableRelease | MemoryRun, at: int) -> Iterator[Batch]:
    """The source as batches; `at` is the place of its first value."""
    if isinstance(source, str | bytes | Path):
        raise SettingError("source", "must be open: use tidegate.io.open_source(path)")
    if hasattr(source, "batches"):
        yield from source.batches()
        return
    whole = isinstance(source, np.ndarray) or bool(library_of(source))
    blocks: Iterable[Any] = [source] if whole else source
    for block in blocks:
        batch = block
        if not isinstance(batch, Batch):
            single = not isinstance(block, list | tuple) and np.ndim(block) == 0
            batch = Batch(run.pipeline.lattice.numbers([block] if single else block, at))
        yield batch
        at += len(batch)


def _unread(
    run: DurableRelease | MemoryRun,
    batches: Iterator[Batch],
    start: int | None,
    progress: Callable[[int], None],
) -> Iterator[Batch]:
    """The batches without the values that were read before, which are compared."""
    place, placed, recogniser = start or 0, start is not None, None
    for batch in batches:
        if batch.start is not None:
            place, placed = batch.start, True
        if place > run.seen:
            raise StateError(
                f"the source continues at value {place}, but only {run.seen} values were read. "
                f"Send the values from {run.seen} on"
            )
        known = min(run.seen - place, len(batch))
        if known and isinstance(run, DurableRelease):
            if recogniser is None or recogniser.place != place or recogniser.left < known:
                recogniser = run.recogniser(place)
            old = batch.part(0, known)
            units = run.pipeline.lattice.units(old.values)
            if not recogniser.push(units, old.users, old.times and old.times.ticks):
                raise StateError(
                    "the input differs from what was read before, within its first "
                    f"{run.seen} values. Reusing noise on changed data would reveal the change. "
                    f"Give the same input from its beginning ({_CONTINUES}), or begin again with "
                    "--new-epoch, which is charged on top"
                )
        if known:
            progress(known)
        place += len(batch)
        if known < len(batch):
            yield batch.part(known)
    if place < run.seen and not placed:
        raise StateError(
            f"the input ends {run.seen - place} values before the place where the last run "
            f"stopped. Give the whole input again ({_CONTINUES})"
        )


def _ignore(count: int) -> None:
    pass


_CONTINUES = "for a pipe that continues where it stopped: --stdin continues, or start=release.seen"
