"""Reading, releasing, writing: with state on the disk or without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tidegate.cli.anchor import rows_written
from tidegate.cli.writer import Output, Writer
from tidegate.durable import DurableRelease, StateError
from tidegate.durable.metadata import public_facts
from tidegate.io import Batch, Source
from tidegate.record.rebuild import Recorder
from tidegate.run.phases import Phase
from tidegate.run.pipeline import Pipeline


@dataclass(frozen=True)
class Outcome:
    """What a run came to, for its closing line."""

    pipeline: Pipeline
    released: int
    held: int  # values that the hold-out still needs
    threshold: float | None
    unmeasured: int = 0  # values that an open warm-up would still have needed


def release_once(
    pipeline: Pipeline, source: Source, output: Output, progress: Callable[[int], None]
) -> Outcome:
    """Release the whole input without durable state.

    What is written is what whole pushes gave: a push that fails half-way has moved the release in
    memory, and nothing of that leaves.
    """
    release = pipeline.start()
    phases: dict[int, Phase] = {}  # all of them: the release forgets old ones
    recorder = Recorder(pipeline)  # the same for the record, where it is kept with the file
    released = 0

    def facts() -> dict[str, Any]:
        record = recorder.record(str(release.guarantee))
        known = [*phases.values()]
        return public_facts(pipeline, release.guarantee, known, released=released, record=record)

    # A journal: for the record, and because phases would be forgotten within a long push.
    recorded = not pipeline.estimator.adds_up
    journalled = recorded or pipeline.reselect is not None
    if journalled:
        release.journalled()

    def take() -> None:
        phases.update({phase.start: phase for phase in release.phases})
        pieces = release.journalled() if journalled else []
        if recorded:
            known = {at: (phase.threshold, phase.epoch) for at, phase in phases.items()}
            for piece in pieces:
                recorder.push(piece, known)

    with Writer(output, facts, lambda: len(phases)) as writer:
        for batch in source.batches():
            values = release.push(batch.values, batch.users)
            take()
            first, released = released, release.position
            writer.write(first, values)
            progress(len(batch))
        unmeasured = 0 if phases else release.warming
        if release.warming:  # the end of the input is public
            release.finish()
            take()
    return Outcome(pipeline, release.position, release.holding, release.threshold, unmeasured)


def release_durably(
    run: DurableRelease,
    source: Source,
    output: Output,
    progress: Callable[[int], None],
    *,
    resent: bool,
    emit_all: bool,
) -> Outcome:
    """Go on where the last run stopped: complete the output, skip what was read, release the rest.

    Everything that leaves, metadata included, is committed state: a push that fails before its
    commit will be done again, perhaps with other values, and the noise it met must have been seen
    by nobody.

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
        written = rows_written(str(output.path), output.format, run)
    append_at = 0 if output.standard else written
    with Writer(output, run.facts, lambda: len(run.phases), append_at) as writer:
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
    phases = run.phases
    held = 0 if phases else run.holding
    last = phases[-1].threshold if phases else None
    return Outcome(run.pipeline, run.position, held, last, run.warming)


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
                "--new-epoch, which is charged on top"
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
