"""The server's side: what it takes, what it rejects and counts, and that its file is whole."""

import json
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.local.devices import reply
from tests.local.settings import ASKING, GIVEN
from tidegate.errors import QueryError, SettingError, TidegateError
from tidegate.local import server_store as store
from tidegate.local.announcements_and_reports import Report
from tidegate.local.device_memory import Memory
from tidegate.local.report_checks import REASONS, RejectedError
from tidegate.local.server import Server
from tidegate.local.server_store import ServerStateError, ServerStorageError
from tidegate.local.shuffle import Shuffled, Shuffler
from tidegate.local.topl import Topl

Talk = tuple[Server, list[str]]


def answered(server: Server, client: str, report: int = 0, slot: int = 0) -> Report:
    return reply(server.announcements[slot], client, report)


def reports_of(server: Server, count: int, first: int = 0) -> Iterator[Report]:
    """Reports to whatever is open, in rotation, that many; deterministic."""
    for index in range(first, first + count):
        slot = index % len(server.announcements)
        domain = server.announcements[slot].question.reports
        yield answered(server, f"c{index}", (7 * index + index // 3) % domain, slot)


def contents(path: Path) -> dict[str, list[Any]]:
    database = sqlite3.connect(path)
    tables = ("facts", "journal", "seen", "rejected")
    found = {name: database.execute(f"SELECT * FROM {name}").fetchall() for name in tables}
    database.close()
    return found


# -- what is rejected -----------------------------------------------------------------------------


@pytest.fixture
def server() -> Server:
    return Topl(**GIVEN).server()


def test_one_report_per_client_and_round(server: Server) -> None:
    server.collect(answered(server, "a", 0))
    with pytest.raises(RejectedError, match="has reported"):
        server.collect(answered(server, "a", 1))  # and not only the same report
    server.collect(answered(server, "b", 1))
    assert server.accepted == 2
    assert server.rejected == {"duplicate": 1}
    assert server.query(0, 2).estimate == server.query(0, 1).estimate + server.query(1, 2).estimate


def test_a_client_may_report_again_in_the_next_round_and_never_in_the_last(server: Server) -> None:
    old = answered(server, "a")
    server.collect(old)
    name = server.next_round()
    assert name != old.round
    with pytest.raises(RejectedError) as caught:
        server.collect(old)
    assert caught.value.reason == "late"
    server.collect(answered(server, "a"))
    assert server.accepted == 2


def wrong_reports(server: Server) -> dict[str, list[Any]]:
    good = answered(server, "a")
    domain = server.announcements[0].question.reports
    plain = good.plain()
    return {
        "malformed": [
            "",
            "{",
            "null",
            b"\xff",
            good.json()[:-1],
            json.dumps({**plain, "report": float("nan")}),
            json.dumps({**plain, "report": 0.5}),
            json.dumps({**plain, "report": -1}),
            json.dumps({**plain, "report": "0"}),
            json.dumps({**plain, "client": ""}),
            json.dumps({**plain, "extra": 1}),
            server.announcements[0].json(),
            replace(good, report=-1),
        ],
        "version": [json.dumps({**plain, "tidegate": 2})],
        "round": [replace(good, round="r1"), replace(good, round=good.round + "0")],
        "slot": [replace(good, slot=1), replace(good, slot=65_535)],
        "domain": [replace(good, report=domain), replace(good, report=2**32 - 1)],
        "phase": [replace(good, phase="threshold")],
        "epsilon": [replace(good, epsilon=Fraction(1, 2)), replace(good, epsilon=Fraction(2))],
    }


def test_wrong_reports_are_rejected_with_their_reason_and_leave_no_trace(server: Server) -> None:
    wrong = wrong_reports(server)
    assert set(wrong) | {"duplicate", "assignment", "late"} == set(REASONS)
    before = json.dumps(server.collection.plain())
    expected: Counter[str] = Counter()
    for reason, reports in wrong.items():
        for report in reports:
            with pytest.raises(RejectedError) as caught:
                server.collect(report)
            assert caught.value.reason == reason, report
            assert REASONS[reason] in str(caught.value)
            expected[reason] += 1
    assert server.rejected == expected
    assert server.accepted == 0
    assert json.dumps(server.collection.plain()) == before
    server.collect(answered(server, "a"))  # its name was not taken by the wrong ones


def test_errors_do_not_echo_a_report(server: Server) -> None:
    with pytest.raises(RejectedError) as caught:
        server.collect('{"tidegate":1,"kind":"report","client":"victim-17"}')
    assert "victim" not in str(caught.value)


# -- rounds ---------------------------------------------------------------------------------------


def conversation(topl: Topl, count: int) -> Talk:
    """A server, and the reports that it took one by one, through all its rounds."""
    server, texts = topl.server(), []
    for index in range(count):
        (report,) = reports_of(server, 1, index)
        texts.append(report.json())
        server.collect(texts[-1])
    return server, texts


@pytest.fixture(scope="module")
def talk() -> Talk:
    """Made once: no test changes it, but for what it rejects."""
    return conversation(Topl(**ASKING), 1200)


def twin(server: Server, topl: Topl, path: Path | None = None) -> Server:
    """A new server that opens rounds of the same names."""
    other = topl.server(path)
    other._id = server._id
    with other._store.transaction():
        other._store.set_facts({"id": server._id})
    other._open_round()
    return other


def test_rounds_follow_each_other_and_the_stream_comes_last(talk: Talk) -> None:
    server, texts = talk
    names = list(dict.fromkeys(json.loads(text)["round"] for text in texts))
    assert len(names) == 12  # five to choose the threshold, six more with the stream, the stream
    phases = [{json.loads(t)["phase"] for t in texts if json.loads(t)["round"] == n} for n in names]
    assert phases == [{"threshold"}] * 5 + [{"stream", "threshold"}] * 6 + [{"stream"}]
    assert server.threshold is not None
    assert server.query(0, 600).end == 600


@pytest.mark.parametrize("pieces", [1, 7])
def test_any_split_into_batches_gives_the_same_state(talk: Talk, pieces: int) -> None:
    server, texts = talk
    other = twin(server, Topl(**ASKING))
    for piece in np.array_split(np.array(texts, dtype=object), pieces):
        assert other.collect_many(piece.tolist()).rejected == {}
    assert other.collection.plain() == server.collection.plain()
    assert other.accepted == 1200


def test_reports_that_were_read_before_are_duplicates_or_late(talk: Talk) -> None:
    server, texts = talk
    before = server.collection.plain()
    received = server.collect_many(texts)
    assert received.accepted == 0
    assert set(received.rejected) == {"late", "duplicate"}
    outcomes = [received.outcome(place) for place in range(len(texts))]
    assert outcomes.count("late") == received.rejected["late"]
    assert outcomes[0] == "late"
    assert outcomes[-1] == "duplicate"
    assert received.rejected.total() == 1200
    assert server.collection.plain() == before


def test_questions_are_handed_out_in_strict_rotation() -> None:
    server = Topl(**ASKING).server()
    count = len(server.announcements)
    assert count > 2
    slots = [server.announcement().slot for _ in range(3 * count)]
    assert slots == [*range(count)] * 3


def test_before_a_threshold_there_is_nothing_to_ask() -> None:
    server = Topl(**ASKING).server()
    assert server.threshold is None
    with pytest.raises(QueryError):
        server.query(0, 1)
    with pytest.raises(QueryError, match="no threshold"):
        server.poisoning_bound(0.1)


def test_threads_take_turns() -> None:
    server = Topl(**GIVEN).server()
    together = threading.Barrier(4)
    failures: list[Exception] = []

    def send(thread: int) -> None:
        together.wait()
        try:
            for index in range(50):
                server.collect(answered(server, f"c{thread}-{index}"))
                server.query(0, 1)
                server.announcement()
        except TidegateError as error:
            failures.append(error)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert server.accepted == server.collection.collected.count == 200


# -- shuffled -------------------------------------------------------------------------------------


def test_shuffled_reports_are_taken_without_names(tmp_path: Path) -> None:
    path = tmp_path / "server"
    server = Topl(**GIVEN).server(path)
    shuffler = Shuffler(server.round)
    for index in range(50):
        shuffler.add(answered(server, f"c{index}", index % 2))
        shuffler.add(answered(server, f"c{index}", 1))  # once more: not taken
    received = server.collect_shuffled(shuffler.release())
    assert (received.accepted, received.rejected) == (50, {})
    assert contents(path)["seen"] == []
    direct = Topl(**GIVEN).server()
    direct.collect_many(answered(direct, f"c{index}", index % 2) for index in range(50))
    assert server.query(0, 50).estimate == pytest.approx(direct.query(0, 50).estimate)


def test_shuffled_reports_are_checked_too() -> None:
    server = Topl(**ASKING).server()
    slots, reports = np.array([0, 1, 99, 0, -1]), np.array([0, 1, 0, 7, 0])
    received = server.collect_shuffled(Shuffled(server.round, slots, reports))
    assert (received.accepted, received.rejected) == (2, {"slot": 2, "domain": 1})
    received = server.collect_shuffled(Shuffled("other", slots[:2], reports[:2]))
    assert (received.accepted, received.rejected) == (0, {"round": 2})
    many = Shuffled(server.round, np.zeros(500, np.int64), np.zeros(500, np.int64))
    left = server.collection.left
    assert server.collect_shuffled(many).accepted == left  # the round closes, the rest is late
    assert server.round.split(".")[1] == "1"


# -- the file -------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 3, 1 << 16])
def test_a_server_goes_on_where_it_stopped(
    talk: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(store, "_MOST_ROWS", rows)
    topl = Topl(**ASKING)
    whole, texts = talk
    path = tmp_path / "server"
    twin(whole, topl, path).close()
    stops = [0, 1, 119, 120, 121, 600, 640, 1100, 1113, 1114, 1120, 1150, 1199, 1200]
    for start, end in pairwise(stops):
        with topl.server(path) as server:
            assert server.accepted == start
            assert server.collect_many(texts[start:end]).rejected == {}
            with pytest.raises(RejectedError):
                server.collect(texts[end - 1])
    with topl.server(path) as server:
        assert server.collection.plain() == whole.collection.plain()
        assert server.round == whole.round
        assert server.rejected.total() == len(stops) - 1
        assert len(contents(path)["seen"]) == 1200 - 1112
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_file_holds_no_names_of_clients(tmp_path: Path) -> None:
    path = tmp_path / "server"
    with Topl(**GIVEN).server(path) as server:
        server.collect(answered(server, "account-of-someone"))
    assert b"someone" not in path.read_bytes()


def test_other_settings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "server"
    Topl(**GIVEN).server(path).close()
    before = path.read_bytes()
    with pytest.raises(ServerStateError, match="other settings"):
        Topl(**{**GIVEN, "epsilon": 2}).server(path)
    assert path.read_bytes() == before


def test_two_servers_on_one_file_follow_each_other(tmp_path: Path) -> None:
    """A command beside a live server: what either has taken counts for both."""
    path = tmp_path / "server"
    first, second = Topl(**GIVEN).server(path), Topl(**GIVEN).server(path)
    first.collect(answered(first, "a"))
    second.collect(answered(second, "b"))
    with pytest.raises(RejectedError, match="has reported"):
        second.collect(answered(second, "a"))
    first.collect(answered(first, "c"))
    assert (first.accepted, first.rejected["duplicate"], first.collection.collected.count) == (
        3,
        1,
        3,
    )
    late = answered(first, "d")
    assert second.next_round() != late.round
    with pytest.raises(RejectedError) as caught:
        first.collect(late)
    assert caught.value.reason == "late"
    first.collect(answered(first, "a"))
    with Topl(**GIVEN).server(path) as third:
        assert third.accepted == 4
        assert third.collection.plain() == first.collection.plain()


@pytest.mark.parametrize("content", [b"hello", b"SQLite format 3\0" + bytes(100), bytes(4096)])
def test_what_is_no_state_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "server"
    path.write_bytes(content)
    with pytest.raises(TidegateError):
        Topl(**GIVEN).server(path)
    assert path.read_bytes() == content


def test_another_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "server"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE theirs (a)")
    database.close()
    with pytest.raises(ServerStateError, match="no state of a server"):
        Topl(**GIVEN).server(path)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE facts SET value = '{' WHERE name = 'state'",
        "UPDATE facts SET value = '{}' WHERE name = 'state'",
        "UPDATE journal SET slots = x'000000'",
        "UPDATE journal SET reports = x'ffffffff'",
        "UPDATE journal SET reports = 'a'",
        "UPDATE journal SET count = 2, reports = x'00'",
        "UPDATE journal SET count = -1, reports = x''",
        "UPDATE journal SET count = 'a'",
    ],
)
def test_a_damaged_state_is_refused(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "server"
    with Topl(**GIVEN).server(path) as server:
        server.collect(answered(server, "a"))
        with server._store.transaction():
            server._store.write_state(server.collection.plain())
        server.collect(answered(server, "b"))
    database = sqlite3.connect(path, isolation_level=None)
    assert database.execute(damage).rowcount == 1
    database.close()
    with pytest.raises(ServerStateError, match="damaged"):
        Topl(**GIVEN).server(path)


def test_a_file_that_was_created_and_not_begun_is_begun(tmp_path: Path) -> None:
    path = tmp_path / "server"
    path.touch()
    with Topl(**GIVEN).server(path) as server:
        server.collect(answered(server, "a"))


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ServerStorageError):
        Topl(**GIVEN).server(tmp_path / "nowhere" / "server")
    with pytest.raises(ServerStorageError):
        Topl(**GIVEN).server(tmp_path)


KILLED = """
import os, sys
from tidegate.local.topl import Topl
from tidegate.local import server_store as store
path, stop = sys.argv[1], int(sys.argv[2])
server = Topl(epsilon=1, bound=100, threshold=40, report="hybrid").server(path)
left = stop

def watched(function):
    def call(*arguments):
        global left
        left -= 1
        if left < 0:
            os._exit(9)
        return function(*arguments)
    return call

for name in ("is_new", "append", "count_rejected", "set_facts", "write_state"):
    setattr(store.ServerStore, name, watched(getattr(store.ServerStore, name)))
store._MOST_ROWS = 1
server.collect_many(sys.stdin.read().splitlines())
print("committed")
"""


def test_a_kill_anywhere_leaves_all_of_a_batch_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "server"
    topl = Topl(**GIVEN)
    with topl.server(path) as server:
        texts = [report.json() for report in reports_of(server, 3)]
    outcomes = []
    for stop in (0, 4, 6, 100):
        run = subprocess.run(
            [sys.executable, "-c", KILLED, str(path), str(stop)],
            input="\n".join([*texts, "no report"]),
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode in (0, 9), run.stderr
        with topl.server(path) as server:
            outcomes.append((server.accepted, server.collection.collected.count))
            assert server.rejected.total() == bool(run.stdout)
    assert outcomes == [(0, 0)] * 3 + [(3, 3)]


# -- clients and server together ------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["adaptive", "published", "published-authors"])
def test_devices_and_server_agree_on_everything_but_trust(scheme: str) -> None:
    """Every announcement of the server is accepted by a device with the same settings."""
    few = {"holdout": 300, "epsilon": 3, "threshold_epsilon": 2, "scheme": scheme}
    topl = Topl(**{**ASKING, **few})
    server = topl.server()
    for value in tg.synthetic.baskets(600 if scheme == "adaptive" else 350, seed=3):
        client = topl.client(Memory.volatile())
        server.collect(client.answer(server.announcement().json(), value).json())
    assert server.rejected == {}
    assert server.threshold is not None
    assert str(server.guarantee) == "ε = 3 per event (exact arithmetic, local model)"


def test_what_devices_report_is_what_the_server_adds_up() -> None:
    topl = Topl(epsilon=4, bound=100, threshold=40, report="hybrid")
    server, count = topl.server(), 500
    values = np.arange(count) % 60
    for value in values:
        client = topl.client(Memory.volatile())
        server.collect(client.answer(server.announcement(), value).json())
    answer = server.query(0, count)
    truth = np.minimum(values, 40).sum()
    assert abs(answer.estimate - truth) < 5 * answer.standard_error
    assert answer.standard_error < truth / 10


@pytest.mark.parametrize("name", ["epsilon", "threshold_epsilon", "bound", "resolution"])
def test_settings_that_no_message_could_carry_are_named(name: str, tmp_path: Path) -> None:
    given = {"epsilon": 1, "bound": 100, "report": "hybrid", name: "1.0000000000000000001"}
    with pytest.raises(SettingError) as caught:
        Topl(**given).server(tmp_path / "server")
    assert caught.value.setting == name
    assert list(tmp_path.iterdir()) == []


def test_bad_fractions_are_named() -> None:
    server = Topl(**GIVEN).server()
    for fraction in (-0.1, 1.1, float("nan"), "1", True):
        with pytest.raises(SettingError) as caught:
            server.poisoning_bound(fraction)  # type: ignore[arg-type]
        assert caught.value.setting == "fraction"
