"""Rows with several values: a stream for each column, one budget, one request."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.service.conftest import Place, served
from tests.service.test_http import Clients, http
from tidegate.errors import RefusedError
from tidegate.service.released_rows import between

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
            rows = between(service.gate.database, f"trips.{column}", 0, 10**9)
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
    assert (other.status_code, other.json()["column"]) == (409, "tip")
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
        assert http("reader", "GET", f"/v1/streams/trips.{column}").json()["released"] == 3
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
