"""A state has one name: no link, no other folder, no other working directory opens a second one.

Every owner of a state that is kept in a folder: releases, keys, columns, the service, the shuffler.
(The memory of a device: `tests/local/test_memory_file.py`; a server: `test_server_faults.py`.)
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tidegate as tg
from tests.privacy.test_forked_processes import REFUSED, in_child, outcome
from tidegate.durable import DurableRelease
from tidegate.durable.durable_columns import DurableColumns
from tidegate.errors import RefusedError
from tidegate.io import Batch
from tidegate.io.batches import object_array
from tidegate.keyed.durable_folder import DurableKeyed
from tidegate.service.service_process import Service
from tidegate.service.shuffler.shuffler_store import ShufflerStore

PIPELINE = tg.tops(epsilon=1, bound=9, holdout=2, horizon=64)


class Owner(NamedTuple):
    """What keeps a state in a folder: how it is opened, changed and closed, and in which file."""

    file: str
    open: Callable[[Path], Any]
    change: Callable[[Any], Any]
    close: Callable[[Any], None] = lambda one: one.close()


def columns(folder: Path) -> DurableColumns:
    return DurableColumns.open(folder, {"fare": PIPELINE, "tip": PIPELINE})


def pushed_columns(one: DurableColumns) -> None:
    one.charge(one.seen + 3)
    for run in one.runs.values():
        run.push(np.ones(3))


def served(one: Service) -> None:
    one.gate.call(lambda: one.gate.streams.create(f"s{os.urandom(4).hex()}", PIPELINE)).result()


def keyed(folder: Path) -> DurableKeyed:
    return DurableKeyed.open(folder, tg.keyed(PIPELINE, keys=["a"]))


def pushed_keys(one: DurableKeyed) -> None:
    one.push(Batch(np.ones(3), object_array(["a"] * 3)), "keep", None)


OWNERS = {
    "release": Owner(
        "state.sqlite",
        lambda folder: DurableRelease.open(folder, PIPELINE),
        lambda one: one.push(np.ones(3)),
    ),
    "keys": Owner("keys.sqlite", keyed, pushed_keys),
    "columns": Owner("0-fare/state.sqlite", columns, pushed_columns),
    "service": Owner("service.sqlite", Service.opened, served, lambda one: one.gate.close()),
    "shuffler": Owner(
        "shuffler.sqlite", ShufflerStore, lambda one: one.keep_round("r", "t", 1.0, 2.0)
    ),
}


@pytest.fixture(params=OWNERS)
def owner(request: pytest.FixtureRequest) -> Owner:
    return OWNERS[request.param]


@pytest.fixture
def folder(owner: Owner, tmp_path: Path) -> Path:
    """With a state that something was released from."""
    one = owner.open(tmp_path / "here")
    owner.change(one)
    owner.close(one)
    return tmp_path / "here"


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_another_working_directory_changes_nothing(
    owner: Owner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    one = owner.open(Path("here"))
    monkeypatch.chdir("elsewhere")
    owner.change(one)
    owner.close(one)
    assert not files(tmp_path / "elsewhere")
    assert owner.file in files(tmp_path / "here")
    owner.close(owner.open(tmp_path / "here"))


def test_a_link_to_the_folder_is_the_folder(owner: Owner, folder: Path) -> None:
    link = folder.with_name("link")
    link.symlink_to(folder)
    one = owner.open(folder)
    with pytest.raises(RefusedError, match=r"in use|is using"):
        owner.open(link)
    owner.close(one)
    one = owner.open(link)
    owner.change(one)
    with pytest.raises(RefusedError, match=r"in use|is using"):
        owner.open(folder)
    owner.close(one)


@pytest.mark.parametrize("make", [os.symlink, os.link], ids=["symbolic", "hard"])
def test_a_link_to_the_file_is_refused(owner: Owner, folder: Path, make: Any) -> None:
    """It would lie in another folder, with a lock of its own: the same noise on other values."""
    other = shutil.copytree(folder, folder.with_name("other"))
    (other / owner.file).unlink()
    make(folder / owner.file, other / owner.file)
    with pytest.raises(RefusedError, match="link"):
        owner.open(other)


def test_a_folder_that_was_put_in_its_place_is_not_taken_for_it(owner: Owner, folder: Path) -> None:
    """A copy of the folder takes its name while it is open: the next process would open that."""
    one = owner.open(folder)
    owner.change(one)
    copy = shutil.copytree(folder, folder.with_name("copy"))
    folder.rename(folder.with_name("moved"))
    copy.rename(folder)
    with pytest.raises(RefusedError, match="no longer the file that was opened"):
        owner.change(one)
    owner.close(one)


# Of a shuffler nobody remembers the commits.
ANCHORED = [name for name in OWNERS if name != "shuffler"]


@pytest.mark.parametrize("owner", ANCHORED, indirect=True)
def test_a_folder_has_one_state(owner: Owner, folder: Path) -> None:
    """The lock file remembers the newest commit of one; a second would make it forget the first."""
    for other in (OWNERS[name] for name in ANCHORED):
        if other.file != owner.file:
            with pytest.raises(RefusedError, match="use another folder"):
                other.open(folder)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_is_refused_at_once(owner: Owner, folder: Path) -> None:
    one = owner.open(folder)
    assert in_child(lambda: outcome(lambda: owner.change(one))) == REFUSED
    owner.change(one)
    owner.close(one)
