"""Names, addresses and fields that no client of ours sends: refused by what they are, for all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.conftest import PLAIN, Place, PostgresServer, served
from tests.service.test_http import ROLES, Clients, create, http
from tidegate.errors import InputError, SettingError
from tidegate.service.gate import MOST_VALUES
from tidegate.service.push_bodies import JSON, parsed_body, parsed_body_of_columns
from tidegate.service.service_process import Service

httpx = pytest.importorskip("httpx", reason="tests of the service need the extra [test]")

__all__ = ["http"]
LINES = "application/x-ndjson"
VALUES = "/v1/streams/meters/values"


@pytest.fixture
def everywhere(place: Place) -> Iterator[Clients]:
    """As `http`, on either database."""
    service: Service = place.opened()
    made = {role: service.make_token(role, role) for role in ROLES}
    with (
        served(service) as address,
        httpx.Client(base_url=address, timeout=240, verify=PLAIN) as client,
    ):
        yield Clients(client, made, service)


def test_a_zero_byte_in_an_address_harms_nobody(everywhere: Clients) -> None:
    """PostgreSQL takes none: one device's request failed for all that were in its group."""
    create(everywhere)
    asked = [
        ("device", "GET", "/v1/tasks/%00/round"),
        ("device", "GET", "/v1/tasks/%00/announcement?round=a&client=b"),
        ("device", "POST", "/v1/tasks/%00/reports"),
        ("reader", "GET", "/v1/tasks/%00"),
        ("reader", "GET", "/v1/streams/meters/values?from=%00"),
        ("admin", "DELETE", "/v1/tokens/%00"),
        ("admin", "PUT", "/v1/sources/%00"),
    ]
    for role, method, path in asked:
        assert everywhere(role, method, path).status_code == 400, path
    for name, new in (
        ("streams", {"name": "n1", "epsilon": "1", "bound": 1, "source": "a\0b"}),
        ("streams", {"name": "n2", "epsilon": "1", "bound": 1, "part": "a\0b"}),
        ("streams", {"name": "n3", "epsilon": "1", "bound": 1, "keys": ["a\0b"]}),
        ("columns", {"name": "n4", "epsilon": "1", "columns": {"a": {"bound": 1}}, "part": "\0"}),
        ("tokens", {"role": "reader", "label": "a\0b"}),
        ("tasks", {"name": "t1", "epsilon": "1", "bound": 1, "zone": "a\0b"}),
    ):
        answer = everywhere("admin", "POST", f"/v1/{name}", json=new)
        assert answer.status_code == 422, (name, new, answer.text)
    assert everywhere("reader", "GET", "/readyz").text == "ok"
    assert everywhere("producer", "POST", VALUES, json=[1, 2]).status_code == 202


@pytest.mark.parametrize("epoch", ["²", "①", "0", "99"])
def test_an_epoch_that_is_no_number_is_not_there(http: Clients, epoch: str) -> None:
    create(http)
    for method, path in (("GET", f"/v1/streams/meters@{epoch}"), ("POST", f"{VALUES}")):
        role = "reader" if method == "GET" else "producer"
        answer = http(role, method, path.replace("meters/", f"meters@{epoch}/"), json=1)
        assert answer.status_code == 404, answer.text


def test_labels_and_sources_may_have_slashes(http: Clients) -> None:
    made = http("admin", "POST", "/v1/tokens", json={"role": "reader", "label": "lab/north"})
    assert made.status_code == 201
    assert http("admin", "DELETE", "/v1/tokens/lab%2Fnorth").json() == {"removed": 1}
    new = {"name": "m", "epsilon": "1", "bound": 9, "source": "lab/north"}
    assert http("admin", "POST", "/v1/streams", json=new).status_code == 201
    assert http("admin", "PUT", "/v1/sources/lab%2Fnorth", json={"cap": "3"}).status_code == 200
    assert http("producer", "POST", "/v1/streams/m/values", json=[1] * 200).status_code == 202
    assert http("auditor", "GET", "/v1/sources/lab%2Fnorth").json()["cap"] == "3"


def test_more_values_than_may_ever_wait_are_refused_for_good(http: Clients) -> None:
    """An answer of 429 would be tried again for ever."""
    create(http)
    body = b"[" + b"1," * MOST_VALUES + b"1]"
    answer = http("producer", "POST", VALUES, content=body, headers={"Content-Type": JSON})
    assert answer.status_code == 422
    assert "send them in parts" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"values": [1, 2], "values": [3]}', JSON),
        (b'{"value": 1, "value": 1}', JSON),
        (b'{"values": [1], "times": ["2024-01-01"], "times": ["2024-01-02"]}', JSON),
        (b'{"values":[1],"\\u0076alues":[2]}', JSON),
        (b'{"value":1}\n{"value":2,"value":3}', LINES),
        (b'{"value":1,"key":"value"}\n{"value":2,"key":"a","key":"b"}', LINES),
    ],
)
def test_a_field_that_comes_twice_is_refused(body: bytes, kind: str) -> None:
    """The last one counted, in silence; another reader may take the first."""
    with pytest.raises(InputError, match="twice"):
        parsed_body(body, kind, None)


