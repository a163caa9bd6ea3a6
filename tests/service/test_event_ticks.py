"""Events by key, ticks that the service's clock closes, and streams that are over."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.service.conftest import Place, sender
from tests.service.test_http import Clients, http
from tidegate.errors import SettingError
from tidegate.keyed.keyed_snapshot import resumed_keys, sealed_keys
from tidegate.service.clock_ticks import ClockTicks
from tidegate.service.released_rows import rows_between
from tidegate.service.service_process import Service
from tidegate.timestamps import read_times

__all__ = ["http"]  # a fixture

START, MINUTE = 1_704_067_200, 60
EVENTS = tg.events(1, 20, every="1min", start="2024-01-01T00:00Z")
NAMES = ["north", "south"]
RANDOM = np.random.default_rng(5)
SECONDS = np.sort(RANDOM.integers(0, 60 * MINUTE, 500))
KEYS = RANDOM.choice([*NAMES, "undeclared"], 500).tolist()
VALUES = RANDOM.gamma(2, 4, 500)


def times_of(seconds: Any) -> Any:
    return read_times([f"2024-01-01T00:{one // 60:02d}:{one % 60:02d}Z" for one in seconds])


def create(service: Service, **more: Any) -> None:
    keys = {"names": NAMES, "threshold": "per key"}
    make = service.gate.streams.create
    service.gate.call(lambda: make("calls", EVENTS, keys=keys, **more)).result()


def columns(service: Service, name: str = "calls") -> list[Any]:
    blocks = list(rows_between(service.gate.database, name, 0, 10**9))
    fields = ("values", "levels", "codes", "positions", "times")
    return [np.concatenate([getattr(one, field) for one in blocks]) for field in fields]


def test_events_by_key_are_released_as_the_library_does(place: Place) -> None:
    service = place.opened()
    create(service)
    run = service.gate.ask("calls", lambda run: run)
    whole = resumed_keys(
        run.specification, sealed_keys(run.release, None, brief=False), None
    )  # the same noise, in memory
    times = times_of(SECONDS)
    send = sender(service, "calls")
    for first, last in ((0, 1), (1, 200), (200, 500)):
        part = type(times)(times.ticks[first:last], times.clock)
        receipt = send(*VALUES[first:last], keys=KEYS[first:last], times=part, key=f"r{first}")
        assert receipt.start is None  # how many events others have sent is not public
        again = send(*VALUES[first:last], keys=KEYS[first:last], times=part, key=f"r{first}")
        assert again.repeated
        if first == 1:
            service.gate.close()
            service = place.opened()
            send = sender(service, "calls")
    # By chance the warm-up of a key takes 64 ticks: before its end nothing can be asked.
    for until in ("2024-01-01T00:20:30Z", "2024-01-01T01:20Z", "2024-01-01T00:30Z"):
        send(until=until)
    whole.push(KEYS, times, VALUES)
    rows = whole.advance("2024-01-01T01:20Z")
    found = columns(service)
    expected = (rows.values, rows.levels, rows.codes, rows.positions, rows.times)
    assert [one.tolist() for one in found] == [one.tolist() for one in expected]
    assert found[0].size == 80 * len(NAMES)  # a row for every tick of every declared key
    facts = service.gate.ask("calls", lambda run: run.release.totals("10min").columns()["sum"])
    assert facts.tolist() == whole.totals("10min").columns()["sum"].tolist()
    assert service.gate.streams.ledger.total("calls").epsilon == 1
    with pytest.raises(SettingError, match="more than"):
        send(until="2044-01-01T00:00Z")
    service.gate.close()


def test_the_clock_closes_ticks_without_any_event(tmp_path: Path) -> None:
    service = Place(tmp_path / "gate", None).opened()
    create(service, grace=30)
    now = START + 5 * MINUTE
    ticks = ClockTicks(service.gate, lambda: now)
    (stream,) = service.gate.streams.closed_by_clock()
    asyncio.run(ticks.close_due(stream))
    assert columns(service)[0].size == 4 * len(NAMES)  # the fifth may still get events
    sender(service, "calls")(3.0, keys=["north"], times=times_of([4 * 60 + 59]))
    now += 31
    asyncio.run(ticks.close_due(stream))
    asyncio.run(ticks.close_due(stream))  # nothing more is due
    assert columns(service)[0].size == 5 * len(NAMES)
    service.gate.close()
    service = Place(tmp_path / "gate", None).opened()  # another process, much later
    now += 3600
    asyncio.run(ClockTicks(service.gate, lambda: now).close_due(stream))
    assert columns(service)[0].size == 65 * len(NAMES)
    service.gate.call(lambda: service.gate.streams.retire("calls")).result()
    assert service.gate.streams.closed_by_clock() == []
    service.gate.close()


def test_over_http(http: Clients) -> None:
    """A stream of each kind: the clock of the service, events by key, and the end of a stream."""
    clock = {"every": "1s", "start": "2024-01-01T00:00Z"}
    new = {"name": "taps", "epsilon": "1", "events": {**clock, "count": True, "grace": "1s"}}
    begun = datetime.now(UTC) - timedelta(seconds=20)
    new["events"]["start"] = begun.isoformat(timespec="seconds")  # type: ignore[index]
    assert http("admin", "POST", "/v1/streams", json=new).status_code == 201
    answer = http("producer", "POST", "/v1/streams/taps/advance", json={"until": "2030-01-01"})
    assert (answer.status_code, "clock" in answer.text) == (422, True)
    until = "/v1/streams/taps/values?until=2030-01-01T00:00Z"
    assert http("producer", "POST", until, json=[]).status_code == 422
    for _ in range(2000):  # the service closes them by itself
        released = http("reader", "GET", "/v1/streams/taps").json()["released"]
        if released >= 18:
            break
    assert released >= 18
    wrong = {**new, "name": "wall", "events": {**clock, "start": "2024-01-01", "grace": "1s"}}
    refused = http("admin", "POST", "/v1/streams", json={**wrong, "bound": 5})
    assert (refused.status_code, "zone" in refused.text) == (422, True)

    new = {"name": "calls", "epsilon": "1", "bound": 20, "keys": NAMES, "events": clock}
    assert http("admin", "POST", "/v1/streams", json=new).json()["kind"] == "keyed events"
    body = {"values": [4, 5], "keys": ["north", "west"], "times": ["2024-01-01T00:00:00Z"] * 2}
    path = "/v1/streams/calls"
    answer = http("producer", "POST", f"{path}/values", json={**body, "until": "2024-01-01T00:01Z"})
    assert answer.status_code == 202, answer.text
    assert http("reader", "GET", path).json()["released"] == 120
    shown = http("reader", "GET", f"{path}/values?key=north&limit=5").json()["rows"][0]
    assert shown["keys"] == ["north"] * 5
    for name in ("calls", "taps"):
        finished = http("producer", "POST", f"/v1/streams/{name}/finish")
        assert (finished.status_code, finished.json()) == (200, {"finished": True})
    assert http("reader", "GET", f"{path}/sum?key=north").status_code == 200


@pytest.mark.parametrize("keys", [None, {"names": NAMES, "threshold": "per key"}])
def test_a_stream_that_is_over_is_measured(tmp_path: Path, keys: Any) -> None:
    """As `finish` of the library: the warm-up ends with the values that came."""
    place = Place(tmp_path / "gate", None)
    service = place.opened()
    pipeline = tg.adaptive(epsilon=1, bound=20, horizon=5000)
    make = service.gate.streams.create
    service.gate.call(lambda: make("short", pipeline, keys=keys)).result()
    inner = lambda run: run.release if keys else run  # noqa: E731
    more = {"keys": (NAMES * 10)[:20]} if keys else {}
    sender(service, "short")(*VALUES[:20], **more)
    asked = {"key": "north"} if keys else {}
    with pytest.raises(tg.QueryError, match="measured yet"):
        service.gate.ask("short", lambda run: inner(run).query(0, 10, **asked))
    service.gate.call(lambda: service.gate.streams.finish("short")).result()
    before = service.gate.ask("short", lambda run: inner(run).query(0, 10, **asked))
    assert before.low < before.high
    service.gate.close()
    service = place.opened()
    again = service.gate.ask("short", lambda run: inner(run).query(0, 10, **asked))
    assert (again.estimate, again.high) == (before.estimate, before.high)
    service.gate.close()
