"""Transfer a source with keys through a keyed release into a file.

`transfer_keyed` does it once; `transfer_durably`, with durable state, exactly once whatever happens
in between; `transfer_keyed_columns` several columns at once. A file is pushed in large pieces,
since every push costs each of its keys something; a source that grows is released as it comes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tidegate.durable.durable_columns import with_ones
from tidegate.durable.output_writer import Format
from tidegate.errors import SettingError, TidegateError
from tidegate.io import Batch, Source
from tidegate.keyed.durable_columns_by_key import DurableKeyedColumns
from tidegate.keyed.durable_folder import DurableKeyed
from tidegate.keyed.keyed_release import KeyedRelease
from tidegate.keyed.passage_to_file import (
    DurablePassage,
    KeyedPassage,
    KeyedTransferred,
    PassageOnce,
)
from tidegate.record.times.time_ranges_and_tables import Moment
from tidegate.run.column_budgets import COUNT, facts_of_all_columns
from tidegate.tables.repeated_items import RepeatedItems
from tidegate.timestamps import Times

_ROWS = 1 << 19  # that are pushed together, if they come from a file
_REST = 20  # facts about a followed output are written in a twentieth of the time
Until = Moment | Callable[[], Moment] | None


def gathered_for_transfer(source: Source) -> Iterator[Batch]:
    """The batches of a source; small batches of a file are joined into larger ones.

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
                yield _joined_for_transfer(ready)
    except Exception:
        if held:
            yield _joined_for_transfer(held)
        raise
    if held:
        yield _joined_for_transfer(held)


def _joined_for_transfer(batches: list[Batch]) -> Batch:
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
        others=tuple(map(np.concatenate, zip(*(one.others for one in batches), strict=True))),
    )


class _FollowingTransfer:
    """The work while a followed source has nothing new: closing ticks, writing facts.

    Args:
        source: it is followed if it can say that it is idle.
        until: for events, a clock that says which ticks are over.
        passages: of each column; the clock is read once for all.
    """

    def __init__(self, source: Source, until: Until, passages: Sequence[KeyedPassage]) -> None:
        self._until, self._passages = until, passages
        self._next = 0.0  # when facts may be written again
        if source.fraction() is None and hasattr(source, "when_idle"):
            source.when_idle(self._idle)

    def _idle(self) -> None:
        if callable(self._until):
            self._close(self._until())
        now = time.monotonic()
        if now < self._next:
            return
        for passage in self._passages:
            if passage.news and passage.show():
                passage.news = False
                self._next = now + _REST * (time.monotonic() - now)

    def _close(self, moment: Moment) -> None:
        # Not in one column before another has read again what it took: events would be late there.
        if not any(passage.behind for passage in self._passages):
            for passage in self._passages:
                passage.close_ticks(moment)

    def finish(self) -> None:
        """Close the last ticks at the end of the source."""
        last = self._until() if callable(self._until) else self._until
        if last is not None:
            self._close(last)


def _keyed_transferred(
    source: Source,
    passages: Sequence[KeyedPassage],
    columns: Callable[[Batch], Sequence[Batch]],
    progress: Callable[[int], None] | None,
    until: Until,
) -> list[KeyedTransferred]:
    """Read a source to its end, through all passages: batch by batch, tick by tick."""
    following = _FollowingTransfer(source, until, passages)
    try:
        _level(passages)
        for batch in gathered_for_transfer(source):
            for passage, part in zip(passages, columns(batch), strict=True):
                passage.take(part)
            if progress is not None:
                progress(len(batch))
        for passage in passages:
            if isinstance(passage, DurablePassage):
                passage.check_all_read_again()
        following.finish()
        return [passage.complete() for passage in passages]
    except (TidegateError, KeyboardInterrupt) as error:
        for passage in passages:
            passage.fail(error)
        raise
    finally:
        for passage in passages:
            passage.abort()


def _level(passages: Sequence[KeyedPassage]) -> None:
    """Close the ticks that only some columns had closed before a kill.

    No event came in between. One that comes now is late in all columns then, or in none.
    """
    durable = [one for one in passages if isinstance(one, DurablePassage)]
    newest = max((one.ticks_over for one in durable), default=0)
    for one in durable:
        if one.ticks_over < newest:
            one.close_to(newest)


def _alone(batch: Batch) -> list[Batch]:
    return [batch]


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
    """Read a source to its end, release it with a new release, and write the result.

    The source has keys (`open_source(by=…)`). An existing file is replaced. After an error, or
    Ctrl-C, the file is completed with what was released, which was paid for; its metadata says so.
    For events, the ticks that are over at `until` are released at the end. For a source that
    follows a file, `until` may be a clock: then ticks are released as time passes.
    """
    passage = PassageOnce(release, output, format=format, late=late)
    return _keyed_transferred(source, [passage], _alone, progress, until)[0]


def transfer_durably(
    source: Source,
    state: DurableKeyed,
    output: str | Path,
    *,
    format: str | None = None,  # noqa: A002  # as in open_keyed_sink
    late: str = "refuse",
    progress: Callable[[int], None] | None = None,
    until: Until = None,
) -> KeyedTransferred:
    """`transfer_keyed` with durable state; rows that were read before are recognised and skipped.

    For events, the ticks that are over at `until` are released at the end; it may be a clock, as
    in `transfer_keyed`.

    Whatever the moment of a crash: open the state again and make the same call, and every row is in
    the output once, with the noise that it had.
    """
    passage = DurablePassage(state, output, format=format, late=late)
    return _keyed_transferred(source, [passage], _alone, progress, until)[0]


def transfer_means_by_key(
    source: Source,
    releases: DurableKeyedColumns | Mapping[str, KeyedRelease],
    sinks: Mapping[str, str | Path],
    *,
    format: str | None = None,  # noqa: A002  # as in open_keyed_sink
    progress: Callable[[int], None] | None = None,
    until: Moment | Callable[[], Moment],
) -> dict[str, KeyedTransferred]:
    """`transfer_keyed` for sums and the count of one log's events: a file for each.

    A clock is read once for all, so that they have the same ticks; each event is in all of them, or
    late in all, after a kill too.

    Args:
        source: from `tidegate.io.open_source(path, by=…, column=[…])`, in the order of `releases`.
        releases: `DurableKeyedColumns`, or a new release for each column. The last one is called
            `COUNT`, and takes a 1 for each row.
        sinks: the file of each column.
        format, progress, until: as in `transfer_keyed`.
    """
    columns: Mapping[str, Any]
    columns = releases.runs if isinstance(releases, DurableKeyedColumns) else releases
    if [*columns][-1:] != [COUNT] or len(columns) < 2:
        raise SettingError("means", f"need event streams, the last of them called {COUNT!r}")
    promises = {name: one.guarantee for name, one in columns.items()}
    more = {"together": facts_of_all_columns(promises, means=True)}
    passages: list[PassageOnce | DurablePassage] = []
    try:
        for name, one in columns.items():
            kind: Any = DurablePassage if isinstance(one, DurableKeyed) else PassageOnce
            passages.append(kind(one, sinks[name], format=format, more={**more, "column": name}))
    except TidegateError as error:  # the files of those before are as they were
        for passage in passages:
            passage.fail(error)
            passage.abort()
        raise
    found = _keyed_transferred(
        source, passages, lambda batch: with_ones(batch).by_column(), progress, until
    )
    return dict(zip(columns, found, strict=True))
