"""Requests that ask for too much, or say what nobody understands: refused, and not repeated."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from tests.fuzz.service_parsers import service
from tidegate.durable import StorageError
from tidegate.errors import InputError
from tidegate.service.arrow_bodies import MOST_ROWS
from tidegate.service.devices.task_routes import NewTask
from tidegate.service.problem_details import RefusedRequest
from tidegate.service.push_bodies import (
    ARROW,
    MEDIA_TYPES,
    MOST_BYTES,
    parsed_body,
)
from tidegate.service.push_route import push_idempotency_key, push_media_type
from tidegate.service.released_rows import unpacked_released_rows
from tidegate.service.stream_creation import NewStream

SECRET = "Zq7secret"


def stream(table: pa.Table, **options: Any) -> bytes:
    """A table as an Arrow stream."""
    out = io.BytesIO()
    written = pa.ipc.IpcWriteOptions(**options)
    with pa.ipc.new_stream(out, table.schema, options=written) as one:
        one.write_table(table)
    return out.getvalue()


@pytest.mark.parametrize("packing", [None, "lz4", "zstd"])
def test_arrow_bodies_are_read(packing: str | None) -> None:
    times = pa.array(range(3), pa.timestamp("ns", "UTC"))
    for values in ([1.5, None, 3.0], [1, None, 3]):
        table = pa.table({"value": values, "time": times})
        found, read, *_ = parsed_body(stream(table, compression=packing), ARROW, None)
        assert str(found.tolist()) == str([float(values[0]), float("nan"), 3.0])
        assert read is not None
    again = pa.table({"value": pa.array([2, 7, 2]).dictionary_encode()})
    assert parsed_body(stream(again, compression=packing), ARROW, None)[0].tolist() == [2, 7, 2]


def test_a_few_bytes_of_arrow_do_not_become_gigabytes() -> None:
    """Columns of nulls, runs, and packed zeros: their size is known before they are made."""
    count = MOST_ROWS + 1
    packed = {str(number): np.zeros(1 << 20) for number in range(70)}
    for body in (
        stream(pa.table({"value": pa.nulls(count)})),
        stream(pa.table({"value": pa.RunEndEncodedArray.from_arrays([count], [1.0])})),
        stream(pa.table({"value": np.zeros(1 << 20), **packed}), compression="zstd"),
    ):
        assert len(body) < 100_000
        with pytest.raises(InputError, match="send it in parts"):
            parsed_body(body, ARROW, None)


def test_names_and_texts_that_are_no_utf_8_are_refused() -> None:
    """Bytes in their places, such as any client can send: found by fuzzing."""
    times = pa.array([0], pa.timestamp("ns", "Europe/Berlin"))
    table = pa.table({"value": [1.5], "time": times, "key": ["north"]})
    body = stream(table)
    for word in (b"value", b"time", b"key", b"Europe/Berlin", b"north"):
        wrong = body.replace(word, b"\xf0" + word[1:])
        assert wrong != body
        with pytest.raises(InputError) as caught:
            parsed_body(wrong, ARROW, None)
        assert "\\x" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__


def test_what_is_no_table_of_numbers_is_not_quoted() -> None:
    for table in (
        pa.table({"value": [SECRET]}),
        pa.table({"value": pa.array([SECRET]).dictionary_encode()}),
        pa.table({SECRET: [1.0]}),
    ):
        for body in (stream(table), stream(table)[:-30], SECRET.encode()):
            with pytest.raises(InputError) as caught:
                parsed_body(body, ARROW, None)
            assert SECRET not in str(caught.value)


def test_times_are_a_list_and_every_row_has_one_or_none_has() -> None:
    for times in (5, 1e-300, {"a": 1}, "2024-02-01"):
        with pytest.raises(InputError, match=r"send a number|a list"):
            parsed_body(
                json.dumps({"values": [1], "times": times}).encode(), "application/json", None
            )
    lines = b'{"value":1}\n{"value":2,"time":1706745600}\n'
    with pytest.raises(InputError, match="time at position 0 is missing"):
        parsed_body(lines, "application/x-ndjson", None)


def test_damaged_rows_of_the_database_are_an_error_of_ours() -> None:
    for first, end, body in ((0, 3, b"12345"), (0, 2**62, b""), (5, 3, b""), (0, 1, b"1" * 20)):
        with pytest.raises(StorageError, match="damaged"):
            unpacked_released_rows(first, end, body)


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("meters/table", {"every": "²"}),
        ("meters/table", {"every": "9" * 5000}),
        ("meters/values", {"start": str(2**70)}),
        ("meters/values", {"start": "-1"}),
        ("9" * 5000, {}),
    ],
    ids=["superscript", "digits", "beyond 64 bits", "negative", "name"],
)
def test_questions_that_nobody_can_answer(path: str, asked: dict[str, str]) -> None:
    client, tokens = service()
    headers = {"authorization": f"Bearer {tokens['reader']}"}
    answer = client.get(f"/v1/streams/{path}", params=asked, headers=headers)
    assert answer.status_code in (404, 422)
    assert len(answer.text) < 400


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"settings": {"epsilon": "2"}}, "settings"),
        ({"method": "topl"}, "local model"),
        ({"settings": {"nonsense": 1}}, "nonsense"),
        ({SECRET: 1}, "an unknown field"),
        ({f"{SECRET}{number}": 1 for number in range(500)}, "an unknown field"),
    ],
    ids=["twice", "local", "unknown setting", "unknown field", "many of them"],
)
def test_streams_that_nobody_can_make(changed: dict[str, Any], named: str) -> None:
    client, tokens = service()
    headers = {"authorization": f"Bearer {tokens['admin']}"}
    new = {"name": "other", "epsilon": "1", "bound": 5, "method": "tops", **changed}
    answer = client.post("/v1/streams", json=new, headers=headers)
    assert answer.status_code == 422
    assert named in answer.text
    assert SECRET not in answer.text
    assert len(answer.text) < 400


def test_a_wrong_request_says_what_is_wrong_where() -> None:
    client, tokens = service()
    headers = {"authorization": f"Bearer {tokens['admin']}", "content-type": "application/json"}
    for body, said in (
        (
            '{"name": "other", "eps": "1", "bound": 5}',
            "body has an unknown field; body.epsilon is missing",
        ),
        ('{"name": 7, "epsilon": "1", "bound": 5}', "body.name is wrong"),
        ('{name: "other"}', "the body is not JSON, at character 1"),
    ):
        answer = client.post("/v1/streams", content=body, headers=headers)
        assert (answer.status_code, answer.json()["detail"]) == (422, said)


@pytest.mark.parametrize(
    ("role", "path", "status", "most"),
    [
        ("", "/v1/streams", 401, 1 << 16),
        ("", "/v1/streams/meters/query", 401, 1 << 16),
        ("", "/v1/streams/meters/values", 401, 0),
        ("reader", "/v1/streams/meters/query", 413, MOST_BYTES),
        ("producer", "/v1/streams/meters/values", 413, MOST_BYTES),
    ],
)
def test_a_body_of_unknown_length_is_read_no_further_than_it_may_be_long(
    role: str, path: str, status: int, most: int
) -> None:
    """In pieces, without Content-Length: anyone could fill the memory, as the framework keeps all.

    Whoever has no token is known only when it has read the body.
    """
    client, tokens = service()
    piece, taken = b" " * (1 << 20), 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        while taken <= most + len(piece):
            taken += len(piece)
            yield piece
        raise AssertionError("more was read than may be sent")

    headers = {"content-type": "application/json"}
    if role:
        headers["authorization"] = f"Bearer {tokens[role]}"
    answer = client.post(path, content=endless(), headers=headers)
    assert answer.status_code == status
    assert taken <= most + len(piece)
    assert len(answer.text) < 400


def test_every_line_of_json_lines_is_checked_for_unknown_fields() -> None:
    body = b'{"value": 1}\n{"vaule": 2}\n'
    with pytest.raises(InputError, match=r"^line 2 has an unknown field"):
        parsed_body(body, "application/x-ndjson", None)
    missing = parsed_body(b'{"value": 1}\n{"value": null}\n', "application/x-ndjson", None)
    assert str(missing.values.tolist()) == "[1.0, nan]"


@pytest.mark.parametrize(
    "kind", ["text/csv", "text/plain", "multipart/form-data", "application/vnd.apache.arrow.file"]
)
def test_a_body_of_another_kind_is_refused(kind: str) -> None:
    with pytest.raises(RefusedRequest) as caught:
        push_media_type(kind.encode(), MEDIA_TYPES)
    assert caught.value.status_code == 415
    assert kind not in caught.value.detail


def test_kinds_of_bodies_are_known_by_their_names() -> None:
    for header in (None, b"", b"application/json", b"APPLICATION/JSON ; charset=utf-8"):
        assert push_media_type(header, MEDIA_TYPES) == "application/json"
    assert push_media_type(b"application/jsonl", MEDIA_TYPES) == "application/jsonl"


def test_blanks_around_an_idempotency_key_do_not_count() -> None:
    assert push_idempotency_key(b" first\t") == push_idempotency_key(b"first") == "first"
    with pytest.raises(RefusedRequest):
        push_idempotency_key(b"  ")


def test_true_is_no_budget() -> None:
    for model, more in ((NewStream, {"bound": 10}), (NewTask, {"bound": 10, "rounds": 3})):
        with pytest.raises(ValidationError):
            model.model_validate({"name": "meters", "epsilon": True, **more})
    assert NewStream(name="meters", epsilon=1, bound=10).epsilon == 1
