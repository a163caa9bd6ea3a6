"""Several columns of one source: a release for each, one ledger for their sum.

    source ─┬─ fare → DurableRelease in FOLDER/0-fare → its file
            └─ tip  → DurableRelease in FOLDER/1-tip  → its file
    FOLDER/ledger.jsonl: what a row has spent, all columns together

**Privacy.** A row has a value in each column; neighbours differ in one row, in any of them. Each
column is released by itself with noise of its own, at cost ε_i for its value, so everything
together costs Σ ε_i: sequential composition, computed from the pipelines. The ledger is charged
with that sum before any column reads a value. Each column is durable and exactly-once as a release
of one column is; after a crash they may be at different positions, and each resumes from its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tidegate.durable.charging import ChargedCost, charged_costs_together
from tidegate.durable.columns_on_disk import ColumnsOnDisk
from tidegate.durable.durable_release import DurableRelease
from tidegate.durable.folder_lock import StateError
from tidegate.durable.output_writer import OutputTarget
from tidegate.durable.transfer import TransferPassage, Transferred
from tidegate.errors import SettingError
from tidegate.io import Batch, Source
from tidegate.record.times.time_ranges_and_tables import Moment
from tidegate.run.column_budgets import COUNT, facts_of_all_columns
from tidegate.run.release import Release


class DurableColumns(ColumnsOnDisk[DurableRelease]):
    """Durable releases of several columns. Made by `DurableColumns.open`; close it, or use `with`.

    Attributes:
        runs: the release of each column.
        source: the name of the source in the ledger.
    """

    @staticmethod
    def _column(folder: Path, wanted: Any, **how: Any) -> DurableRelease:
        return DurableRelease.open(folder, wanted, **how)

    @staticmethod
    def _costs(wanted: list[Any]) -> Iterator[ChargedCost]:
        return charged_costs_together(wanted)


class _ColumnsInMemory:
    """New releases of several columns, without durable state."""

    def __init__(self, runs: Mapping[str, Release]) -> None:
        self.runs = runs

    def charge(self, end: int) -> int:
        """Allow all rows: there is no ledger."""
        return end


class _ColumnsOfOneClock:
    """Columns that a kill left apart close ticks once all have read the same events.

    A column that has closed a tick had read as many events as any, since every batch goes to all
    columns before a tick is closed, and they were committed with it. The others may have read
    fewer. They read these first, and then close the same ticks, before anybody sees an event that
    comes after: it is late in all columns, or in none.
    """

    def __init__(self, passages: Sequence[TransferPassage], place: int) -> None:
        runs = [passage.run for passage in passages]
        self._passages, self._place = passages, place
        self._apart = len({(run.seen, run.position) for run in runs}) > 1
        self._read, self._closed = max(run.seen for run in runs), max(run.position for run in runs)

    def room(self, rows: int) -> int:
        """How many of these rows may be read together."""
        return min(rows, self._read - self._place) if self._apart else rows

    def reach(self, place: int) -> None:
        """All columns have read the rows before this place."""
        self._place = place
        if self._apart and place >= self._read:
            self._apart = False
            for passage in self._passages:
                passage.close_ticks_before(self._closed)

    def advance(self, to: Moment) -> None:
        """Release the ticks that are over, unless a column still reads what another one has."""
        if not self._apart:
            for passage in self._passages:
                passage.advance(to)

    def check_read_again(self) -> None:
        """Refuse an input that ends before the place where the columns are together."""
        if self._apart:
            raise StateError(
                "the input ends before the place where the last run stopped. Give the whole input "
                "again"
            )


def transfer_columns(
    source: Source,
    releases: DurableColumns | Mapping[str, Release],
    sinks: Mapping[str, str | Path | None],
    *,
    format: str | None = None,  # noqa: A002  # as in open_sink
    start: int | None = None,
    progress: Callable[[int], None] | None = None,
    until: Moment | Callable[[], Moment] | None = None,
    means: bool = False,
    warn: Callable[[str], None],
) -> dict[str, Transferred]:
    """Read a source of several columns to its end, release each column into its own file.

    As `tidegate.durable.transfer`, column by column: what was read before is recognised, rows that
    a file lacks come from the journal. The ledger is charged before any column is read.

    Args:
        source: from `tidegate.io.open_source(path, column=[...])`, in the order of `releases`.
        releases: `DurableColumns`, or a new `Release` for each column.
        sinks: the file of each column.
        format, start, progress, until, warn: as in `transfer`. A clock is read once for all
            columns, so that they have the same ticks.
        means: the last release, `COUNT`, counts events: it takes a 1 for each row, and the files
            say that means can be asked.
    """
    columns = releases if isinstance(releases, DurableColumns) else _ColumnsInMemory(releases)
    runs: dict[str, DurableRelease | Release] = {**columns.runs}
    events = [run.pipeline.ticks is not None for run in runs.values()]
    if any(one != (until is not None) for one in events):
        raise SettingError("until", "must be given for event streams, and only for them")
    if means and (until is None or [*runs][-1] != COUNT or len(runs) < 2):
        raise SettingError("means", f"need event streams, the last of them called {COUNT!r}")
    promises = {name: run.guarantee for name, run in runs.items()}
    more = {"together": facts_of_all_columns(promises, means=means)}
    place = start or 0
    with ExitStack() as stack:
        passages = []
        for at, (name, run) in enumerate(runs.items()):
            options: dict[str, Any] = {"start": start, "warn": warn}
            options["progress"] = progress if at == 0 else None
            facts = {**more, "column": name}
            passage = TransferPassage(
                run, OutputTarget.to(sinks[name], format), more=facts, **options
            )
            passages.append(stack.enter_context(passage))

        together = None if until is None else _ColumnsOfOneClock(passages, place)
        if together is not None:
            together.reach(place)
        if together is not None and callable(until) and hasattr(source, "when_idle"):
            clock, advance = until, together.advance
            source.when_idle(lambda: advance(clock()))
        for read in source.batches():
            batch = with_ones(read) if means else read
            if len(batch.others) + 1 != len(passages):
                raise SettingError("source", "must have a column for each release")
            rest, place = batch, place if batch.start is None else batch.start
            while len(rest):
                size = columns.charge(place + len(rest)) - place
                part = rest.part(0, size if together is None else together.room(size))
                for passage, values in zip(passages, part.by_column(), strict=True):
                    passage.take(values)
                place, rest = place + len(part), rest.part(len(part))
                if together is not None:
                    together.reach(place)
        if together is not None:
            together.check_read_again()
        end = until() if callable(until) else until
        return {name: one.finish(end) for name, one in zip(runs, passages, strict=True)}


def with_ones(batch: Batch) -> Batch:
    """Add a last column that counts every row as 1."""
    ones = np.ones(len(batch), dtype=np.int64)
    return replace(batch, others=(*batch.others, ones))
