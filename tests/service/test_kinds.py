"""Streams with keys, with times and of events: what comes out is what the library releases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.service.conftest import Place, sender
from tests.service.test_http import Clients, http
from tidegate.errors import InputError, SettingError
from tidegate.keyed.keyed_snapshot import resumed_keys, sealed_keys
from tidegate.service.pending_requests import Conflict
from tidegate.service.released_rows import page_of_rows, rows_between
from tidegate.service.service_process import Service
from tidegate.timestamps import read_times

__all__ = ["http"]  # a fixture

PIPELINE = tg.adaptive(epsilon=1, bound=100, horizon=400)
RANDOM = np.random.default_rng(4)
KEYS = RANDOM.choice(["north", "south", "east"], 900).tolist()
VALUES = RANDOM.gamma(2, 10, 900)
TIMES = read_times((1_704_067_200 + 60 * np.arange(900)).tolist())
KEY = b"k" * 32


def create(service: Service, names: Any, **more: Any) -> None:
    keys = {"names": names, "threshold": more.pop("threshold", "per key")}
    pipeline = more.pop("pipeline", PIPELINE)
    make = service.gate.streams.create
    service.gate.call(lambda: make("zones", pipeline, keys=keys, **more)).result()


def send(service: Service, first: int, last: int, **more: Any) -> Any:
    times = type(TIMES)(TIMES.ticks[first:last], TIMES.clock)
    return sender(service, "zones")(*VALUES[first:last], keys=KEYS[first:last], times=times, **more)


@pytest.mark.parametrize("threshold", ["per key", "shared"])
def test_keys_are_released_as_the_library_does(place: Place, threshold: str) -> None:
    shared = threshold == "shared"
    pipeline = tg.tops(epsilon=1, bound=100, horizon=256, holdout=64) if shared else PIPELINE
    service = place.opened(KEY)
    create(service, ["north", "south"], threshold=threshold, pipeline=pipeline)
    run = service.gate.ask("zones", lambda run: run)
    assert not isinstance(run, tg.durable.DurableRelease)
    whole = resumed_keys(
        run.specification, sealed_keys(run.release, None, brief=False), None
    )  # the same noise, in memory
    for cut in ((0, 1), (1, 2), (2, 400)):
        assert send(service, *cut).count == cut[1] - cut[0]
    assert send(service, 400, 500, key="a").start is None  # undeclared rows would be counted
    assert send(service, 400, 500, key="a").repeated
    with pytest.raises(Conflict):
        send(service, 401, 501, key="a")
    with pytest.raises(SettingError, match="start"):
        send(service, 401, 501, start=400)
    service.gate.close()
    service = place.opened(KEY)  # a restart changes nothing
    send(service, 500, 900)
    rows = whole.push(KEYS, VALUES, TIMES)
    blocks = list(rows_between(service.gate.database, "zones", 0, 10**9))
    assert np.concatenate([one.values for one in blocks]).tobytes() == rows.values.tobytes()
    assert np.concatenate([one.codes for one in blocks]).tolist() == rows.codes.tolist()
    asked = {"key": "north", "from_": "2024-01-01T02:00", "to": "2024-01-01T08:00"}
    expected = whole.query(**asked)
    found = service.gate.ask("zones", lambda run: run.release.query(**asked))
    assert (found.estimate, found.low, found.high) == (
        expected.estimate,
        expected.low,
        expected.high,
    )
    totals = service.gate.ask("zones", lambda run: run.release.totals("1h").columns())
    assert totals["sum"].tobytes() == whole.totals("1h").columns()["sum"].tobytes()
    # Read by key and time, in pages: every row once.
    got, following = [], 0
    while following is not None:
        part = page_of_rows(service.gate.database, "zones", following, 37, codes=[1])
        got += [one.values for one in part.blocks]
        following = part.following
    assert np.concatenate(got).tobytes() == rows.of("south").values.tobytes()
    hour = page_of_rows(
        service.gate.database,
        "zones",
        0,
        10_000,
        times=(int(TIMES.ticks[300]), int(TIMES.ticks[360])),
    )
    inside = (rows.times >= TIMES.ticks[300]) & (rows.times < TIMES.ticks[360])
    assert sum(one.values.size for one in hour.blocks) == np.count_nonzero(inside)
    assert str(service.gate.streams.ledger.total("zones")).startswith("ε = 1 per event of any key")
    service.gate.close()


def test_more_keys_may_be_declared_and_a_failed_commit_leaves_no_trace(place: Place) -> None:
    service = place.opened(KEY)
    create(service, ["north"])
    send(service, 0, 100)
    seen = service.gate.ask("zones", lambda run: run.release.position)
    real = service.gate.database._counted
    service.gate.database._counted = lambda _: 1 / 0  # type: ignore[method-assign, assignment, return-value]
    with pytest.raises(tg.TidegateError):
        send(service, 100, 200)
    service.gate.database._counted = real  # type: ignore[method-assign]
    assert service.gate.ask("zones", lambda run: run.release.position) == seen
    service.gate.call(lambda: service.gate.streams.declare_keys("zones", ["south", 7])).result()
    send(service, 100, 300)
    run = service.gate.ask("zones", lambda run: run)
    assert run.release.keys == ["north", "south", "7"]
    assert run.release.counts()[1] == KEYS[100:300].count("south")
    with pytest.raises(InputError, match="needs one"):
        sender(service, "zones")(1.0)
    service.gate.close()


def test_events_are_released_when_the_clock_says_so(place: Place) -> None:
    pipeline = tg.events(epsilon=1, bound=100, every="1min", start="2024-01-01T00:00Z", horizon=500)
    service = place.opened(KEY)
    service.gate.call(lambda: service.gate.streams.create("trips", pipeline)).result()
    alone = pipeline.resume(service.gate.ask("trips", lambda run: run._release.snapshot()))
    push = sender(service, "trips")
    receipt = push(*VALUES[:300], times=type(TIMES)(TIMES.ticks[:300], TIMES.clock))
    assert (receipt.start, receipt.count) == (None, 300)  # how many there are is not public
    assert not list(rows_between(service.gate.database, "trips", 0, 10**9))
    push(until="2024-01-01T02:30Z")
    push(
        *VALUES[300:400],
        times=type(TIMES)(TIMES.ticks[300:400], TIMES.clock),
        until="2024-01-01T05:00Z",
    )
    service.gate.close()
    service = place.opened(KEY)
    push = sender(service, "trips")
    push(until="2024-01-01T05:00Z")  # nothing new
    alone.push(TIMES.ticks[:300].astype("datetime64[ns]").astype(str) + np.array("Z"), VALUES[:300])
    expected = [alone.advance("2024-01-01T02:30Z").values]
    alone.push(
        TIMES.ticks[300:400].astype("datetime64[ns]").astype(str) + np.array("Z"), VALUES[300:400]
    )
    expected.append(alone.advance("2024-01-01T05:00Z").values)
    found = [one.values for one in rows_between(service.gate.database, "trips", 0, 10**9)]
    assert np.concatenate(found).tobytes() == np.concatenate(expected).tobytes()
    with pytest.raises(SettingError, match="start"):
        push(1.0, times=type(TIMES)(TIMES.ticks[:1], TIMES.clock), start=400)
    with pytest.raises(SettingError, match="until"):
        push(until="2224-01-01T00:00Z")
    service.gate.close()


def test_kinds_over_http(http: Clients) -> None:
    pa = pytest.importorskip("pyarrow")
    new = {"name": "zones", "epsilon": "1", "bound": 100, "keys": "public"}
    new["settings"] = {"horizon": 400}
    assert http("admin", "POST", "/v1/streams", json=new).json()["kind"] == "keyed readings"
    path = "/v1/streams/zones"
    times = (TIMES.ticks // 10**9).tolist()
    body = {"keys": KEYS[:300], "values": VALUES[:300].tolist(), "times": times[:300]}
    assert http("producer", "POST", f"{path}/values", json=body).json()["count"] == 300
    lines = "\n".join(
        json.dumps({"key": key, "value": value, "time": time})
        for key, value, time in zip(
            KEYS[300:600], VALUES[300:600].tolist(), times[300:600], strict=True
        )
    )
    kind = {"Content-Type": "application/x-ndjson"}
    assert (
        http("producer", "POST", f"{path}/values", content=lines, headers=kind).status_code == 202
    )
    table = pa.table({"key": KEYS[600:], "value": VALUES[600:], "time": times[600:]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    arrow = {"Content-Type": "application/vnd.apache.arrow.stream"}
    sent = http(
        "producer", "POST", f"{path}/values", content=sink.getvalue().to_pybytes(), headers=arrow
    )
    assert sent.json()["start"] == 600
    keys = http("reader", "GET", f"{path}/keys").json()
    assert sum(keys["released"]) == 900
    params = {"key": "north", "from": "2024-01-01T00:00", "to": "2024-01-01T15:00"}
    answer = http("reader", "GET", f"{path}/sum", params=params).json()
    truth = sum(value for key, value in zip(KEYS, VALUES, strict=True) if key == "north")
    assert answer["sum"]["low"] < truth < answer["sum"]["high"]
    assert answer["mean"]["estimate"] == pytest.approx(
        answer["sum"]["estimate"] / KEYS.count("north")
    )
    hours = http("reader", "GET", f"{path}/table", params={"every": "1h"}).json()["columns"]
    assert set(hours["key"]) == {"north", "south", "east"}
    assert len(hours["time"]) == len(hours["sum"]) == 45
    whole = http("reader", "GET", f"{path}/table", params={"every": "1h", "total": True}).json()
    assert sum(whole["columns"]["rows"]) == 900
    accept = {"Accept": "application/vnd.apache.arrow.stream"}
    rows = http("reader", "GET", f"{path}/values", params={"key": "east"}, headers=accept)
    read = pa.ipc.open_stream(rows.content).read_all()
    assert read.num_rows == KEYS.count("east")
    assert set(read.column("key").to_pylist()) == {"east"}
    # The same question again: nothing was released since.
    again = http("reader", "GET", f"{path}/sum", params=params)
    tag = {"If-None-Match": again.headers["etag"]}
    assert http("reader", "GET", f"{path}/sum", params=params, headers=tag).status_code == 304
    assert http("reader", "GET", f"{path}/sum", params=params).json() == answer
    one = {"keys": ["north"], "values": [3], "times": [times[-1] + 60]}
    assert http("producer", "POST", f"{path}/values", json=one).status_code == 202
    now = http("reader", "GET", f"{path}/sum", params=params, headers=tag)
    assert now.status_code == 200
    # Warm-ups that end change answers, though no row is released: a level that rose is seen then.
    assert http("producer", "POST", f"{path}/finish").json() == {"finished": True}
    tag = {"If-None-Match": now.headers["etag"]}
    assert http("reader", "GET", f"{path}/sum", params=params, headers=tag).status_code == 200
    events = {"every": "1h", "start": "2024-01-01T00:00Z", "count": True}
    new = {"name": "trips", "epsilon": "1", "events": events, "settings": {"horizon": 100}}
    made = http("admin", "POST", "/v1/streams", json=new)
    assert made.json()["kind"] == "events", made.text
    sent = http(
        "producer", "POST", "/v1/streams/trips/values",
        json={"times": times, "until": "2024-01-01T15:00Z"},
    )  # fmt: skip
    assert sent.json() == {"start": None, "count": 900, "repeated": False}
    facts = http("reader", "GET", "/v1/streams/trips").json()
    assert facts["released"] == 15
    assert "taken" not in facts
    more = http(
        "producer", "POST", "/v1/streams/trips/advance", json={"until": "2024-01-02T00:00Z"}
    )
    assert more.status_code == 202
    assert http("reader", "GET", "/v1/streams/trips").json()["released"] == 24
    count = http("reader", "GET", "/v1/streams/trips/sum").json()["sum"]
    assert count["low"] < 900 < count["high"]


def test_check_plan_caps_and_audit(http: Clients) -> None:
    new = {"name": "meters", "epsilon": "1", "bound": 100}
    assert http("admin", "POST", "/v1/check", json=new).json()["guarantee"].startswith("ε = 1")
    wrong_ones: list[dict[str, Any]] = [
        {"bound": None}, {"keys": "public", "shared_threshold": True}, {"method": "x"},
        {"settings": {"no such": 1}}, {"settings": {"horizon": "x"}}, {"epsilon": -1},
    ]  # fmt: skip
    for wrong in wrong_ones:
        assert http("admin", "POST", "/v1/check", json=new | wrong).status_code == 422
    plan = http("reader", "POST", "/v1/plan", json=new | {"lengths": [10, 1000]}).json()
    assert [one["length"] for one in plan["errors"]] == [10, 1000]
    assert http("admin", "PUT", "/v1/sources/meters", json={"cap": "0.5"}).status_code == 200
    assert http("admin", "POST", "/v1/streams", json=new).status_code == 201
    refused = http("producer", "POST", "/v1/streams/meters/values", json=[1])
    assert (refused.status_code, refused.json()["title"]) == (403, "the budget is spent")
    assert "PUT /v1/sources/NAME" in refused.json()["detail"]  # and not an option of a command
    assert "total" not in refused.json()["detail"]  # a producer is not told what was spent
    assert http("admin", "PUT", "/v1/sources/meters", json={"cap": 2}).status_code == 200
    assert http("producer", "POST", "/v1/streams/meters/values", json=[1]).status_code == 202
    http("admin", "POST", "/v1/streams/meters/epochs")
    assert http("producer", "POST", "/v1/streams/meters/values", json=[1]).status_code == 202
    book = http("auditor", "GET", "/v1/ledger").json()
    assert (book["caps"], book["left"]) == ({"meters": "2"}, {"meters": "0"})
    audit = http("auditor", "GET", "/v1/audit").json()["entries"]
    assert [one["sequence"] for one in audit] == list(range(1, len(audit) + 1))
    notes = " ".join(one["note"] for one in audit)
    for said in ("stream meters was created", "a new epoch", "a token was made"):
        assert said in notes
    assert audit[-1]["hash"] == book["head"]


def test_the_copy_of_the_ledger_can_be_read_by_itself(tmp_path: Path) -> None:
    service = Place(tmp_path / "gate", None).opened()
    service.gate.call(lambda: service.gate.streams.create("meters", PIPELINE)).result()
    sender(service, "meters")(1.0)
    with tg.ledger.Ledger.open(tmp_path / "gate" / "ledger.jsonl", read_only=True) as copy:
        assert copy.head == service.gate.streams.ledger.head
    service.gate.close()