def test_a_field_name_among_texts_is_no_second_field() -> None:
    for body, kind in (
        (b'{"values": [1, 2],\n "keys": ["values", "keys"]}', JSON),
        (b'{"value": 1, "key": "a\\"b"}', JSON),
        (b'{"value":1,"key":"value"}\n{"value":2,"key":"key"}', LINES),
        (b'{"value":1,"key":"a"}\n{"value":2}', LINES),
        (b'{"values":[' + b"9" * 300 + b'],"keys":["values"]}', JSON),
    ):
        assert parsed_body(body, kind, None).values.size
    found, _ = parsed_body_of_columns(b'{"columns":{"a":[1]},"times":["2024-01-01"]}', JSON, None)
    assert found["a"].tolist() == [1]
    for twice in (b'{"columns":{"a":[1],"a":[2]}}', b'{"columns":{"a":[1]},"columns":{"a":[2]}}'):
        with pytest.raises(InputError, match="twice"):
            parsed_body_of_columns(twice, JSON, None)


def test_settings_that_come_twice_are_refused(http: Clients) -> None:
    """ε is what the last field said; who had read the first agreed to another one."""
    create(http)
    kind = {"Content-Type": JSON}
    asked: list[tuple[str, str, bytes]] = [
        ("admin", "/v1/streams", b'{"name":"x","epsilon":"0.1","epsilon":"10","bound":1}'),
        ("admin", "/v1/check", b'{"name":"x","epsilon":"1","bound":1,"settings":{"a":1,"a":2}}'),
        ("reader", "/v1/plan", b'{"epsilon":"0.1","epsilon":"10","bound":1}'),
        ("reader", "/v1/streams/meters/query", b'{"confidence":0.9,"confidence":0.99}'),
        ("admin", "/v1/tokens", b'{"role":"reader","label":"a","role":"admin"}'),
        ("admin", "/v1/tasks", b'{"name":"x","epsilon":"1","bound":1,"bound":2}'),
        ("shuffler", "/v1/tasks/x/batches", b'{"round":"a","slots":[],"slots":[0],"reports":[]}'),
    ]
    for role, path, body in asked:
        more = {**kind, "Idempotency-Key": "k"} if path.endswith("batches") else kind
        answer = http(role, "POST", path, content=body, headers=more)
        assert answer.status_code == 422, (path, answer.text)
    assert json.loads(http("admin", "GET", "/v1/tokens").text)
    assert [one["name"] for one in http("admin", "GET", "/v1/streams").json()] == ["meters"]


def test_what_a_stream_took_is_known_after_it_was_retired(http: Clients) -> None:
    """The answer was lost on its way; meanwhile an admin retired the stream."""
    create(http)
    new = {"name": "trips", "epsilon": "1", "columns": {"a": {"bound": 9}, "b": {"bound": 9}}}
    assert http("admin", "POST", "/v1/columns", json=new).status_code == 201

    def send(value: int, key: str = "k") -> list[int]:
        headers = {"Idempotency-Key": key}
        rows: dict[str, Any] = {"columns": {"a": [value], "b": [value]}}
        answers = [
            http("producer", "POST", VALUES, json=[value], headers=headers),
            http("producer", "POST", "/v1/columns/trips/values", json=rows, headers=headers),
        ]
        return [answer.status_code for answer in answers]

    assert send(7) == [202, 202]
    for name in ("meters", "trips.a", "trips.b"):
        assert http("admin", "POST", f"/v1/streams/{name}/retire").status_code == 200
    assert send(7) == [200, 202]  # rows with columns say `repeated` in each receipt
    assert send(8) == [409, 409]
    assert send(7, "other") == [409, 409]
    again = http("producer", "POST", VALUES, json=[7], headers={"Idempotency-Key": "other"})
    assert "retired" in again.json()["detail"]


def test_a_label_is_readable(http: Clients) -> None:
    with pytest.raises(SettingError, match="label"):
        http.service.make_token("reader", "two\nlines")


def test_shufflers_have_keys_of_their_own(http: Clients) -> None:
    """A key told one shuffler that another one had used it, as with producers before 0123."""
    new = {"name": "steps", "epsilon": "1", "bound": 9, "shuffled": True}
    task = http("admin", "POST", "/v1/tasks", json=new).json()["task_id"]
    http.tokens["second"] = http.service.make_token("shuffler", "second")
    assert http("second", "GET", "/v1/session").json()["role"] == "shuffler"

    def send(who: str, report: int) -> int:
        body = {"round": f"{task}.1", "slots": [0], "reports": [report]}
        headers = {"Idempotency-Key": "k"}
        path = f"/v1/tasks/{task}/batches"
        return int(http(who, "POST", path, json=body, headers=headers).status_code)

    assert send("shuffler", 1) == 200
    assert send("second", 2) == 200
    assert send("shuffler", 2) == 409


def test_a_database_that_is_gone_with_the_tokens_is_503(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    """Tokens are read again after a change; who asked then got 500."""
    service = Place(tmp_path / "gate", postgres_server.new_database()).opened()
    known = {"Authorization": f"Bearer {service.make_token('reader', 'r')}"}
    with served(service) as address:
        service.tokens.changed()
        postgres_server.stop()
        try:
            asked = f"{address}/v1/streams"
            answer = httpx.get(asked, headers=known, timeout=240, verify=PLAIN)
        finally:
            postgres_server.start()
        assert answer.status_code == 503, answer.text
        assert httpx.get(asked, headers=known, timeout=240, verify=PLAIN).status_code == 200
    service.gate.close()
