"""One folder of a state of several columns: put back, begun anew, or opened under another name."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
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
kinds = pytest.mark.parametrize(
    ("columns", "wanted", "alone"), KINDS, ids=["without keys", "by key"]
)


def push(run: Any, hour: int, until: int) -> Any:
    """An event of one hour, and the ticks that are over."""
    times = read_times([f"2024-02-01T{hour:02}:30"])
    if isinstance(run, DurableKeyed):
        run.push_rows(["a"], np.ones(1), times, "keep")
        return run.close_ticks(until)
    run.push_rows(np.ones(1), None, times)
    return run.advance(f"2024-02-01T{until:02}:00")


def use(columns: Any, wanted: Any, folder: Path, *hours: int, names: Any = PLAIN) -> None:
    with columns.open(folder, wanted) as all_:
        for hour in hours:
            for name in names:
                push(all_.runs[name], hour, hour + 1)


@kinds
@pytest.mark.parametrize("which", ["0-fare", "1-count"])
def test_a_column_that_was_put_back_is_noticed(
    tmp_path: Path, columns: Any, wanted: Any, alone: Any, which: str
) -> None:
    """Without its output, too. Caught: its noise met other values, and the difference is raw."""
    use(columns, wanted, tmp_path / "state", 1)
    shutil.copytree(tmp_path / "state" / which, tmp_path / "copy")
    use(columns, wanted, tmp_path / "state", 2)
    shutil.copytree(tmp_path / "state" / which, tmp_path / "newest")
    shutil.rmtree(tmp_path / "state" / which)
    shutil.copytree(tmp_path / "copy", tmp_path / "state" / which)
    with pytest.raises(StateError, match="older than what left it"):
        use(columns, wanted, tmp_path / "state")
    shutil.rmtree(tmp_path / "state" / which)
    shutil.copytree(tmp_path / "newest", tmp_path / "state" / which)
    use(columns, wanted, tmp_path / "state", 3)


@kinds
def test_a_new_epoch_is_a_way_on(tmp_path: Path, columns: Any, wanted: Any, alone: Any) -> None:
    use(columns, wanted, tmp_path / "state", 1, 2)
    shutil.rmtree(tmp_path / "state" / "0-fare")  # numbers of commits begin again
    with columns.open(tmp_path / "state", wanted, new_epoch=True):
        pass
    use(columns, wanted, tmp_path / "state", 1)
    use(columns, wanted, tmp_path / "state", 2)


@kinds
def test_columns_that_stand_at_other_places_go_on(
    tmp_path: Path, columns: Any, wanted: Any, alone: Any
) -> None:
    """As after a kill between two of them, or before the number of commits was kept."""
    use(columns, wanted, tmp_path / "state", 1)
    before = (tmp_path / "state" / "lock").read_bytes()
    use(columns, wanted, tmp_path / "state", 2, names=["fare"])
    use(columns, wanted, tmp_path / "state", 3, names=["count"])
    for old in (before, b""):
        (tmp_path / "state" / "lock").write_bytes(old)
        use(columns, wanted, tmp_path / "state", 4)


@kinds
def test_a_ledger_that_is_lost_with_its_lock_file_is_missed(
    tmp_path: Path, columns: Any, wanted: Any, alone: Any
) -> None:
    # Caught: a new one counted the present epoch, and none of those before.
    use(columns, wanted, tmp_path / "state", 1)
    for name in ("ledger.jsonl", "lock"):
        (tmp_path / "state" / name).rename(tmp_path / name)
    with pytest.raises(StateError, match=r"ledger .* is missing"):
        use(columns, wanted, tmp_path / "state")
    for name in ("ledger.jsonl", "lock"):
        (tmp_path / name).replace(tmp_path / "state" / name)
    use(columns, wanted, tmp_path / "state", 2)


@kinds
def test_a_column_is_not_begun_anew_by_itself(
    tmp_path: Path, columns: Any, wanted: Any, alone: Any
) -> None:
    # Caught: refused only once its state was given up, and all columns had to be begun anew.
    use(columns, wanted, tmp_path / "state", 1)
    with pytest.raises(StateError, match="one column of the state"):
        alone.open(tmp_path / "state" / "0-fare", wanted["fare"], new_epoch=True)
    use(columns, wanted, tmp_path / "state", 2)


@kinds
def test_a_link_to_a_column_is_that_column(
    tmp_path: Path, columns: Any, wanted: Any, alone: Any
) -> None:
    # Caught: it took rows, which the ledger of all columns knew nothing of.
    use(columns, wanted, tmp_path / "state", 1)
    (tmp_path / "link").symlink_to(tmp_path / "state" / "0-fare")
    with (
        alone.open(tmp_path / "link", wanted["fare"]) as run,
        pytest.raises(StateError, match="one column of the state"),
    ):
        push(run, 2, 3)
    use(columns, wanted, tmp_path / "state", 2)


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
