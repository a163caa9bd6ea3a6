"""From a source with keys through a keyed release into a file, once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tidegate.errors import TidegateError
from tidegate.io import Source
from tidegate.keyed.event_release import KeyedEventRelease
from tidegate.keyed.gathering import gathered
from tidegate.keyed.metadata import keyed_facts
from tidegate.keyed.release import KeyedRelease
from tidegate.keyed.rows import KeyedRows
from tidegate.keyed.sink import ParquetKeyedSink, TextKeyedSink, open_keyed_sink
from tidegate.record.time_ranges import Moment


@dataclass(frozen=True)
class KeyedTransferred:
    """How far a keyed release has come.

    Attributes:
        read: rows that were taken, dropped ones included.
        released: rows that there are.
        dropped: rows whose key was not declared. For the operator: not private.
        keys: keys that have rows.
        unmeasured: keys whose warm-up or hold-out is not over.
        held: how many more rows a shared hold-out needs.
    """

    read: int
    released: int
    dropped: int
    keys: int
    unmeasured: int
    held: int


def transfer_keyed(
    source: Source,
    release: KeyedRelease,
    output: str | Path | None,
    *,
    format: str | None = None,  # noqa: A002  # as in open_sink
    late: str = "refuse",
    progress: Callable[[int], None] | None = None,
    until: Moment | None = None,
) -> KeyedTransferred:
    """Read a source to its end, release it, and write what was released.

    The source has keys (`open_source(by=…)`). An existing file is replaced. After an error the file
    is completed with what was released, which was paid for; its metadata says so. Of events, the
    ticks that are over `until` then are released at the end.
    """
    sink: TextKeyedSink | ParquetKeyedSink | None = None

    def write(rows: KeyedRows) -> None:
        nonlocal sink
        if len(rows):
            sink = sink or open_keyed_sink(output, format=format, clock=release.clock)
            sink.write(rows)

    try:
        for batch in gathered(source):
            write(release.push_rows(batch.users, batch.values, batch.times, late))
            if progress is not None:
                progress(len(batch))
        if until is not None and isinstance(release, KeyedEventRelease):
            for end in release.ends_until(until):
                write(release.close_ticks(end))
        unmeasured = release.unmeasured()
        release.finish()
        if sink is not None:
            sink.complete(keyed_facts(release, complete=True))
    except TidegateError:
        if sink is not None:
            sink.complete(keyed_facts(release, complete=False))
        raise
    except BaseException:
        if sink is not None:
            sink.abort()
        raise
    return outcome(release, unmeasured)


def outcome(release: KeyedRelease, unmeasured: int) -> KeyedTransferred:
    """How far a release has come."""
    return KeyedTransferred(
        release.seen,
        release.position,
        release.dropped,
        len(release.released_keys()),
        unmeasured,
        release.holding,
    )
