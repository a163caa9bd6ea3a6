"""From a source with keys through a keyed release into a file.

`transfer_keyed` does it once; `transfer_durably`, with durable state, exactly once whatever happens
in between. A file is pushed in large pieces, since every push costs each of its keys something; a
source that grows is released as it comes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tidegate._context_managers import uninterrupted
from tidegate.durable.folder_lock import StateError
from tidegate.durable.output_writer import Format, Output
from tidegate.errors import SettingError, TidegateError
from tidegate.io import Batch, SinkError, Source
from tidegate.io.file_kind_and_row_count import kind_of
from tidegate.keyed.durable_folder import DurableKeyed
from tidegate.keyed.key_names import key_texts
from tidegate.keyed.keyed_facts import keyed_facts
from tidegate.keyed.keyed_sink import ParquetKeyedSink, TextKeyedSink, open_keyed_sink
from tidegate.keyed.release import KeyedRelease
from tidegate.keyed.rows import KeyedRows
from tidegate.record.times.time_ranges_and_tables import Moment
from tidegate.tables.repeated_items import RepeatedItems
from tidegate.timestamps import Times

_ROWS = 1 << 19  # that are pushed together, if they come from a file
_REST = 20  # facts about a followed output are written in a twentieth of the time
Until = Moment | Callable[[], Moment] | None


def gathered_for_transfer(source: Source) -> Iterator[Batch]:
    """The batches of a source; those of a file in larger pieces, since nobody waits for them.

    What is released does not depend on it. Rows before a bad one come before its error.
    """
    if source.fraction() is None:  # a pipe, or a file that grows: rows are released as they come
        yield from source.batches()
        return
    held: list[Batch] = []
    try:
        for batch in source.batches():
            held.append(batch)
            if sum(map(len, held)) >= _ROWS:
                ready, held = held, []
                yield _joined(ready)
    except Exception:
        if held:
            yield _joined(held)
        raise
    if held:
        yield _joined(held)


def _joined(batches: list[Batch]) -> Batch:
    if len(batches) == 1:
        return batches[0]
    values = np.concatenate([batch.values for batch in batches])
    users = [batch.users for batch in batches if batch.users is not None]
    times = [batch.times for batch in batches if batch.times is not None]
    return Batch(
        values,
        RepeatedItems.joined(users) if users else None,
        times=Times(np.concatenate([one.ticks for one in times]), times[0].clock)
        if times
        else None,
    )


class _Following:
    """What happens while a followed source has nothing new: ticks end, and facts are written.

    Args:
        source: it is followed if it can say that it is idle.
        until: a clock, of events whose ticks end as it goes on.
        close: releases the ticks up to then.
        show: writes the facts about the output as it is; False if there are no rows so far.
    """

    def __init__(
        self,
        source: Source,
        until: Until,
        close: Callable[[Moment], None],
        show: Callable[[], bool],
    ) -> None:
        self._until, self._close, self._show = until, close, show
        self._next = 0.0  # when facts may be written again
        self.news = False
        if source.fraction() is None and hasattr(source, "when_idle"):
            source.when_idle(self._idle)

    def _idle(self) -> None:
        if callable(self._until):
            self._close(self._until())
        now = time.monotonic()
        if self.news and now >= self._next and self._show():
            self.news = False
            self._next = now + _REST * (time.monotonic() - now)

    def finish(self) -> None:
        """The source is at its end: close the last ticks."""
        last = self._until() if callable(self._until) else self._until
        if last is not None:
            self._close(last)


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
    format: Format = None,  # noqa: A002  # as in `durable.transfer`
    late: str = "refuse",
    progress: Callable[[int], None] | None = None,
    until: Until = None,
) -> KeyedTransferred:
    """Read a source to its end, release it with a new release, and write what was released.

    The source has keys (`open_source(by=…)`). An existing file is replaced. After an error, or
    Ctrl-C, the file is completed with what was released, which was paid for; its metadata says so.
    Of events, the ticks that are over `until` then are released at the end; `until` may be a clock,
    for a source that follows a file: then ticks are released as it goes on.
    """
    if release.seen:
        raise SettingError(
            "release",
            "has taken rows already, which the file would lack. Transfer with a new release, or "
            "with a DurableKeyed (`transfer_durably`)",
        )
    sink: TextKeyedSink | ParquetKeyedSink | None = None
    # Signals wait until rows are written: an interrupted push could not be described, and a torn
    # file not be completed.
    whole = uninterrupted if Output.to(output).regular else nullcontext

    def write(rows: KeyedRows) -> None:
        nonlocal sink
        if len(rows):
            kind = format() if callable(format) else format
            sink = sink or open_keyed_sink(output, format=kind, clock=release.clock)
            sink.write(rows)
            following.news = True

    def close_ticks(moment: Moment) -> None:
        for end in release.ends_until(moment):
            with whole():
                write(release.close_ticks(end))

    def show() -> bool:
        return sink is not None and sink.show(keyed_facts(release, complete=False))

    following = _Following(source, until, close_ticks, show)
    try:
        for batch in gathered_for_transfer(source):
            with whole():
                write(release.push_rows(batch.users, batch.values, batch.times, late))
            if progress is not None:
                progress(len(batch))
        following.finish()
        with whole():
            unmeasured = release.unmeasured()
            release.finish()
            if sink is not None:
                sink.complete(keyed_facts(release, complete=True))
    except (TidegateError, KeyboardInterrupt):
        if sink is not None and not release.cut_short:
            with whole(), suppress(SinkError):  # the error that is under way says more
                sink.complete(keyed_facts(release, complete=False))
        raise
    finally:
        if sink is not None:
            sink.abort()  # does nothing to a file that is complete
    return transfer_outcome(release, unmeasured)


def transfer_outcome(release: KeyedRelease, unmeasured: int) -> KeyedTransferred:
    """How far a release has come."""
    return KeyedTransferred(
        release.seen,
        release.position,
        release.dropped,
        len(release.released_keys()),
        unmeasured,
        release.holding,
    )


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
    until: Until = None,
) -> KeyedTransferred:
    """Read a source from its beginning, release what is new, and complete the output.

    Of events, the ticks that are over `until` then are released at the end; a clock as in
    `transfer_keyed`.

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
            following.news = True

    def close_ticks(moment: Moment) -> None:
        for end in [] if skip else release.ends_until(moment):
            write(state.close_ticks(end, sink))

    def show() -> bool:
        return sink is not None and sink.show(keyed_facts(release, complete=False))

    following = _Following(source, until, close_ticks, show)
    try:
        for batch in gathered_for_transfer(source):
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
                "the input ends before the place where the last run stopped. Give the whole input "
                "again"
            )
        following.finish()
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
    return transfer_outcome(release, release.unmeasured())
