"""One folder of a state of several columns: put back, begun anew, or opened under another name."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tidegate.durable import DurableRelease, StateError
from tidegate.durable.columns_on_disk import ColumnsOnDisk
from tidegate.durable.durable_columns import DurableColumns
from tidegate.errors import SettingError
from tidegate.keyed.durable_columns_by_key import DurableKeyedColumns
from tidegate.keyed.durable_folder import DurableKeyed
from tidegate.timestamps import read_times

CLOCK: dict[str, Any] = {"every": "1h", "start": "2024-02-01", "horizon": 64}
MEANS = tg.event_means(1, 60, **CLOCK)
PLAIN = {"fare": MEANS.sums, "count": MEANS.counts}
KEYED = {name: tg.keyed(one, keys=["a", "b"]) for name, one in PLAIN.items()}
KINDS: list[tuple[type[ColumnsOnDisk[Any]], Mapping[str, Any], type[Any]]] = [
    (DurableColumns, PLAIN, DurableRelease),
    (DurableKeyedColumns, KEYED, DurableKeyed),
]


def push(run: Any, hour: int, until: int) -> Any:
    """An event of one hour, and the ticks that are over."""
    times = read_times([f"2024-02-01T{hour:02}:30"])
    if isinstance(run, DurableKeyed):
        run.push_rows(["a"], np.ones(1), times, "keep")
        return run.close_ticks(until)
    run.push_rows(np.ones(1), None, times)
    return run.advance(f"2024-02-01T{until:02}:00")


@dataclass
class Folder:
    """The state of several columns of one kind."""

    path: Path
    columns: Any
    wanted: Any
    alone: Any  # what opens one column by itself

    def use(self, *hours: int, names: Any = PLAIN) -> None:
        """Push an event of these hours to some columns."""
        with self.columns.open(self.path, self.wanted) as all_:
            for hour in hours:
                for name in names:
                    push(all_.runs[name], hour, hour + 1)


@pytest.fixture(params=KINDS, ids=["without keys", "by key"])
def state(tmp_path: Path, request: pytest.FixtureRequest) -> Folder:
    return Folder(tmp_path / "state", *request.param)


@pytest.mark.parametrize("which", ["0-fare", "1-count"])
def test_a_column_that_was_put_back_is_noticed(tmp_path: Path, state: Folder, which: str) -> None:
    """Without its output, too. Caught: its noise met other values, and the difference is raw."""
    state.use(1)
    shutil.copytree(state.path / which, tmp_path / "copy")
    state.use(2)
    shutil.copytree(state.path / which, tmp_path / "newest")
    shutil.rmtree(state.path / which)
    shutil.copytree(tmp_path / "copy", state.path / which)
    with pytest.raises(StateError, match="older than what left it"):
        state.use()
    shutil.rmtree(state.path / which)
    shutil.copytree(tmp_path / "newest", state.path / which)
    state.use(3)


def test_a_new_epoch_is_a_way_on(state: Folder) -> None:
    state.use(1, 2)
    shutil.rmtree(state.path / "0-fare")  # numbers of commits begin again
    with state.columns.open(state.path, state.wanted, new_epoch=True):
        pass
    state.use(1)
    state.use(2)


def test_columns_that_stand_at_other_places_go_on(state: Folder) -> None:
    """As after a kill between two of them, or before the number of commits was kept."""
    state.use(1)
    before = (state.path / "lock").read_bytes()
    state.use(2, names=["fare"])
    state.use(3, names=["count"])
    for old in (before, b""):
        (state.path / "lock").write_bytes(old)
        state.use(4)


def test_a_ledger_that_is_lost_with_its_lock_file_is_missed(tmp_path: Path, state: Folder) -> None:
    # Caught: a new one counted the present epoch, and none of those before.
    state.use(1)
    for name in ("ledger.jsonl", "lock"):
        (state.path / name).rename(tmp_path / name)
    with pytest.raises(StateError, match=r"ledger .* is missing"):
        state.use()
    for name in ("ledger.jsonl", "lock"):
        (tmp_path / name).replace(state.path / name)
    state.use(2)


def test_a_column_is_not_begun_anew_by_itself(state: Folder) -> None:
    # Caught: refused only once its state was given up, and all columns had to be begun anew.
    state.use(1)
    with pytest.raises(StateError, match="one column of the state"):
        state.alone.open(state.path / "0-fare", state.wanted["fare"], new_epoch=True)
    state.use(2)


def test_a_link_to_a_column_is_that_column(tmp_path: Path, state: Folder) -> None:
    # Caught: it took rows, which the ledger of all columns knew nothing of.
    state.use(1)
    (tmp_path / "link").symlink_to(state.path / "0-fare")
    with (
        state.alone.open(tmp_path / "link", state.wanted["fare"]) as run,
        pytest.raises(StateError, match="one column of the state"),
    ):
        push(run, 2, 3)
    state.use(2)


def test_a_lock_that_cannot_be_looked_at_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a file system that went away. Caught: the folder stayed locked in this process."""
    with DurableColumns.open(tmp_path / "state", PLAIN):
        pass
    stat = Path.stat

    def failing(path: Path, **how: Any) -> Any:
        if path.name == "lock":
            raise OSError(116, "Stale file handle")
        return stat(path, **how)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", failing)
        with pytest.raises(SettingError, match=r"cannot use .*Stale"):
            DurableColumns.open(tmp_path / "state", PLAIN)
    with DurableColumns.open(tmp_path / "state", PLAIN):
        pass
