"""Reading, releasing, writing: with state on the disk or without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tidegate.cli.exits import complain
from tidegate.durable import DurableRelease, StateError
from tidegate.durable.release import describe
from tidegate.errors import TidegateError
from tidegate.io import Batch, Sink, Source, open_sink, read_metadata, recover, recoverable
from tidegate.lattice import FloatArray
from tidegate.phases import Phase
from tidegate.pipeline import Pipeline
from tidegate.release import Release


@dataclass
class Output:
    """Where released values go."""

    path: str | None
    format: str | None

    @property
    def standard(self) -> bool:
        """Whether this is standard output."""
        return self.path in (None, "-")


def release_once(
    pipeline: Pipeline, source: Source, output: Output, progress: Callable[[int], None]
) -> Release:
    """Release the whole input without durable state."""
    release = pipeline.start()
    phases: dict[int, Phase] = {}  # all of them: the release forgets old ones
    with _Writer(output, lambda: describe(pipeline, release, [*phases.values()])) as writer:
        for batch in source.batches():
            first = release.position
            values = release.push(batch.values, batch.users)
            phases.update({phase.start: phase for phase in release.phases})
            writer.write(first, values)
            progress(len(batch))
    return release


def release_durably(
    run: DurableRelease,
    source: Source,
    output: Output,
    progress: Callable[[int], None],
    *,
    resent: bool | None,
    emit_all: bool,
) -> Release:
    """Go on where the last run stopped: complete the output, skip what was read, release the rest.

    Args:
        run: the durable release.
        source: the input, from its beginning or (a pipe) from where it stopped.
        output: must hold a beginning of what was released; the rest comes from the journal.
        progress: told how many values were handled.
        resent: whether the input starts from its beginning; None: find out (a pipe may do either).
        emit_all: on standard output, emit everything again and not only what is new.
    """
    written = _rows_written(output, run)
    if output.standard and not emit_all:
        written = run.position
    with _Writer(output, run.facts, append_at=written) as writer:
        for first, values in run.replay(written):
            writer.write(first, values)
        for batch in _unread(run, source.batches(), resent, progress):
            at = 0
            while at < len(batch):
                users = None if batch.users is None else batch.users[at:]
                taken = run.seen
                first, values = run.push(batch.values[at:], users)
                writer.write(first, values)
                at += run.seen - taken
            progress(len(batch))
    return run.release


def _rows_written(output: Output, run: DurableRelease) -> int:
    """How much of what was released the output holds; it must not be ahead of the state."""
    if output.standard or output.path is None:
        return 0
    if recoverable(output.path, output.format):
        rows = recover(output.path, output.format).rows
    else:
        exists = Path(output.path).exists()
        facts = (read_metadata(output.path) or {}) if exists else {}
        rows = int(facts.get("released", 0))
    if rows > run.position:
        raise StateError(
            f"{output.path} holds {rows} values, but the state knows of {run.position}: the state "
            "is older than its output (restored from a backup?). Going on would use noise a second "
            "time. Put the newest state back, or begin again with --new-epoch and another output"
        )
    return rows if recoverable(output.path, output.format) else 0


def _unread(
    run: DurableRelease,
    batches: Iterator[Batch],
    resent: bool | None,
    progress: Callable[[int], None],
) -> Iterator[Batch]:
    """The batches that were not read before; what was is recognised and left out."""
    recogniser = run.recogniser()
    if resent is False or not recogniser.left:
        yield from batches
        return
    units = run.pipeline.lattice.units
    waiting: list[Batch] = []  # agree so far, but so few that it may be by chance
    for batch in batches:
        known = min(recogniser.left, len(batch))
        users = None if batch.users is None else batch.users[:known]
        chance = recogniser.undecided
        if not recogniser.push(units(batch.values[:known]), users):
            if resent or not chance:
                raise StateError(_CHANGED.format(seen=run.seen))
            yield from waiting  # a pipe that goes on where it stopped
            yield batch
            yield from batches
            return
        waiting = [*waiting, batch] if recogniser.undecided else []
        progress(known)
        if known < len(batch):
            rest = None if batch.users is None else batch.users[known:]
            yield Batch(batch.values[known:], rest)
        if not recogniser.left:
            break
    if recogniser.left and (resent or not recogniser.undecided):
        raise StateError(_SHORT.format(left=recogniser.left))
    yield from waiting
    yield from batches


_CHANGED = (
    "the input differs from what was read before, within its first {seen} values: the same noise "
    "must not meet other values. Give the same input, or begin again with --new-epoch"
)
_SHORT = (
    "the input ends {left} values before the place where the last run stopped: give the same "
    "input, whole"
)


class _Writer:
    """A sink that is opened when the first value comes, and knows the public facts by its end.

    On an error it still completes the file: what was released was paid for, and stays readable.
    """

    def __init__(
        self, output: Output, facts: Callable[[], dict[str, Any]], append_at: int = 0
    ) -> None:
        self._output = output
        self._facts = facts
        self._append_at = append_at
        self._sink: Sink | None = None
        self._phases = 0

    def __enter__(self) -> _Writer:
        return self

    def write(self, first: int, values: FloatArray) -> None:
        """Write and flush; facts are stored whenever a threshold was chosen."""
        if not values.size:
            return
        sink = self._opened()
        sink.write(first, np.asarray(values))
        sink.flush()
        facts = self._facts()
        if len(facts["phases"]) != self._phases:
            self._phases = len(facts["phases"])
            sink.set_metadata(facts)

    def __exit__(self, kind: Any, error: BaseException | None, trace: object) -> None:
        if self._sink is None and error is None and not self._output.standard:
            self._opened()  # an empty stream is a file too
        if self._sink is None:
            return
        try:
            self._sink.set_metadata(self._facts())
            self._sink.close()
        except TidegateError as problem:
            if error is None:
                raise
            complain(str(problem))

    def _opened(self) -> Sink:
        if self._sink is None:
            append = self._append_at or None
            self._sink = open_sink(self._output.path, format=self._output.format, append_at=append)
        return self._sink
