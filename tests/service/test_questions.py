"""Long questions hold nobody up: values are taken meanwhile, and answers are those of the lock."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tidegate as tg
from tests.service.conftest import PLAIN, Place, sender, served
from tests.service.test_kinds import KEYS, TIMES, VALUES
from tidegate.keyed.committed_keyed_release import CommittedKeyed
from tidegate.keyed.object_engine import ObjectEngine
from tidegate.record.record import Record
from tidegate.service import answers_json
from tidegate.service.answers_json import view_to_answer
from tidegate.service.service_process import Service

httpx = pytest.importorskip("httpx", reason="tests of the service need the extra [test]")

PIPELINE = tg.adaptive(epsilon=1, bound=100, horizon=400)
NAMES = ["north", "south", "east"]
ASKED = {"every": "1h", "confidence": 0.95, "total": False}


def send(service: Service, name: str, first: int, last: int) -> Any:
    times = type(TIMES)(TIMES.ticks[first:last], TIMES.clock)
    keys = {"keys": KEYS[first:last]} if name == "zones" else {}
    return sender(service, name)(*VALUES[first:last], times=times, **keys)


def opened(place: Place) -> Service:
    service = place.opened()
    create, keys = service.gate.streams.create, {"names": NAMES, "threshold": "per key"}
    service.gate.call(lambda: create("zones", PIPELINE, keys=keys)).result()
    service.gate.call(lambda: create("meters", PIPELINE)).result()
    for name in ("zones", "meters"):
        send(service, name, 0, 700)
    return service


def under_the_lock(run: Any) -> Any:
    """What the library answers while nothing else can happen."""
    whole = run.release if isinstance(run, CommittedKeyed) else run
    return {
        name: answers_json.answer_column(column)
        for name, column in whole.table("1h").columns().items()
    }


@pytest.mark.parametrize("name", ["zones", "meters"])
def test_values_are_taken_while_a_question_is_worked_out(
    place: Place, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = opened(place)
    expected = service.gate.ask(name, under_the_lock)
    begun, go_on, gathered = threading.Event(), threading.Event(), Record.gathered

    def slow(self: Record, *args: Any) -> Any:
        """The answer takes as long as the test likes."""
        begun.set()
        assert go_on.wait(240)
        return gathered(self, *args)

    path = f"/v1/streams/{name}"
    reader, producer = (
        {"Authorization": f"Bearer {service.make_token(role, role)}"}
        for role in ("reader", "producer")
    )
    with (
        served(service) as address,
        httpx.Client(base_url=address, headers=reader, timeout=240, verify=PLAIN) as http,
        ThreadPoolExecutor(1) as pool,
    ):
        monkeypatch.setattr(Record, "gathered", slow)
        table = pool.submit(http.get, path + "/table?every=1h")
        try:
            assert begun.wait(240)
            assert send(service, name, 700, 800).count == 100
            body: dict[str, Any] = {"values": [1.0], "times": [1_704_067_200 + 60 * 850]}
            body |= {"keys": ["north"]} if name == "zones" else {}
            assert http.post(path + "/values", json=body, headers=producer).status_code == 202
            assert http.get(path).json()["released"] == 801
            assert http.get(path + "/values?limit=1").status_code == 200
        finally:
            go_on.set()
        found = table.result(240).json()["columns"]
        assert found.pop("time")
        expected.pop("time")
        assert {one: found[one] for one in expected} == expected
        again = http.get(path + "/table?every=1h").json()["columns"]
        assert again["sum"] != found["sum"]  # with what was taken meanwhile


def test_views_of_keys_are_made_once_and_only_of_what_changed(tmp_path: Path) -> None:
    place = Place(tmp_path / "gate", None)
    service = opened(place)
    first = service.gate.ask("zones", view_to_answer)
    kept = {name: first.record(name) for name in NAMES}
    sender(service, "zones")(
        5.0, keys=["north"], times=type(TIMES)(TIMES.ticks[700:701], TIMES.clock)
    )
    second = service.gate.ask("zones", lambda run: view_to_answer(run, NAMES))
    changed = [name for name in NAMES if second.record(name) is not kept[name]]
    assert changed == ["north"]
    service.gate.close()
    service = place.opened()  # all keys rest now: views are made when somebody needs them
    third = service.gate.ask("zones", view_to_answer)
    engine = service.gate.ask("zones", lambda run: run.release._engine)
    assert isinstance(engine, ObjectEngine)
    assert answers_json.table_as_json(third, ASKED) == answers_json.table_as_json(
        second, {**ASKED, "keys": ",".join(NAMES)}
    )
    assert not engine.releases  # asking resumed none of them
    expected = service.gate.ask("zones", under_the_lock)
    assert answers_json.table_as_json(third, ASKED)["columns"]["sum"] == expected["sum"]
    service.gate.close()


def test_answers_while_values_pour_in_are_those_of_the_lock(tmp_path: Path) -> None:
    """Readers and the gate at once; `as_of` makes all of them answers to the same question."""
    service = opened(Place(tmp_path / "gate", None))
    seen: list[float] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            view = service.gate.ask("meters", view_to_answer)
            seen.append(view.query(0, 600, as_of=700).estimate)

    with ThreadPoolExecutor(2) as pool:
        asking = [pool.submit(ask) for _ in range(2)]
        for start in range(700, 900, 20):
            send(service, "meters", start, start + 20)
        stop.set()
        for one in asking:
            one.result(240)
    exact = service.gate.ask("meters", lambda run: run.query(0, 600, as_of=700).estimate)
    assert set(seen) == {exact}
    service.gate.close()
