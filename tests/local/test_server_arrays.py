"""Reports in arrays: checked, durable, and the same bits however often the server stopped."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.local.settings import ASKING, GIVEN
from tidegate.errors import InputError
from tidegate.local import server_store as store
from tidegate.local.narrow_integers import narrowed_integers, widened_integers
from tidegate.local.server import Server
from tidegate.local.shuffle import Shuffled
from tidegate.local.topl import Topl


def test_arrays_that_do_not_fit_together_are_refused() -> None:
    server = Topl(**GIVEN).server()
    for slots, reports in (([0, 0], [1]), ([0.0], [1]), ([[0]], [[1]]), ([True], [1])):
        with pytest.raises(InputError):
            Shuffled(server.round, np.array(slots), np.array(reports))
    huge: Any = np.array([2**64 - 1], dtype=np.uint64)
    received = server.collect_shuffled(Shuffled(server.round, np.zeros_like(huge), huge))
    assert (server.accepted, received.rejected) == (0, {"domain": 1})


def _devices(server: Server, start: int, count: int) -> tuple[Any, Any]:
    """What so many devices answer to the open round, in rotation; the same each time."""
    words = tg.seeded(start).new_epoch().keystream("test", b"").at()
    values = (7 * np.arange(start, start + count)) % 50
    slots = np.arange(count) % len(server.announcements)
    reports = np.zeros(count, dtype=np.int64)
    for index, asked in enumerate(server.announcements):
        mine = slots == index
        reports[mine] = asked.question.answers(values[mine], words)
    return slots, reports


@pytest.mark.parametrize("most", [1 << 22, 5_000])
def test_a_server_of_arrays_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """From the journal alone, and from a state that is written now and then."""
    monkeypatch.setattr(store, "_MOST_REPORTS", most)
    topl, path = Topl(**ASKING), tmp_path / "server"
    whole = topl.server()
    for start in range(0, 60_000, 3_001):
        slots, reports = _devices(whole, start, 3_001)
        with topl.server(path) as server:
            taken = server.collect_shuffled(Shuffled(server.round, slots, reports))
        assert whole.collect_shuffled(Shuffled(whole.round, slots, reports)) == taken
    with topl.server(path) as server:
        assert server.accepted == whole.accepted > 12_000
        assert server.collection.plain() == whole.collection.plain()


def test_every_commit_waits_for_the_disk_and_only_the_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "server"
    reports = np.ones(10, dtype=np.int64)
    with Topl(**GIVEN).server(path) as server:
        server.collect_shuffled(Shuffled(server.round, np.zeros_like(reports), reports))
        database = server._store._database
        assert database.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        files = sorted(tmp_path.iterdir())
        assert [file.name for file in files] == ["server", "server-shm", "server-wal"]
        assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert list(tmp_path.iterdir()) == [path]  # closed: all of it is in the file


def test_a_server_without_a_file_keeps_no_journal() -> None:
    server = Topl(**GIVEN).server()
    reports = np.ones(100, dtype=np.int64)
    server.collect_shuffled(Shuffled(server.round, np.zeros_like(reports), reports))
    assert [column.size for column in server._store.journal()] == [0, 0]


@pytest.mark.parametrize("largest", [0, 1, 255, 256, 65_535, 65_536, 2**32 - 1])
def test_numbers_are_as_narrow_as_the_largest(largest: int) -> None:
    numbers = np.array([0, largest, largest // 2])
    data = narrowed_integers(numbers)
    assert len(data) == 3 * (
        0 if not largest else 1 if largest < 256 else 2 if largest < 65_536 else 4
    )
    assert widened_integers(data, 3).tolist() == numbers.tolist()


def test_bytes_of_other_numbers_are_refused() -> None:
    for data, count in ((b"\1\2", 3), (b"\1\2\3", 1), (b"\1", 0), (b"\1", -1)):
        with pytest.raises(ValueError, match="not the bytes"):
            widened_integers(data, count)
