"""The state of several columns in one folder: a durable release for each, one ledger for their sum.

`durable_columns` says what is charged. This is what it shares with columns that have keys.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

from tidegate import _atomic_files
from tidegate._context_managers import Closed, Context
from tidegate.durable.charging import ChargedCost, Charging, ChargingAllColumns
from tidegate.durable.folder_lock import Anchor, FolderLock, StateError, StorageError
from tidegate.durable.state_file import COLUMNS, refuse_other_states
from tidegate.durable.state_stores import NO_LEDGER, FolderStore
from tidegate.guarantee import Guarantee, sequential
from tidegate.ledger import Ledger, LedgerError
from tidegate.ownership import NotCopied
from tidegate.run.column_budgets import checked_column_names, column_file_label
from tidegate.run.pipeline import Pipeline


class ColumnOnDisk(Context, Protocol):
    """The durable release of one column."""

    _charging: Charging

    @property
    def epoch(self) -> str:
        """The public id of its noise."""

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for a row."""

    @property
    def seen(self) -> int:
        """The number of rows taken."""

    @property
    def position(self) -> int:
        """The number of rows released."""

    @property
    def commits(self) -> int:
        """How many commits its folder has seen, over all epochs."""

    @property
    def sealed(self) -> bool:
        """Whether its state is sealed with a key."""


Run = TypeVar("Run", bound=ColumnOnDisk)


class ColumnsOnDisk(Closed, NotCopied, Generic[Run]):
    """Durable releases of several columns. Made by `open`; close it, or use `with`.

    Attributes:
        runs: the release of each column.
        source: the name of the source in the ledger.
    """

    def __init__(
        self,
        lock: FolderLock,
        ledger: Ledger,
        runs: dict[str, Run],
        source: str,
        costs: Callable[[], Iterator[ChargedCost]],
    ) -> None:
        self.runs, self.source, self._lock = runs, source, lock
        self._process = os.getpid()
        self._charging = Charging(ledger, costs, self.epoch, source, lock)
        self._turn = threading.Lock()  # threads may push to columns independently
        for run in runs.values():
            run._charging = ChargingAllColumns(run._charging, self._charging, self._turn)

    @staticmethod
    @abstractmethod
    def _column(folder: Path, wanted: Any, **how: Any) -> Run:
        """Open the release of one column."""

    @staticmethod
    @abstractmethod
    def _costs(wanted: list[Any]) -> Iterator[ChargedCost]:
        """The cost of a row over all columns."""

    @staticmethod
    def _pipeline(wanted: Any) -> Pipeline:
        """The pipeline of a column."""
        found: Pipeline = wanted
        return found

    @classmethod
    def open(
        cls,
        folder: str | Path,
        pipelines: Mapping[str, Any],
        *,
        key: bytes | None = None,
        source: str | None = None,
        cap: Any = None,
        new_epoch: bool = False,
    ) -> Self:
        """Begin in an empty folder, or resume. Arguments as for `DurableRelease.open`."""
        names = checked_column_names(list(pipelines))
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
            wanted = [pipelines[column] for column in names]
            every = [cls._pipeline(one) for one in wanted]
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

            def costs() -> Iterator[ChargedCost]:
                return cls._costs(wanted)

            if new_epoch:  # what the cap does not allow gives up nothing
                first = max(one.holdout for one in every) + 1
                Charging(ledger, costs, "", name, lock).check(first)
            runs: dict[str, Any] = {}
            for column, within in zip(names, folders, strict=True):
                run = cls._column(
                    within, pipelines[column], key=key, source=name, new_epoch=new_epoch
                )
                runs[column] = opened.enter_context(run)
            found = cls(lock, ledger, runs, name, costs)
            charged = {charge.epoch for charge in ledger.charges(name)}
            if not charged and any(run.position for run in runs.values()):
                raise StateError(NO_LEDGER.format(place / "ledger.jsonl"))
            if charged and not new_epoch and found.epoch not in charged:
                raise StateError(
                    f"the state of a column in {place} is lost, but the ledger shows what was "
                    "released: restore it, or begin again with "
                    "new_epoch=True (--new-epoch), which is charged"
                )
            if not new_epoch:
                found._check_none_was_put_back()
            found._keep_commits()
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
        """The guarantee for a row over all columns, in this epoch."""
        return sequential(*(run.guarantee for run in self.runs.values()))

    @property
    def seen(self) -> int:
        """The number of rows that all columns have taken."""
        return min(run.seen for run in self.runs.values())

    @property
    def position(self) -> int:
        """The number of rows that all columns have released."""
        return min(run.position for run in self.runs.values())

    @property
    def sealed(self) -> bool:
        """Whether the state is sealed with a key."""
        return all(run.sealed for run in self.runs.values())

    def charge(self, end: int) -> int:
        """Charge for the rows before `end`, durably; return up to where the cap allows it."""
        with self._turn:
            seen = self.seen
            return seen + self._charging.charge(seen, max(0, end - seen))

    def close(self) -> None:
        """Commit what was taken, and unlock the folder."""
        with self._opened, suppress(StorageError):
            self._keep_commits()

    # What all columns have committed is kept beside them too. The lock file of a column is put back
    # with its folder, and its output may be gone: then the others alone know that its noise has met
    # values that its state knows nothing of.

    @property
    def _commits(self) -> Anchor:
        """How many commits there were in all columns together, and of which epoch."""
        total = sum(run.commits for run in self.runs.values())
        return total, hashlib.sha256(self.epoch.encode()).hexdigest()

    def _check_none_was_put_back(self) -> None:
        newest, here = self._lock.commit, self._commits
        if newest is not None and newest[1] == here[1] and newest[0] > here[0]:
            raise StateError(
                f"the state of a column in {self._lock.folder} is older than what left it: it was "
                "put back from a copy. Its noise is on other rows already: put the newest back, or "
                "begin again with new_epoch=True (--new-epoch), which is charged"
            )

    def _keep_commits(self) -> None:
        """Keep a number that all states have by now, so a crash at any moment refuses nothing."""
        if self._lock.held and os.getpid() == self._process:
            self._lock.keep_commit(self._commits)


def _charges_of_column(folder: Path, pipeline: Pipeline) -> int:
    """The number of charges in one column's ledger, over all epochs; 0 for events."""
    path = folder / "ledger.jsonl"
    if pipeline.ticks is not None or not path.exists():
        return 0
    # If a crash left it empty, or it is damaged, opening the column says what to do.
    with suppress(LedgerError), Ledger.open(path, read_only=True) as ledger:
        return len(ledger.charges())
    return 0


def _columns_agree(folder: Path, names: list[str]) -> None:
    """Refuse another set of columns: it would mean other noise on the same rows."""
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
