"""From a source with keys through a durable keyed release into a file, exactly once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tidegate.durable.folder import StateError
from tidegate.errors import SettingError, TidegateError
from tidegate.io import SinkError, Source
from tidegate.io.file_formats import kind_of
from tidegate.keyed.durable import DurableKeyed
from tidegate.keyed.event_release import KeyedEventRelease
from tidegate.keyed.gathering import gathered
from tidegate.keyed.metadata import keyed_facts
from tidegate.keyed.names import key_texts
from tidegate.keyed.rows import KeyedRows
from tidegate.keyed.sink import open_keyed_sink
from tidegate.keyed.transfer import KeyedTransferred, outcome
from tidegate.record.time_ranges import Moment

_DIFFERS = (
    "the input differs from what was read before. Reusing noise on changed data would reveal the "
    "change. Give the same input from its beginning, or use another state folder and output, which "
    "is charged on top"
)


def transfer_durably(
    source: Source,
    state: DurableKeyed,
    output: str | Path,
    *,
    format: str | None = None,  # noqa: A002  # as in open_sink
    late: str = "refuse",
    progress: Callable[[int], None] | None = None,
    until: Moment | None = None,
) -> KeyedTransferred:
    """Read a source from its beginning, release what is new, and complete the output.

    Of events, the ticks that are over `until` then are released at the end.

    Whatever the moment of a crash: open the state again and make the same call, and every row is in
    the output once, with the noise that it had.
    """
    if output in (None, "-"):
        raise SettingError("output", "must be a file where --by has --state")
    if not kind_of(output, format).recoverable:
        raise SettingError("output", "must be a plain CSV or JSONL file where --by has --state")
    place, release = Path(output), state.release
    state.format = format
    sink = state.begun(place)
    state.expect(place)
    skip, recogniser = release.seen, None

    def write(rows: KeyedRows) -> None:
        nonlocal sink
        if len(rows) and sink is None:
            opened = open_keyed_sink(place, format=format, clock=release.clock, append_at=0)
            sink = opened  # type: ignore[assignment]  # only text can be continued
        if len(rows):
            sink.write(rows)  # type: ignore[union-attr]

    try:
        for batch in gathered(source):
            known = min(skip, len(batch))
            if known:
                recogniser = recogniser or state.recogniser()
                old = batch.part(0, known)
                units = release.specification.pipeline.lattice.units(old.values)
                if not recogniser.push(units, key_texts(old.users), old.times and old.times.ticks):
                    raise StateError(_DIFFERS)
                skip -= known
            if known < len(batch):
                write(state.push(batch.part(known), late, sink))
            if progress is not None:
                progress(len(batch))
        if skip:
            raise StateError(
                f"the input ends {skip} rows before the place where the last run stopped. Give the "
                "whole input again"
            )
        if until is not None and isinstance(release, KeyedEventRelease):
            for end in release.ends_until(until):
                write(state.close_ticks(end, sink))
        if sink is not None:
            sink.complete(keyed_facts(release, complete=True))
    except TidegateError as error:
        # Only what is committed may leave: not even a threshold of a push that was not.
        if sink is not None and state.settled and not isinstance(error, SinkError):
            sink.complete(keyed_facts(release, complete=False))
        raise
    finally:
        if sink is not None:
            sink.abort()
    return outcome(release, release.unmeasured())
