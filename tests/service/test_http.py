"""The HTTP interface: roles, errors, bodies, and nothing secret in any answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.service.conftest import PLAIN, Place, served
from tests.service.described_answers import described_answers
from tidegate.service.service_process import Service
from tidegate.service.stored_tokens import make_token_in

httpx = pytest.importorskip("httpx", reason="tests of the service need the extra [test]")

SECRET = "8675309.125"
ROLES = ("admin", "producer", "reader", "auditor", "device", "shuffler")


class Clients:
    """A client for every role, and one without a token."""

    def __init__(self, client: Any, tokens: dict[str, str], service: Service) -> None:
        self.service = service
        self.client = client
        self.tokens = tokens

    def __call__(self, role: str | None, method: str, path: str, **more: Any) -> Any:
        headers = dict(more.pop("headers", {}))
        if role is not None:
            headers["Authorization"] = f"Bearer {self.tokens[role]}"
        return self.client.request(method, path, headers=headers, **more)


@pytest.fixture
def http(tmp_path: Path) -> Iterator[Clients]:
    service = Place(tmp_path / "gate", None).opened()
    made = {
        role: make_token_in(service.gate, service.tokens, role, role).result() for role in ROLES
    }
    with (
        served(service) as address,
        httpx.Client(base_url=address, timeout=240, verify=PLAIN) as client,
    ):
        described = described_answers(lambda: client.get("/v1/openapi.json"))
        client.event_hooks["response"].append(described.check)
        yield Clients(client, made, service)


def create(http: Clients, name: str = "meters") -> None:
    new = {"name": name, "epsilon": "1", "bound": 100, "settings": {"horizon": 600}}
    answer = http("admin", "POST", "/v1/streams", json=new)
    assert answer.status_code == 201, answer.text
    assert answer.json()["guarantee"].startswith("ε = 1 per event")


# What each role may do, for every route that the interface has: a new one must be put here.
ROUTES = {
    ("POST", "/v1/streams"): {"admin"},
    ("GET", "/v1/streams"): {"admin", "auditor", "reader"},
    ("GET", "/v1/streams/{name}"): {"admin", "auditor", "reader"},
    ("GET", "/v1/streams/{name}/kind"): {"producer"},
    ("POST", "/v1/streams/{name}/retire"): {"admin"},
    ("POST", "/v1/streams/{name}/epochs"): {"admin"},
    ("POST", "/v1/streams/{name}/keys"): {"admin"},
    ("GET", "/v1/streams/{name}/keys"): {"admin", "reader"},
    ("POST", "/v1/streams/{name}/advance"): {"producer"},
    ("POST", "/v1/streams/{name}/finish"): {"producer"},
    ("POST", "/v1/check"): {"admin"},
    ("POST", "/v1/plan"): {"admin", "reader"},
    ("GET", "/v1/sources/{source}"): {"admin", "auditor"},
    ("PUT", "/v1/sources/{source}"): {"admin"},
    ("GET", "/v1/audit"): {"admin", "auditor"},
    ("POST", "/v1/streams/{name}/values"): {"producer"},
    ("GET", "/v1/streams/{name}/values"): {"admin", "reader"},
    ("GET", "/v1/streams/{name}/sum"): {"admin", "reader"},
    ("GET", "/v1/streams/{name}/table"): {"admin", "reader"},
    ("GET", "/v1/streams/{name}/moving"): {"admin", "reader"},
    ("POST", "/v1/streams/{name}/query"): {"admin", "reader"},
    ("GET", "/v1/streams/{name}/live"): {"admin", "reader"},
    ("POST", "/v1/columns"): {"admin"},
    ("GET", "/v1/columns/{name}"): {"admin", "auditor", "reader"},
    ("POST", "/v1/columns/{name}/values"): {"producer"},
    ("POST", "/v1/tasks"): {"admin"},
    ("GET", "/v1/tasks"): {"admin", "auditor", "reader"},
    ("GET", "/v1/tasks/{task_id}"): {"admin", "auditor", "reader"},
    ("POST", "/v1/tasks/{task_id}/retire"): {"admin"},
    ("GET", "/v1/tasks/{task_id}/collection"): {"admin", "reader"},
    ("GET", "/v1/tasks/{task_id}/round"): {"device", "shuffler"},
    ("GET", "/v1/tasks/{task_id}/announcement"): {"device", "shuffler"},
    ("POST", "/v1/tasks/{task_id}/reports"): {"device", "shuffler"},
    ("POST", "/v1/tasks/{task_id}/batches"): {"shuffler"},
    ("GET", "/v1/ledger"): {"admin", "auditor"},
    ("GET", "/v1/session"): {*ROLES, None},
    ("POST", "/v1/tokens"): {"admin"},
    ("GET", "/v1/tokens"): {"admin"},
    ("DELETE", "/v1/tokens/{label}"): {"admin"},
}


def test_every_role_at_every_route(http: Clients) -> None:
    described = http(None, "GET", "/v1/openapi.json").json()["paths"]
    known = {(verb.upper(), path) for path, verbs in described.items() for verb in verbs}
    assert known == ROUTES.keys()
    for (verb, path), allowed in ROUTES.items():
        if path.endswith("/live"):
            continue  # answers for ever: tested by itself
        place = path.replace("{name}", "nowhere").replace("{label}", "nobody")
        place = place.replace("{task_id}", "nothing").replace("{source}", "none")
        for role in (None, *ROLES):
            status = http(role, verb, place, content=b"{}").status_code
            if role in allowed:
                assert status not in (401, 403), (verb, path, role)
            else:
                assert status == (401 if role is None else 403), (verb, path, role)
    unknown = {"Authorization": "Bearer tg_unknown"}
    assert http(None, "GET", "/v1/streams", headers=unknown).status_code == 401


def test_values_in_every_form_and_answers(http: Clients) -> None:
    pa = pytest.importorskip("pyarrow")
    create(http)
    values = np.random.default_rng(1).gamma(2, 10, 500).round(2)
    times = 1_704_067_200 + 60 * np.arange(500)
    path = "/v1/streams/meters/values"

    def push(body: bytes, kind: str) -> Any:
        return http("producer", "POST", path, content=body, headers={"Content-Type": kind})

    table = {"values": values[:200].tolist(), "times": times[:200].tolist()}
    assert push(json.dumps(table).encode(), "application/json").json()["start"] == 0
    rows = zip(values[200:400].tolist(), times[200:400].tolist(), strict=True)
    lines = "\n".join(json.dumps({"value": value, "time": time}) for value, time in rows)
    assert push(lines.encode(), "application/x-ndjson").json()["start"] == 200
    batch = pa.table({"value": values[400:], "time": times[400:]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_table(batch)
    arrow = "application/vnd.apache.arrow.stream"
    assert push(sink.getvalue().to_pybytes(), arrow).json() == {
        "start": 400, "count": 100, "repeated": False,
    }  # fmt: skip
    facts = http("reader", "GET", "/v1/streams/meters").json()
    assert (facts["taken"], facts["released"], facts["timed"], facts["zone"]) == (
        500,
        500,
        True,
        "UTC",
    )
    total = http("reader", "GET", "/v1/streams/meters/sum").json()["sum"]
    assert total["low"] < values.sum() < total["high"]
    query = {"from": "2024-01-01T01:00", "to": "2024-01-01T02:00"}
    hour = http("reader", "GET", "/v1/streams/meters/sum", params=query).json()["sum"]
    assert (hour["start"], hour["end"]) == (60, 120)
    hours = http("reader", "GET", "/v1/streams/meters/table", params={"every": "1h"}).json()
    assert hours["columns"]["rows"] == [60] * 8 + [20]
    page = http("reader", "GET", path, params={"start": 190, "limit": 20}).json()
    assert sum(len(piece["values"]) for piece in page["rows"]) == 20
    assert page["next"] == 210
    metrics = http("reader", "GET", "/metrics").text
    assert 'tidegate_released_rows_total{stream="meters"} 500.0' in metrics


WRONG: list[dict[str, Any]] = [
    {"content": f"[{SECRET}".encode()},
    {"content": f'["{SECRET}"]'.encode()},
    {"content": f'{{"values": [{SECRET}], "{SECRET}": 1}}'.encode()},
    {"content": f'{{"values": [{SECRET}], "times": []}}'.encode()},
    {"content": f'{{"value": {SECRET}, "time": "{SECRET} o\'clock"}}'.encode()},
    {"content": f'{{"values": {{"a": {SECRET}}}}}'.encode()},
    {"content": f"{SECRET}\nx".encode(), "headers": {"Content-Type": "application/x-ndjson"}},
    {
        "content": SECRET.encode(),
        "headers": {"Content-Type": "application/vnd.apache.arrow.stream"},
    },
    {"content": f"[{SECRET}]".encode(), "params": {"start": "7"}},
    {"content": f"[{SECRET}]".encode(), "params": {"start": SECRET}},
    {"content": f"[{SECRET}]".encode(), "headers": {"Idempotency-Key": "k" * 300}},
]


def test_no_answer_holds_what_was_sent(http: Clients) -> None:
    """A planted number is sent in every wrong way; no message, header or page has it."""
    create(http)
    for wrong in WRONG:
        answer = http("producer", "POST", "/v1/streams/meters/values", **wrong)
        assert 400 <= answer.status_code < 500, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert {"type", "title", "status", "detail"} <= answer.json().keys()
        assert SECRET not in answer.text + str(answer.headers)
    right = http("producer", "POST", "/v1/streams/meters/values", content=f"[{SECRET}]".encode())
    assert right.status_code == 202
    seen = "".join(
        http("admin", "GET", path).text
        for path in (
            "/v1/streams", "/v1/streams/meters", "/v1/streams/meters/values", "/v1/ledger",
            "/metrics", "/readyz", "/", "/v1/streams/meters/sum",
        )
    )  # fmt: skip
    assert SECRET not in seen


def test_too_much_is_refused_before_it_is_read(http: Clients, monkeypatch: Any) -> None:
    create(http)
    monkeypatch.setattr("tidegate.service.push_bodies.MOST_BYTES", 100)
    path = "/v1/streams/meters/values"
    assert http("producer", "POST", path, content=b"[" + b"1," * 60 + b"1]").status_code == 413
    pieces = iter([b"[" + b"1," * 30, b"1," * 30 + b"1]"])  # no length is announced
    assert http("producer", "POST", path, content=pieces).status_code == 413
    monkeypatch.setattr("tidegate.service.gate.MOST_VALUES", 1)
    answer = http("producer", "POST", path, json=[1, 2])  # however long one waits
    assert (answer.status_code, "retry-after" in answer.headers) == (422, False)
    monkeypatch.setattr("tidegate.service.gate._MOST_WAITING", 0)
    answer = http("producer", "POST", path, json=[1])
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")


def test_tokens_are_made_and_revoked(http: Clients) -> None:
    new = {"role": "reader", "label": "dashboard"}
    token = http("admin", "POST", "/v1/tokens", json=new).json()["token"]
    bearer = {"Authorization": f"Bearer {token}"}
    assert http(None, "GET", "/v1/streams", headers=bearer).status_code == 200
    listed = http("admin", "GET", "/v1/tokens").json()
    assert {"role": "reader", "label": "dashboard"}.items() <= listed[-1].items()
    assert token not in json.dumps(listed)
    # A request that comes while the change is not committed must not bring the token back.
    real = http.service.tokens.revoke

    def asked_meanwhile(label: str) -> int:
        removed = real(label)
        http.service.tokens.changed()
        assert http.service.tokens.role(token) == "reader"
        return removed

    http.service.tokens.revoke = asked_meanwhile  # type: ignore[method-assign]
    assert http("admin", "DELETE", "/v1/tokens/dashboard").json() == {"removed": 1}
    assert http(None, "GET", "/v1/streams", headers=bearer).status_code == 401
    assert (
        http("admin", "POST", "/v1/tokens", json={"role": "king", "label": "x"}).status_code == 422
    )


def test_pages_carry_headers_that_keep_others_out(http: Clients) -> None:
    page = http(None, "GET", "/")
    assert page.status_code == 200
    policy = page.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "script-src" not in policy  # so it is 'self', without inline script
    assert "<script>" not in page.text
    assert http(None, "GET", "/pages/plotly.js").status_code == 200
    for name in ("main.js", "api.js", "chart.js", "style.css", "icon.svg"):
        assert http(None, "GET", f"/pages/{name}").status_code == 200
    assert http(None, "GET", "/pages/..%2fapp.py").status_code == 404
    answer = http("producer", "POST", "/v1/streams/none/values", json=1)  # to a machine
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


def test_live_readers_resume_where_they_were(http: Clients) -> None:
    create(http)
    path = "/v1/streams/meters"
    http("producer", "POST", f"{path}/values", json=list(range(50)))
    headers = {"Authorization": f"Bearer {http.tokens['reader']}", "Last-Event-ID": "45"}
    with http.client.stream("GET", f"{path}/live", headers=headers) as live:
        lines = live.iter_lines()
        assert [next(lines), next(lines)] == ["id: 45", ""]  # where it begins, before rows come
        assert next(lines) == "id: 50"
        assert json.loads(next(lines).removeprefix("data: "))["first"] == 45
        http("producer", "POST", f"{path}/values", json=[1, 2, 3])
        rest = [line for line in (next(lines), next(lines), next(lines)) if line]
        assert rest[0] == "id: 53"
        assert json.loads(rest[1].removeprefix("data: "))["first"] == 50


def test_a_fault_is_told_without_its_words(
    http: Clients, monkeypatch: Any, caplog: Any, capfd: Any
) -> None:
    create(http)

    def broken(*_: object) -> None:
        raise ValueError(f"the value was {SECRET}")

    monkeypatch.setattr("tidegate.service.push_bodies.parsed_body", broken)
    answer = http("producer", "POST", "/v1/streams/meters/values", content=b"[1]")
    assert (answer.status_code, answer.json()["title"]) == (500, "a fault of Tidegate")
    assert "ValueError in test_http.py" in answer.json()["detail"]
    told = "".join(capfd.readouterr()) + caplog.text
    assert SECRET not in answer.text + told


def test_a_proxy_on_this_machine_is_believed_that_it_speaks_tls(http: Clients) -> None:
    plain = http("reader", "GET", "/v1/streams")
    behind = http("reader", "GET", "/v1/streams", headers={"X-Forwarded-Proto": "https"})
    assert "strict-transport-security" not in plain.headers
    assert behind.headers["strict-transport-security"].startswith("max-age=")


@pytest.mark.parametrize(
    ("client", "believed"),
    [
        (("127.0.0.1", 9), True),
        (("::1", 9), True),
        (None, True),  # a socket of the file system
        (("203.0.113.9", 9), False),
        (("fe80::1%eth0", 9), False),
        (("who knows", 9), False),
    ],
)
def test_who_else_says_https_is_not_believed(
    tmp_path: Path, client: tuple[str, int] | None, believed: bool
) -> None:
    service = Place(tmp_path / "gate", None).opened()
    transport = httpx.ASGITransport(service.app(), client=client)

    async def asked() -> Any:
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
            return await http.get("/healthz", headers={"X-Forwarded-Proto": "https"})

    found = asyncio.run(asked())
    assert (found.status_code, "strict-transport-security" in found.headers) == (200, believed)
    service.gate.close()


def test_ranges_are_of_positions_or_of_time_and_not_reversed(http: Clients) -> None:
    create(http)
    path, hours = "/v1/streams/meters", np.arange(60) + np.datetime64("2024-02-01T00")
    rows = {"values": [1] * 60, "times": [f"{hour}:00Z" for hour in hours]}
    assert http("producer", "POST", f"{path}/values", json=rows).status_code == 202
    for question in ("sum?start=0&end=2&from=2024-01-01", "sum?end=2&to=2025-01-01"):
        answer = http("reader", "GET", f"{path}/{question}")
        assert (answer.status_code, answer.json()["title"]) == (422, "the question is wrong")
        assert "not of both" in answer.json()["detail"]
    for question in ("values", "sum"):
        ends = "from=2024-03-01&to=2024-01-01"
        answer = http("reader", "GET", f"{path}/{question}?{ends}")
        assert (answer.status_code, answer.json()["detail"]) == (422, "from must not be after to")
