"""Rows with several values: a stream for each column, one budget, one request."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.service.conftest import Place, served
from tests.service.test_http import Clients, http
from tidegate.errors import RefusedError
from tidegate.ledger import CapExceeded
from tidegate.service.pending_requests import PendingPush, RequestsOfSameRows
from tidegate.service.released_rows import rows_between
from tidegate.service.service_process import Service

__all__ = ["http"]  # a fixture

RANDOM = np.random.default_rng(6)
FARES, TIPS = RANDOM.gamma(2, 10, 300), RANDOM.gamma(1, 3, 300)
NEW = {
    "name": "trips",
    "epsilon": "1",
    "columns": {"fare": {"bound": 100}, "tip": {"bound": 30, "share": "0.3"}},
}


def test_each_column_is_released_as_a_stream_of_its_share(place: Place) -> None:
    service = place.opened()
    tokens = [service.make_token(role, role) for role in ("admin", "producer")]
    with served(service) as address, tg.connect(address, *tokens) as gate:
        made = gate.create_columns("trips", epsilon="1", columns=NEW["columns"])
        assert list(made) == ["fare", "tip"]
        alone = {}
        for column in made:
            run = service.gate.ask(f"trips.{column}", lambda run: run)
            alone[column] = run.pipeline.resume(run._release.snapshot())  # the same noise
        for first, last in ((0, 1), (1, 120), (120, 300)):
            gate.push_columns("trips", {"tip": TIPS[first:last], "fare": FARES[first:last]})
        for column, values in (("fare", FARES), ("tip", TIPS)):
            rows = rows_between(service.gate.database, f"trips.{column}", 0, 10**9)
            found = np.concatenate([block.values for block in rows])
            assert found.tobytes() == alone[column].push(values).tobytes()
        assert service.gate.streams.ledger.total("trips").epsilon == 1
        shares = [str(service.gate.streams.existing(f"trips.{one}").guarantee) for one in made]
        assert [text.split(" per ")[0] for text in shares] == ["ε = 0.7", "ε = 0.3"]
        facts = gate.call("GET", "/v1/columns/trips", "read")
        assert facts["guarantee"].startswith("ε = 1 per event")


def test_columns_over_http(http: Clients) -> None:
    pa = pytest.importorskip("pyarrow")
    assert http("admin", "POST", "/v1/columns", json=NEW).status_code == 201
    path = "/v1/columns/trips/values"

    def push(content: Any, key: str | None = "a", **more: Any) -> Any:
        headers = {} if key is None else {"Idempotency-Key": key}
        sent = {"content": content} if isinstance(content, bytes) else {"json": content}
        return http("producer", "POST", path, headers=headers | more, **sent)

    body = {"columns": {"fare": [9, 8], "tip": [1, None]}}
    assert push(body, None).status_code == 400  # it could not be sent again
    first = push(body)
    assert (first.status_code, first.json()["columns"]["tip"]["start"]) == (202, 0)
    assert all(one["repeated"] for one in push(body).json()["columns"].values())
    other = push({"columns": {"fare": [9, 8], "tip": [1, 2]}})
    assert (other.status_code, "column" in other.json()) == (409, False)
    table = pa.table({"tip": [3.0], "fare": [30.0]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    arrow = {"Content-Type": "application/vnd.apache.arrow.stream"}
    sent = push(sink.getvalue().to_pybytes(), "b", **arrow)
    assert sent.json()["columns"]["fare"]["start"] == 2
    wrong: list[Any] = [
        {"columns": {"fare": [1]}}, {"columns": {"fare": [1], "tip": [1], "toll": [1]}},
        {"columns": {"fare": [1], "tip": [1, 2]}}, {"columns": {"fare": ["x"], "tip": [1]}},
        {"columns": {"fare": [1], "tip": [1]}, "times": ["2024-01-01", "2024-01-02"]},
        {"columns": [1]}, [1], {"rows": []},
    ]  # fmt: skip
    for number, one in enumerate(wrong):
        assert push(one, f"w{number}").status_code == 422, one
    for column in ("fare", "tip"):
        stream = f"/v1/streams/trips.{column}"
        assert http("producer", "POST", f"{stream}/values", json=5).status_code == 409
        assert http("reader", "GET", stream).json()["released"] == 3
    shares = {"fare": {"bound": 5, "share": "0.8"}, "tip": {"bound": 5, "share": "0.8"}}
    refused = http("admin", "POST", "/v1/columns", json={**NEW, "name": "n", "columns": shares})
    assert (refused.status_code, "share" in refused.text) == (422, True)


def test_columns_are_made_all_or_none(tmp_path: Any) -> None:
    service = Place(tmp_path / "gate", None).opened()
    streams, call = service.gate.streams, service.gate.call
    pipelines = {name: tg.adaptive(epsilon=1, bound=9) for name in ("fare", "tip")}
    call(lambda: streams.create("trips.tip", pipelines["tip"])).result()
    with pytest.raises(RefusedError, match="already"):
        call(lambda: streams.create_columns("trips", pipelines)).result()
    call(lambda: None).result()  # which reads again what there is
    assert [one.name for one in streams.listed()] == ["trips.tip"]
    with pytest.raises(tg.TidegateError, match="no columns"):
        streams.columns_of("trips")
    call(lambda: streams.create_columns("other", pipelines)).result()
    assert list(streams.columns_of("other")) == ["fare", "tip"]
    service.gate.close()


class Rows:
    """Sends whole rows to a gate, without HTTP."""

    def __init__(self, service: Service) -> None:
        self._gate = service.gate

    def send(self, key: str, fares: list[float], tips: list[float]) -> list[Any]:
        """The outcome of each column."""
        rows = RequestsOfSameRows()
        waiting = [
            PendingPush(f"trips.{column}", np.array(values, dtype=np.float64), key=key, rows=rows)
            for column, values in (("fare", fares), ("tip", tips))
        ]
        self._gate.submit(*waiting)
        return [one.answer.exception(60) or one.answer.result() for one in waiting]

    @property
    def seen(self) -> list[int]:
        return [self._gate.ask(f"trips.{one}", lambda run: run.seen) for one in ("fare", "tip")]


def pipelines(**epsilons: str) -> dict[str, Any]:
    return {name: tg.adaptive(epsilon=one, bound=90) for name, one in epsilons.items()}


def test_a_cap_that_one_column_exceeds_refuses_the_row(place: Place) -> None:
    service = place.opened(cap="0.9")
    streams, rows = service.gate.streams, Rows(service)
    make = pipelines(fare="0.7", tip="0.3")
    service.gate.call(lambda: streams.create_columns("trips", make)).result()
    loaded = streams._runs
    outcomes = rows.send("a", [9.0], [1.0])
    assert [type(one) for one in outcomes] == [CapExceeded, CapExceeded]
    assert streams._runs is loaded  # it was seen before anything had to be taken back
    assert rows.seen == [0, 0]
    assert service.gate.spent(lambda ledger: ledger.total("trips").epsilon) == 0
    service.gate.call(lambda: streams.ledger.set_cap("1", source="trips")).result()
    assert [one.start for one in rows.send("a", [9.0], [1.0])] == [0, 0]
    assert [one.repeated for one in rows.send("a", [9.0], [1.0])] == [True, True]
    service.gate.call(lambda: streams.retire("trips.tip")).result()
    outcomes = rows.send("b", [8.0], [2.0])
    assert [type(one) for one in outcomes] == [RefusedError, RefusedError]
    assert rows.seen == [1, 1]
    service.gate.close()


def test_a_column_that_fails_late_takes_its_row_back_and_no_other(place: Place) -> None:
    service = place.opened()
    streams, rows = service.gate.streams, Rows(service)
    make = pipelines(fare="0.7", tip="0.3")
    service.gate.call(lambda: streams.create_columns("trips", make)).result()
    service.gate.call(lambda: streams.create("meters", make["fare"])).result()
    runs = [service.gate.ask(f"trips.{one}", lambda run: run) for one in make]
    alone = [run.pipeline.resume(run._release.snapshot()) for run in runs]  # the same noise
    # A key that one column knows for other values: its conflict is found when the other is pushed.
    other = PendingPush("trips.tip", np.array([5.0]), key="late")
    service.gate.submit(other)
    assert other.answer.result(60).start == 0
    with service.gate.lock:  # so that these wait, and are one transaction
        beside = PendingPush("meters", np.array([3.0]))
        service.gate.submit(beside)
        sent = [RequestsOfSameRows(), RequestsOfSameRows(), RequestsOfSameRows()]
        waiting = [
            PendingPush(f"trips.{column}", np.array([value]), key=key, rows=one)
            for one, key in zip(sent, ("first", "late", "last"), strict=True)
            for column, value in (("fare", 9.0), ("tip", 1.0))
        ]
        service.gate.submit(*waiting)
    found = [one.answer.exception(60) or one.answer.result() for one in waiting]
    assert [type(one).__name__ for one in found] == ["Receipt"] * 2 + ["Conflict"] * 2 + [
        "Receipt"
    ] * 2
    assert beside.answer.result(60).count == 1
    assert (rows.seen, service.gate.failure) == ([2, 3], None)
    pushed = ([9.0, 9.0], [5.0, 1.0, 1.0])
    for column, run, values in zip(make, alone, pushed, strict=True):
        found_rows = rows_between(service.gate.database, f"trips.{column}", 0, 10**9)
        released = np.concatenate([block.values for block in found_rows])
        assert released.tobytes() == run.push(np.array(values)).tobytes()
    assert service.gate.spent(lambda ledger: str(ledger.total("trips").epsilon)) == "1"
    service.gate.close()
    service = place.opened()
    assert Rows(service).seen == [2, 3]  # and the chain of the ledger is whole
    service.gate.close()
