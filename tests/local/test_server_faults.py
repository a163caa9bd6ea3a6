"""A database that fails at any call: a server has counted a report once, or not at all."""

import os
import shutil
import sqlite3
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.local.settings import GIVEN
from tests.local.system import Child
from tidegate.errors import TidegateError
from tidegate.local.announcements_and_reports import Report
from tidegate.local.server import Server
from tidegate.local.server_store import ServerStateError
from tidegate.local.topl import Topl

TOPL = Topl(**{**GIVEN, "report": "stochastic-rounding"})


class FailingDatabase:
    """A connection whose call number `at` fails, before or after its work is done."""

    def __init__(self, real: sqlite3.Connection, at: int, *, afterwards: bool) -> None:
        self._real, self.left, self._afterwards = real, at, afterwards

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        return self._watched(found) if name in ("execute", "executemany") else found

    def _watched(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.left -= 1
            if self.left == -1 and arguments[0] != "ROLLBACK":
                if self._afterwards:
                    real(*arguments)
                raise sqlite3.OperationalError("database or disk is full")
            return real(*arguments)

        return call


def reports(server: Server, *clients: str) -> list[str]:
    fields: dict[str, Any] = {"phase": "stream", "epsilon": TOPL.epsilon, "slot": 0, "report": 1}
    return [Report(round=server.round, client=name, **fields).json() for name in clients]


@pytest.fixture
def path(quick_folder: Path) -> Path:
    """The file of a server that has taken one report."""
    path = quick_folder / "state.db"
    with TOPL.server(path) as server:
        server.collect_many(reports(server, "a"))
    return path


@pytest.mark.parametrize("afterwards", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("action", ["collect", "next round"])
def test_a_failing_call_takes_a_batch_whole_or_not_at_all(
    action: str, afterwards: bool, path: Path
) -> None:
    copy = path.with_name("copy.db")
    seen, step = set(), 0
    while True:
        shutil.copy(path, copy)
        server = TOPL.server(copy)
        name, given = server.round, reports(server, "a", "b", "c")
        database = FailingDatabase(server._store._database, step, afterwards=afterwards)
        server._store._database = database  # type: ignore[assignment]  # it has what is used
        try:
            _ = server.collect_many(given) if action == "collect" else server.next_round()
            failed = False
        except TidegateError:
            failed = True
            with pytest.raises(ServerStateError, match="cut short"):  # it may be ahead of its file
                server.query(0, 0)
        server.close()
        with TOPL.server(copy) as opened:
            seen.add((opened.accepted, opened.round == name))
            assert opened.collection.collected.count == opened.accepted
            if opened.round == name:
                opened.collect_many(given)  # again: those that were taken are duplicates
                assert (opened.accepted, opened.collection.collected.count) == (3, 3)
        copy.unlink()
        if not failed and database.left >= 0:
            break
        step += 1
    assert seen == ({(1, True), (3, True)} if action == "collect" else {(1, True), (1, False)})


def test_a_full_disk_takes_a_batch_whole_or_not_at_all(path: Path) -> None:
    server = TOPL.server(path)
    server._store._database.execute("PRAGMA max_page_count = 12")
    given = [reports(server, *(f"{batch}-{each}" for each in range(100))) for batch in range(100)]
    with pytest.raises(TidegateError, match="full"):
        deque(map(server.collect_many, given), maxlen=0)
    server.close()
    with TOPL.server(path) as opened:
        taken = opened.accepted
        assert taken % 100 == 1
        assert opened.collection.collected.count == taken
        again = opened.collect_many(reports(opened, *(f"0-{each}" for each in range(100))))
        assert again.rejected["duplicate"] == (100 if taken > 100 else 0)


def test_a_forked_process_refuses(path: Path) -> None:
    with TOPL.server(path) as server:
        child = Child()
        if child.here:
            try:
                server.collect_many(reports(server, "b"))
            except ServerStateError as error:
                child.end(f"{error}".encode())
            child.end(b"taken")
        assert b"forked" in child.told()
        server.collect_many(reports(server, "b"))
        assert server.accepted == 2


@pytest.mark.parametrize("swap", ["deleted", "replaced", "hard link"])
def test_a_file_that_is_no_longer_the_one_that_was_opened_takes_nothing(
    swap: str, path: Path
) -> None:
    with TOPL.server(path) as server:
        if swap == "hard link":
            os.link(path, path.with_name("second.db"))
        else:
            path.rename(path.with_name("moved.db"))
        if swap == "replaced":
            shutil.copy(path.with_name("moved.db"), path)
        with pytest.raises(ServerStateError, match=r"no longer the file|hard link"):
            server.collect_many(reports(server, "b"))
        assert server.accepted == 1


def test_an_older_content_of_the_same_file_is_refused(tmp_path: Path) -> None:
    """A backup copied over the file: reports that came since would be counted again."""
    scheme = Topl(epsilon=1, bound=500, threshold=40, report="hybrid")
    server = scheme.server(tmp_path / "new")
    server.collect(scheme.client().answer(server.announcement(), 17))
    with sqlite3.connect(tmp_path / "new") as other:
        other.execute("UPDATE facts SET value = value - 1 WHERE name = 'generation'")
    with pytest.raises(ServerStateError, match="older copy"):
        server.collect(scheme.client().answer(server.announcement(), 17))
    server.close()


def test_a_relative_name_means_the_folder_in_which_it_was_opened(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    with TOPL.server(path.name) as server:
        monkeypatch.chdir(tmp_path)
        server.collect_many(reports(server, "b"))
    assert not list(tmp_path.iterdir())
    with TOPL.server(path) as server:
        assert server.accepted == 2
