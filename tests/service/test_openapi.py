"""The OpenAPI document is complete, and its answers can be asked for again by their ETags."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.service.described_answers import DescribedAnswers
from tests.service.test_http import Clients, create, http  # noqa: F401  # a fixture

PROBLEM = "#/components/schemas/Problem"
WITHOUT_BODY = {"204", "304"}


def operations(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{verb} {path}", operation)
        for path, verbs in document["paths"].items()
        for verb, operation in verbs.items()
    ]


def says_something(schema: dict[str, Any], known: dict[str, Any]) -> bool:
    """Whether a schema refuses anything."""
    if "$ref" in schema:
        return says_something(known[schema["$ref"].rpartition("/")[2]], known)
    parts = [*schema.get("anyOf", []), *schema.get("oneOf", [])]
    if parts:
        return all(says_something(part, known) for part in parts)
    if schema.get("type") == "array":
        return says_something(schema["items"], known)
    if schema.get("type") == "object":
        return schema.get("additionalProperties") is False and bool(schema["required"])
    return "type" in schema


def test_every_answer_has_a_schema_and_every_problem_its_form(http: Clients) -> None:  # noqa: F811
    document = http(None, "GET", "/v1/openapi.json").json()
    known = document["components"]["schemas"]
    assert "HTTPValidationError" not in known
    for place, operation in operations(document):
        answers = operation["responses"]
        good = {status: one for status, one in answers.items() if status < "400"}
        assert any(status < "300" for status in good), place
        for status, one in good.items():
            assert ("content" in one) == (status not in WITHOUT_BODY), (place, status)
            for kind, content in one.get("content", {}).items():
                assert says_something(content["schema"], known), (place, status, kind)
        problems = answers.keys() - good.keys()
        assert {"400", "401", "403", "409", "422", "429", "500", "503"} <= problems, place
        assert ("404" in problems) == ("{" in place), place
        assert ({"408", "413"} <= problems) == ("requestBody" in operation), place
        for status in problems:
            content = answers[status]["content"]
            assert content == {"application/problem+json": {"schema": {"$ref": PROBLEM}}}, place


def test_an_answer_that_is_not_described_is_noticed(http: Clients) -> None:  # noqa: F811
    described = DescribedAnswers(http(None, "GET", "/v1/openapi.json").json())

    def answered(body: Any, status: int = 200, tag: str = '"a"') -> httpx.Response:
        request = httpx.Request("GET", "http://gate/v1/ledger")
        return httpx.Response(status, json=body, headers={"ETag": tag}, request=request)

    right = {"entries": 1, "head": "h", "cap": None, "caps": {}, "sources": {}, "left": {}}
    described.check(answered(right))
    for wrong in (
        answered({**right, "more": 1}),
        answered({**right, "entries": "1"}),
        answered({name: right[name] for name in right if name != "head"}),
        answered(right, status=418),
        httpx.Response(200, json=right, request=answered(right).request),  # without its ETag
    ):
        with pytest.raises(AssertionError):
            described.check(wrong)


def test_what_has_not_changed_is_not_sent_again(http: Clients) -> None:  # noqa: F811
    create(http)
    task = {"name": "steps", "epsilon": "1", "bound": 100, "settings": {"threshold": 20}}
    task_id = http("admin", "POST", "/v1/tasks", json=task).json()["task_id"]
    columns = {"fare": {"bound": 100}, "tip": {"bound": 30}}
    new = {"name": "trips", "epsilon": "1", "columns": columns}
    assert http("admin", "POST", "/v1/columns", json=new).status_code == 201

    def push(count: int) -> None:
        rows = {"values": [10.0] * count}
        assert http("producer", "POST", f"{stream}/values", json=rows).status_code == 202

    stream = "/v1/streams/meters"
    push(300)
    asked = {  # and whether 100 more rows of the stream change the answer
        "/v1/streams": False,
        stream: True,
        f"{stream}/keys": False,
        f"{stream}/values": True,
        f"{stream}/values?start=20&limit=200": False,  # a full page
        f"{stream}/values?start=250&limit=200": True,
        f"{stream}/sum": True,
        f"{stream}/moving?over=100": True,
        f"{stream}/table?every=100": True,
        "/v1/columns/trips": False,
        "/v1/ledger": False,  # the budget of a stream is charged when it begins
        "/v1/audit": False,
        "/v1/sources/meters": False,
        "/v1/tasks": False,
        f"/v1/tasks/{task_id}": False,
        f"/v1/tasks/{task_id}/collection": False,
    }
    document = http(None, "GET", "/v1/openapi.json").json()
    tagged = {place for place, one in operations(document) if "304" in one["responses"]}
    devices = {"get /v1/tasks/{task_id}/round", "get /v1/tasks/{task_id}/announcement"}
    untagged = {"/v1/session", "/v1/tokens", "/v1/streams/{name}/live", "/v1/streams/{name}/kind"}
    gets = {place for place, _ in operations(document) if place.startswith("get ")}
    assert gets - tagged == {f"get {path}" for path in untagged}
    assert len({path.partition("?")[0] for path in asked}) == len(tagged - devices)

    tags = {}
    for path in asked:
        first = http("admin", "GET", path)
        assert first.status_code == 200, path
        assert first.headers["cache-control"] == "private, no-cache", path
        tag = tags[path] = first.headers["etag"]
        for known in (tag, f'"other", {tag}', f"W/{tag}", "*"):
            again = http("admin", "GET", path, headers={"If-None-Match": known})
            assert (again.status_code, again.content) == (304, b""), (path, known)
            assert again.headers["etag"] == tag
        other = http("admin", "GET", path, headers={"If-None-Match": '"other"'})
        assert (other.status_code, other.content) == (200, first.content), path
    push(100)
    for path, changes in asked.items():
        later = http("admin", "GET", path, headers={"If-None-Match": tags[path]})
        assert later.status_code == (200 if changes else 304), path
    http("admin", "PUT", "/v1/sources/meters", json={"cap": "3"})
    for path in ("/v1/ledger", "/v1/audit", "/v1/sources/meters"):
        later = http("admin", "GET", path, headers={"If-None-Match": tags[path]})
        assert later.status_code == 200, path
    http("admin", "POST", f"{stream}/retire")
    later = http("admin", "GET", "/v1/streams", headers={"If-None-Match": tags["/v1/streams"]})
    assert later.status_code == 200


def test_head_is_get_without_its_body(http: Clients) -> None:  # noqa: F811
    create(http)
    http("producer", "POST", "/v1/streams/meters/values", json={"values": [10.0] * 200})
    for path in ("/v1/streams", "/v1/streams/meters/values", "/v1/ledger", "/healthz", "/"):
        whole, head = (http("admin", verb, path) for verb in ("GET", "HEAD"))
        assert (head.status_code, head.content) == (200, b""), path
        for name in ("content-length", "content-type", "cache-control"):
            assert head.headers[name] == whole.headers[name], (path, name)
        assert head.headers.get("etag") == whole.headers.get("etag")
    assert http("producer", "HEAD", "/v1/ledger").status_code == 403
    for path in ("/v1/streams/meters/live", "/v1/tasks/a/announcement"):
        assert http("admin", "HEAD", path).status_code == 405


def test_json_and_arrow_pages_have_tags_of_their_own(http: Clients) -> None:  # noqa: F811
    create(http)
    path, arrow = "/v1/streams/meters/values", "application/vnd.apache.arrow.stream"
    http("producer", "POST", path, json={"values": [10.0] * 200})
    plain = http("reader", "GET", path)
    packed = http("reader", "GET", path, headers={"Accept": arrow})
    assert packed.headers["content-type"] == arrow
    assert plain.headers["etag"] != packed.headers["etag"]
