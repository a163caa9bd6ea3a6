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

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tidegate.durable.charging import ChargedCost, charged_costs_together
from tidegate.durable.columns_on_disk import ColumnsOnDisk
from tidegate.durable.durable_release import DurableRelease
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

        def advance(to: Moment) -> None:
            for passage in passages:
                passage.advance(to)

        if callable(until) and hasattr(source, "when_idle"):
            clock = until
            source.when_idle(lambda: advance(clock()))
        for read in source.batches():
            batch = with_ones(read) if means else read
            if len(batch.others) + 1 != len(passages):
                raise SettingError("source", "must have a column for each release")
            rest, place = batch, place if batch.start is None else batch.start
            while len(rest):
                part = rest.part(0, columns.charge(place + len(rest)) - place)
                for passage, values in zip(passages, part.by_column(), strict=True):
                    passage.take(values)
                place, rest = place + len(part), rest.part(len(part))
        end = until() if callable(until) else until
        return {name: one.finish(end) for name, one in zip(runs, passages, strict=True)}


def with_ones(batch: Batch) -> Batch:
    """Add a last column that counts every row as 1."""
    ones = np.ones(len(batch), dtype=np.int64)
    return replace(batch, others=(*batch.others, ones))
