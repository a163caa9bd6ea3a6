"""Reading, releasing, writing: with state on the disk or without."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tidegate.cli.exits import complain
from tidegate.durable import DurableRelease, StateError
from tidegate.durable.facts import describe
from tidegate.errors import InputError, TidegateError
from tidegate.io import (
    Batch,
    Sink,
    Source,
    SourceError,
    open_sink,
    read_metadata,
    read_released,
    recover,
    recoverable,
)
from tidegate.lattice import FloatArray
from tidegate.phases import Phase
from tidegate.pipeline import Pipeline
from tidegate.recording import Recorder
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

    @property
    def continuable(self) -> bool:
        """Whether it can be continued after a crash; others are written anew."""
        return recoverable(self.path, self.format)


def release_once(
    pipeline: Pipeline, source: Source, output: Output, progress: Callable[[int], None]
) -> Release:
    """Release the whole input without durable state."""
    release = pipeline.start()
    phases: dict[int, Phase] = {}  # all of them: the release forgets old ones
    recorder = Recorder(pipeline)  # the same for the record, where it is kept with the file

    def facts() -> dict[str, Any]:
        record = recorder.record(str(release.guarantee))
        return describe(pipeline, release, [*phases.values()], record)

    if not pipeline.smoother.adds_up:
        release.journalled()
    with _Writer(output, facts, lambda: len(phases)) as writer:
        for batch in source.batches():
            first = release.position
            values = release.push(batch.values, batch.users)
            phases.update({phase.start: phase for phase in release.phases})
            if not pipeline.smoother.adds_up:
                known = {at: (phase.threshold, phase.epoch) for at, phase in phases.items()}
                for piece in release.journalled():
                    recorder.push(piece, known)
            writer.write(first, values)
            progress(len(batch))
    return release


def release_durably(
    run: DurableRelease,
    source: Source,
    output: Output,
    progress: Callable[[int], None],
    *,
    resent: bool,
    emit_all: bool,
) -> Release:
    """Go on where the last run stopped: complete the output, skip what was read, release the rest.

    Args:
        run: the durable release.
        source: the input, from its beginning or (a pipe) from where it stopped.
        output: must hold a beginning of what was released; the rest comes from the journal.
        progress: told how many values were handled.
        resent: the input starts from its beginning.
        emit_all: on standard output, emit everything again and not only what is new.
    """
    written = 0 if emit_all else run.position
    if not output.standard:
        written = _rows_written(output, run)
    append_at = 0 if output.standard else written
    with _Writer(output, run.facts, lambda: len(run.phases), append_at) as writer:
        for first, values in run.replay(written):
            writer.write(first, values)
        for batch in _unread(run, source.batches(), progress) if resent else source.batches():
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
    """How much of what was released the output holds, as it was released.

    The output is the anchor: if it is ahead of the state, the state was rolled back. If it is not
    what the journal says (a hole after a power cut, an edit), it is written anew from the journal.
    """
    path = str(output.path)
    if not Path(path).exists():
        return 0
    facts = read_metadata(path, output.format) or {}
    ours = [phase.epoch for phase in run.phases[:1]]
    theirs = [phase["epoch"] for phase in facts.get("phases", ())[:1]]
    if output.continuable:
        found = recover(path, output.format)
        rows = found.first + found.rows if found.rows else 0
    else:
        found, rows = None, int(facts.get("released", 0))
    if rows and theirs and theirs != ours:
        raise StateError(f"{path} holds another release: give another output, or remove it")
    if rows > run.position:
        raise StateError(
            f"{path} holds {rows} values, but the state knows of {run.position}: the state is "
            "older than its output (restored from a backup?). Going on would use noise a second "
            "time. Put the newest state back, or begin again with --new-epoch and another output"
        )
    if not output.continuable or not rows:
        return 0
    same = _agreement(read_released(path, output.format), run.replay())
    if same == rows:
        return rows
    if not theirs:
        raise StateError(f"{path} is not what was released: give another output, or remove it")
    complain(f"{path} differs from what was released, from position {same} on: it is written anew")
    return 0


def _agreement(
    written: Iterator[tuple[int, FloatArray]], released: Iterator[tuple[int, FloatArray]]
) -> int:
    """Up to which position a file holds what was released."""
    position, rest = 0, np.empty(0)
    for first, values in _readable(written):
        at = 0
        while at < values.size:
            if not rest.size:
                _, rest = next(released, (0, rest))
            count = min(rest.size, values.size - at)
            if first != position - at or not count:
                return position
            wrong = np.flatnonzero(values[at : at + count] != rest[:count])
            if wrong.size:
                return position + int(wrong[0])
            at, position, rest = at + count, position + count, rest[count:]
    return position


def _readable(pieces: Iterator[tuple[int, FloatArray]]) -> Iterator[tuple[int, FloatArray]]:
    """The pieces of a file up to where it is damaged."""
    with suppress(SourceError, InputError):
        yield from pieces


def _unread(
    run: DurableRelease, batches: Iterator[Batch], progress: Callable[[int], None]
) -> Iterator[Batch]:
    """The batches that were not read before; what was is recognised and left out."""
    recogniser = run.recogniser()
    units = run.pipeline.lattice.units
    for batch in batches if recogniser.left else ():
        known = min(recogniser.left, len(batch))
        users = None if batch.users is None else batch.users[:known]
        if not recogniser.push(units(batch.values[:known]), users):
            raise StateError(
                f"the input differs from what was read before, within its first {run.seen} values: "
                "the same noise must not meet other values. Give the same input from its beginning "
                "(a pipe that goes on where it stopped: --stdin continues), or begin again with "
                "--new-epoch"
            )
        progress(known)
        if known < len(batch):
            rest = None if batch.users is None else batch.users[known:]
            yield Batch(batch.values[known:], rest)
        if not recogniser.left:
            break
    if recogniser.left:
        raise StateError(
            f"the input ends {recogniser.left} values before the place where the last run stopped: "
            "give the same input, whole (a pipe that goes on where it stopped: --stdin continues)"
        )
    yield from batches


class _Writer:
    """A sink that is opened when the first value comes, and knows the public facts by its end.

    On an error it still completes the file: what was released was paid for, and stays readable.
    """

    # A record that published values do not tell is part of the facts, and grows: it is written when
    # the file has grown by so much since the last time, which costs little however long it gets.
    _GROWTH = 1.1

    def __init__(
        self,
        output: Output,
        facts: Callable[[], dict[str, Any]],
        phases: Callable[[], int],
        append_at: int = 0,
    ) -> None:
        self._output = output
        self._facts = facts
        self._phases = phases
        self._append_at = append_at
        self._sink: Sink | None = None
        self._known = 0  # phases in the facts that were stored
        self._due: float = math.inf  # the position at which they are stored again

    def __enter__(self) -> _Writer:
        return self

    def write(self, first: int, values: FloatArray) -> None:
        """Write and flush; facts are stored whenever a threshold was chosen."""
        if not values.size:
            return
        sink = self._opened()
        # Before its rows: a reader may be close behind.
        if self._phases() != self._known or first + values.size >= self._due:
            facts = self._facts()
            self._known = len(facts["phases"])
            self._due = self._GROWTH * facts["released"] if "record" in facts else math.inf
            sink.set_metadata(facts)
        sink.write(first, np.asarray(values))
        sink.flush()

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
            self._sink = open_sink(
                self._output.path, format=self._output.format, append_at=self._append_at or None
            )
        return self._sink
