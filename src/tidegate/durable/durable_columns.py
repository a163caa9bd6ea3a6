"""Several columns of one source: a release for each, one ledger that is charged with the sum.

    source ─┬─ fare → DurableRelease in FOLDER/0-fare → its file
            └─ tip  → DurableRelease in FOLDER/1-tip  → its file
    FOLDER/ledger.jsonl: what a row has spent, all columns together

**Privacy.** A row has a value in each column; neighbours differ in one row, in any of them. Each
column is released by itself with noise of its own, at cost ε_i for its value, so everything
together costs Σ ε_i: sequential composition, computed from the pipelines. The ledger is charged
with that sum before any column reads a value. Each column is durable and exactly-once as a release
of one column is; after a crash they may stand at different places, and each goes on from its own.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tidegate import _atomic_files
from tidegate._context_managers import Closed, NotCopied
from tidegate.durable.charging import Charging, WithAllColumns, costs_together
from tidegate.durable.durable_release import DurableRelease
from tidegate.durable.folder_lock import FolderLock, StateError, StorageError
from tidegate.durable.output_writer import Output
from tidegate.durable.state_file import COLUMNS, refuse_other_states
from tidegate.durable.state_stores import FolderStore
from tidegate.durable.transfer import TransferPassage, Transferred
from tidegate.errors import SettingError
from tidegate.guarantee import Guarantee, sequential
from tidegate.io import Batch, Source
from tidegate.ledger import Ledger, LedgerError
from tidegate.record.times.time_ranges_and_tables import Moment
from tidegate.run.column_budgets import (
    COUNT,
    checked_names,
    column_file_label,
    facts_of_all_columns,
)
from tidegate.run.pipeline import Pipeline
from tidegate.run.release import Release


class DurableColumns(Closed, NotCopied):
    """Durable releases of several columns. Made by `DurableColumns.open`; close it, or use `with`.

    Attributes:
        runs: the release of each column.
        source: the name of the source in the ledger.
    """

    def __init__(
        self, lock: FolderLock, ledger: Ledger, runs: dict[str, DurableRelease], source: str
    ) -> None:
        self.runs, self.source = runs, source
        pipelines = [run.pipeline for run in runs.values()]
        self._charging = Charging(
            ledger, lambda: costs_together(pipelines), self.epoch, source, lock
        )
        self._turn = threading.Lock()  # columns may be pushed to by threads of their own
        for run in runs.values():
            run._charging = WithAllColumns(run._charging, self._charging, self._turn)

    @classmethod
    def open(
        cls,
        folder: str | Path,
        pipelines: Mapping[str, Pipeline],
        *,
        key: bytes | None = None,
        source: str | None = None,
        cap: Any = None,
        new_epoch: bool = False,
    ) -> DurableColumns:
        """Begin in an empty folder, or continue. Arguments as of `DurableRelease.open`."""
        names = checked_names(list(pipelines))
        store = FolderStore(Path(folder))
        place = store.folder
        lock = store.lock
        with ExitStack() as opened:
            lock.acquire()
            opened.callback(lock.release)
            _columns_agree(place, names)
            folders = [
                place / f"{at}-{column_file_label(column)}" for at, column in enumerate(names)
            ]
            every = [pipelines[column] for column in names]
            anchor, paid = lock.anchor, max(map(_charges_of_column, folders, every))
            needed = anchor is not None or paid > 0
            ledger = store.ledger(cap=cap, expected=anchor, needed=needed)
            opened.callback(ledger.close)
            # All columns together are charged first, so a ledger that shows less was put back. The
            # lock file tells that, too, if it is there.
            if len(ledger.charges()) < paid:
                raise StateError(
                    f"the ledger in {place} shows less than those of its columns: it was put back "
                    "or cut short. Put the newest one in place"
                )
            known = ledger.sources
            name = source or (known[0] if known else store.default_source)
            if known and name not in known:
                raise StateError(f"the ledger here belongs to the source {known[0]!r}: name it so")
            if new_epoch:  # what the cap does not allow gives up nothing
                first = max(one.holdout for one in every) + 1
                Charging(ledger, lambda: costs_together(every), "", name, lock).check(first)
            runs = {}
            for column, within in zip(names, folders, strict=True):
                run = DurableRelease.open(
                    within, pipelines[column], key=key, source=name, new_epoch=new_epoch
                )
                runs[column] = opened.enter_context(run)
            found = cls(lock, ledger, runs, name)
            charged = {charge.epoch for charge in ledger.charges(name)}
            if charged and not new_epoch and found.epoch not in charged:
                raise StateError(
                    f"the state of a column in {place} is lost, but the ledger shows what was "
                    "released: restore it, or begin again with "
                    "new_epoch=True (--new-epoch), which is charged"
                )
            for one in every:
                found._charging.begin(counted=one.ticks is None)
            found._opened = opened.pop_all()
        return found

    _opened: ExitStack

    @property
    def epoch(self) -> str:
        """The public ids of the columns' noise."""
        return "+".join(run.epoch for run in self.runs.values())

    @property
    def guarantee(self) -> Guarantee:
        """What a row is promised: all columns together, in this epoch."""
        return sequential(*(run.guarantee for run in self.runs.values()))

    @property
    def seen(self) -> int:
        """How many rows all columns have taken."""
        return min(run.seen for run in self.runs.values())

    @property
    def position(self) -> int:
        """How many rows all columns have released."""
        return min(run.position for run in self.runs.values())

    @property
    def sealed(self) -> bool:
        """Whether the state is sealed with a key."""
        return all(run.sealed for run in self.runs.values())

    def charge(self, end: int) -> int:
        """Charge for the rows before `end`, durably; give up to where the cap allows them."""
        with self._turn:
            seen = self.seen
            return seen + self._charging.charge(seen, max(0, end - seen))

    def close(self) -> None:
        """Commit what was taken, and unlock the folder."""
        self._opened.close()


