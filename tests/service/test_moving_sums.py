"""Moving sums over HTTP are the library's; charges of a source add up as the ledger says."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.service.conftest import Place, sender
from tests.service.test_http import Clients, create, http  # noqa: F401  # a fixture
from tests.service.test_kinds import KEYS, TIMES, VALUES
from tidegate.errors import QueryError, SettingError
from tidegate.service.answers_json import view_to_answer
from tidegate.service.moving_sums_as_json import moving_sums_as_json
from tidegate.service.service_process import Service
from tidegate.timestamps import read_times

PIPELINE = tg.adaptive(epsilon=1, bound=100, horizon=400)
NAMES = ["north", "south", "east"]
CONFIDENCE = {"confidence": 0.9}
NUMBERS = ("estimate", "low", "high")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Service:
    made = Place(tmp_path_factory.mktemp("moving") / "gate", None).opened()
    streams = made.gate.streams
    keys = {"names": NAMES, "threshold": "per key"}
    made.gate.call(lambda: streams.create("zones", PIPELINE, keys=keys)).result()
    for name in ("meters", "naive", "empty"):
        made.gate.call(lambda name=name: streams.create(name, PIPELINE)).result()  # type: ignore[misc]
    first = type(TIMES)(TIMES.ticks[:700], TIMES.clock)
    sender(made, "zones")(*VALUES[:700], times=first, keys=KEYS[:700])
    sender(made, "meters")(*VALUES[:700], times=first)
    texts = [f"2024-01-01T{at // 60:02d}:{at % 60:02d}" for at in range(700)]
    sender(made, "naive")(*VALUES[:700], times=read_times(texts))
    return made


def asked(service: Service, name: str, **more: Any) -> dict[str, Any]:
    view = service.gate.ask(name, view_to_answer)
    found: dict[str, Any] = moving_sums_as_json(view, {**CONFIDENCE, **more})["columns"]
    return found


def _same(found: dict[str, Any], answers: Any) -> None:
    rows = np.array(found["rows"])
    assert (rows > 0).all()
    for name in NUMBERS:
        more = "" if name == "estimate" else f"_{name}"
        exact = getattr(answers, name)
        assert found[f"sum{more}"] == exact.tolist()
        assert found[f"mean{more}"] == (exact / rows).tolist()


def test_windows_of_rows_are_the_queries_of_the_library(service: Service) -> None:
    found = asked(service, "meters", over="50", every="20", start=100, end=333)
    ends = [*range(160, 333, 20), 333]
    assert found["end"] == ends
    assert found["rows"] == [50] * len(ends)
    view = service.gate.ask("meters", view_to_answer)
    _same(found, view.queries([end - 50 for end in ends], ends, 0.9))
    assert asked(service, "meters", over="50")["end"][-1] == 700


@pytest.mark.parametrize("name", ["meters", "naive"])
def test_windows_of_time_are_the_queries_of_the_library(service: Service, name: str) -> None:
    found = asked(service, name, over="2h", every="1h")
    view = service.gate.ask(name, view_to_answer)
    answers = view.queries(found["from"], found["to"], 0.9)
    _same(found, answers)
    assert len(found["to"]) == 11  # whole windows only, and the last one ends with the last row
    assert found["to"][0].startswith("2024-01-01T02:00")
    part = asked(service, name, over="2h", every="1h", **{"from": found["from"][3]})
    assert part["sum"] == found["sum"][3:]


def test_windows_of_a_key_are_those_of_its_record(service: Service) -> None:
    found = asked(service, "zones", over="1h", every="30min", key="south")
    view = service.gate.ask("zones", view_to_answer)
    answers = view.record("south").queries(found["from"], found["to"], 0.9)
    _same(found, answers)


def test_windows_without_rows_have_no_mean(service: Service) -> None:
    create_, keys = service.gate.streams.create, None
    service.gate.call(lambda: create_("gaps", PIPELINE, keys=keys)).result()
    minutes = np.concatenate((np.arange(300), np.arange(600, 900)))
    ticks = TIMES.ticks[0] + minutes * 60 * 10**9
    sender(service, "gaps")(*VALUES[:600], times=type(TIMES)(ticks, TIMES.clock))
    found = asked(service, "gaps", over="1h", every="1h")
    none = [at for at, rows in enumerate(found["rows"]) if not rows]
    assert len(none) == 5
    assert {found["mean"][at] for at in none} == {None}
    assert {found["sum"][at] for at in none} == {0.0}


def test_what_makes_no_window_is_refused(service: Service) -> None:
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("meters", {"over": "0"}),
        ("meters", {"over": "1mo"}),
        ("meters", {"over": "yesterday"}),
        ("meters", {"over": "1h", "every": "10"}),
        ("meters", {"over": "10", "every": "1h"}),
        ("meters", {"over": "10", "from": "2024-01-01"}),
        ("meters", {"over": "1h", "start": 0}),
        ("meters", {"over": "10h", "every": "1s"}),
        ("meters", {"over": "1h", "key": "north"}),
        ("zones", {"over": "1h"}),
        ("empty", {"over": "10"}),
    ]
    for name, question in wrong:
        with pytest.raises((QueryError, SettingError)):
            asked(service, name, **question)
    assert asked(service, "meters", over="800")["sum"] == []  # none is whole yet
    assert asked(service, "meters", over="1w")["sum"] == []


def test_moving_sums_over_http(http: Clients) -> None:  # noqa: F811
    create(http)
    http("producer", "POST", "/v1/streams/meters/values", json=VALUES[:300].tolist())
    path = "/v1/streams/meters/moving"
    answer = http("reader", "GET", path, params={"over": "100"})
    assert answer.json()["columns"]["end"] == [*range(100, 301, 25)]
    again = {"If-None-Match": answer.headers["ETag"]}
    assert http("reader", "GET", path, params={"over": "100"}, headers=again).status_code == 304
    assert http("reader", "GET", path).status_code == 422
    assert http("reader", "GET", path, params={"over": "x"}).status_code == 422


def test_charges_of_a_source_by_range_and_stream(http: Clients) -> None:  # noqa: F811
    new = {"epsilon": "1", "bound": 100, "source": "city", "settings": {"horizon": 600}}
    for name, epsilon in (("one", "1"), ("two", "1/4")):
        body = {**new, "name": name, "epsilon": epsilon}
        assert http("admin", "POST", "/v1/streams", json=body).status_code == 201
    assert http("auditor", "GET", "/v1/sources/city").status_code == 404  # nothing was charged
    http("admin", "PUT", "/v1/sources/city", json={"cap": "4"})
    for name in ("one", "two"):
        http("producer", "POST", f"/v1/streams/{name}/values", json=[1.0])
    http("admin", "POST", "/v1/streams/one/epochs")
    http("producer", "POST", "/v1/streams/one/values", json=[1.0])
    found = http("auditor", "GET", "/v1/sources/city").json()
    book = http("auditor", "GET", "/v1/ledger").json()
    assert (found["spent"], found["cap"], found["left"]) == ("9/4", "4", book["left"]["city"])
    assert Fraction(found["cap"]) - Fraction(found["left"]) == Fraction(found["spent"])
    highest = max(found["ranges"], key=lambda one: Fraction(one["spent"]))
    by_stream = {one["stream"]: one["epsilon"] for one in highest["charges"]}
    assert by_stream == {"one": "1", "one@1": "1", "two": "1/4"}
    assert found["left_out"] == 0
    for part in found["ranges"]:
        charged = sum(Fraction(one["epsilon"]) for one in part["charges"])
        assert charged + Fraction(part["others"]) == Fraction(part["spent"])


def test_parts_of_a_source_do_not_add_up(http: Clients) -> None:  # noqa: F811
    for part, epsilon in (("east", "1/2"), ("west", "3/4")):
        body = {"name": part, "epsilon": epsilon, "bound": 100, "source": "city", "part": part}
        assert http("admin", "POST", "/v1/streams", json=body).status_code == 201
        http("producer", "POST", f"/v1/streams/{part}/values", json=[1.0])
    found = http("auditor", "GET", "/v1/sources/city").json()
    assert found["spent"] == "3/4"
    assert [one["part"] for one in found["ranges"][-1]["charges"]] == ["west"]
