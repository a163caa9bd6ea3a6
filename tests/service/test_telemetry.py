"""Traces: a span for each request and each commit, and nothing that is not public in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.service.conftest import PLAIN, Place, served
from tidegate.service.logs_and_traces import TelemetryTraces

httpx = pytest.importorskip("httpx", reason="tests of the service need the extra [test]")
sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="needs the extra [test]")

SECRETS = ("8675309", "zone-of-jane", "sent-by-jane", "meters")


def test_requests_and_commits_are_traced_without_what_they_carry(tmp_path: Path) -> None:
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept = InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    service = Place(tmp_path / "gate", None).opened()
    service.gate.telemetry = TelemetryTraces(provider)
    tokens = {role: service.make_token(role, role) for role in ("admin", "producer", "reader")}
    caller = "0af7651916cd43dd8448eb211c80319c"
    with (
        served(service) as address,
        httpx.Client(base_url=address, timeout=240, verify=PLAIN) as client,
    ):

        def call(role: str, method: str, path: str, **more: object) -> int:
            headers = {"Authorization": f"Bearer {tokens[role]}", "Idempotency-Key": SECRETS[2]}
            headers["traceparent"] = f"00-{caller}-b7ad6b7169203331-01"
            found: int = client.request(method, path, headers=headers, **more).status_code
            return found

        new = {"name": "meters", "epsilon": "1", "bound": 1e7, "keys": [SECRETS[1]]}
        assert call("admin", "POST", "/v1/streams", json=new) == 201
        body = {"values": [8675309], "keys": [SECRETS[1]]}
        assert call("producer", "POST", "/v1/streams/meters/values", json=body) == 202
        assert call("producer", "POST", "/v1/streams/meters/values", json={"values": "x"}) == 422
        assert call("reader", "GET", f"/v1/streams/meters/values?key={SECRETS[1]}") == 200
        assert call("reader", "GET", "/v1/nowhere/zone-of-jane") == 404
    spans = kept.get_finished_spans()
    requests = [span for span in spans if span.name != "commit"]
    names = [span.name for span in requests]
    assert names == [
        "POST /v1/streams",
        "POST /v1/streams/{name}/values",
        "POST /v1/streams/{name}/values",
        "GET /v1/streams/{name}/values",
        "GET",
    ]
    statuses = [span.attributes["http.response.status_code"] for span in requests]
    assert statuses == [201, 202, 422, 200, 404]
    assert {f"{span.context.trace_id:032x}" for span in requests} == {caller}
    (commit,) = [span for span in spans if span.name == "commit"]
    assert commit.attributes == {"db.system.name": "sqlite", "tidegate.released_rows": 1}
    assert [link.context.span_id for link in commit.links] == [requests[1].context.span_id]
    text = "".join(span.to_json() for span in spans)
    assert not [secret for secret in SECRETS if secret in text]


def test_nothing_is_made_where_nobody_collects() -> None:
    assert TelemetryTraces()._tracer is None
    assert TelemetryTraces().context() is None