def _charges_of_column(folder: Path, pipeline: Pipeline) -> int:
    """How many charges the ledger of one column shows, over all epochs; that of events is first."""
    path = folder / "ledger.jsonl"
    if pipeline.ticks is not None or not path.exists():
        return 0
    # Of one that a crash left empty, or that is damaged, opening the column says what to do.
    with suppress(LedgerError), Ledger.open(path, read_only=True) as ledger:
        return len(ledger.charges())
    return 0


def _columns_agree(folder: Path, names: list[str]) -> None:
    """The columns of a folder never change: another set would be other noise on the same rows."""
    path = folder / COLUMNS
    refuse_other_states(folder, COLUMNS)
    if not path.exists():
        try:
            _atomic_files.replace_file(path, json.dumps(names).encode())
        except OSError as error:
            problem = f"cannot write the state in {folder}: {error.strerror}"
            raise StorageError(problem) from None
        return
    try:
        stored = json.loads(path.read_bytes())
    except (OSError, ValueError):
        raise StateError(f"{path} is damaged: restore it") from None
    if stored != names:
        raise StateError(
            f"the state in {folder} was begun with other columns (or in another order): use those, "
            "or another folder"
        )


class _MemoryColumns:
    """New releases of several columns, without durable state."""

    def __init__(self, runs: Mapping[str, Release]) -> None:
        self.runs = runs

    def charge(self, end: int) -> int:
        """Allow all of it: there is no ledger."""
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
    """Read a source of several columns to its end, release each, and write each to its file.

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
    columns = releases if isinstance(releases, DurableColumns) else _MemoryColumns(releases)
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
            passage = TransferPassage(run, Output.to(sinks[name], format), more=facts, **options)
            passages.append(stack.enter_context(passage))

        def advance(to: Moment) -> None:
            for passage in passages:
                passage.advance(to)

        if callable(until) and hasattr(source, "when_idle"):
            clock = until
            source.when_idle(lambda: advance(clock()))
        for read in source.batches():
            batch = _with_ones(read) if means else read
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


def _with_ones(batch: Batch) -> Batch:
    """With a last column that counts every row as 1, whatever its values are."""
    ones = np.ones(len(batch), dtype=np.int64)
    return replace(batch, others=(*batch.others, ones))
