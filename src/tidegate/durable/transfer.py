"""From a source through a release into a sink, exactly once.

    source → skip what was read before → DurableRelease.push → commit ║ sink
                                          journal → rows that the sink lacks ┘

Whatever the moment of a crash, the same call completes the output: every row once, with the noise
that it had. The command line, a service and a Python program all use this one function.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tidegate.durable.passage import Passage, Transferred
from tidegate.durable.release import DurableRelease
from tidegate.durable.writer import Output
from tidegate.errors import SettingError
from tidegate.io import Batch, Sink, Source
from tidegate.io.open_sink import Receiver
from tidegate.lattice import Lattice
from tidegate.record.time_ranges import Moment
from tidegate.run.release import Release
from tidegate.tables.to_numpy import library_of

Values = Source | Iterable[Any]
_log = logging.getLogger(__name__)


def transfer(
    source: Values,
    release: DurableRelease | Release,
    sink: str | Path | Sink | Receiver | None,
    *,
    format: str | None = None,  # noqa: A002  # as in open_sink
    start: int | None = None,
    written: int | None = None,
    until: Moment | Callable[[], Moment] | None = None,
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
            the events. A function is a clock: ticks are released as it goes on, whenever a source
            that follows a file has read all of it.
        progress: is told how many values were handled, block by block.
        warn: is told what was repaired, and what went wrong on top of an error. Logged by default.

    Raises:
        StateError: the input is not the one that was read before, or values are missing; the
            output is not of this release, or is newer than its state.
        CapExceeded: the ledger's cap is reached. What it paid for is released and written.
    """
    if (until is None) != (release.pipeline.ticks is None):
        raise SettingError("until", "must be given for an event stream, and only for one")
    options: dict[str, Any] = {"start": start, "written": written, "progress": progress}
    with Passage(release, Output.to(sink, format), warn=warn, **options) as passage:
        if callable(until) and hasattr(source, "when_idle"):
            clock = until
            source.when_idle(lambda: passage.advance(clock()))
        for batch in batches_of(source, passage.run.pipeline.lattice, start or 0):
            passage.take(batch)
        return passage.finish(until() if callable(until) else until)


def batches_of(source: Values, lattice: Lattice, at: int) -> Iterator[Batch]:
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
            batch = Batch(lattice.numbers([block] if single else block, at))
        yield batch
        at += len(batch)
