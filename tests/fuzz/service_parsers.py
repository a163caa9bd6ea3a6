"""Targets: what a service and its client read. None where the extra [service] is missing."""

from __future__ import annotations

import asyncio
import atexit
import io
import json
import random
import tempfile
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from tests.entropy import beginning_with
from tests.fuzz.event_parsers import TIMES, ZONES
from tests.fuzz.mutation import atom, mutated, number_text, refused, scrambled

_FOLDER = tempfile.TemporaryDirectory(prefix="tidegate-fuzz-")
_ROLES = ("producer", "reader", "auditor", "admin")


def _body(rng: random.Random) -> tuple[bytes, str]:
    from tidegate.service import push_bodies

    kind = rng.choice(["application/json", "application/x-ndjson", push_bodies.ARROW])
    rows = [rng.choice([1, 2.5, None, "x", True, 10**30, atom(rng)]) for _ in range(3)]
    if kind == push_bodies.ARROW:
        with io.BytesIO() as out:
            table = rng.choice(_arrow_tables())
            with pa.ipc.new_stream(out, table.schema) as stream:
                stream.write_table(table)
            data = out.getvalue()
    else:
        tree: Any = rng.choice([rows, {"values": rows, "times": TIMES[:3]}, {"value": rows[0]}])
        try:
            if kind == "application/json":
                data = json.dumps(mutated(rng, tree)).encode()
            else:
                data = b"\n".join(json.dumps({"value": row, "time": 5}).encode() for row in rows)
        except (RecursionError, ValueError):
            data = b"[" * 50_000
    return (scrambled(rng, data) if rng.random() < 0.6 else data), kind


@cache
def _arrow_tables() -> tuple[pa.Table, ...]:
    dictionary = pa.array(["Zq7secret", "2"]).dictionary_encode()
    return (
        pa.table({"value": [1.5, None, 3.0]}),
        pa.table({"value": [1, 2], "time": pa.array([1, 2], pa.timestamp("ns", "UTC"))}),
        pa.table({"value": ["Zq7secret", "2"]}),
        pa.table({"value": dictionary}),
        pa.table({"value": pa.nulls(1000)}),
        pa.table({"value": [[1.0], [2.0]]}),
        pa.table({"value": pa.RunEndEncodedArray.from_arrays([1 << 20], [1.0])}),
    )


def service_body(rng: random.Random) -> None:
    """The body of a request: values, or an error that quotes nothing."""
    from tidegate.service.push_bodies import parsed_body

    body, kind = _body(rng)
    try:
        with refused():
            assert parsed_body(body, kind, rng.choice(ZONES)).values.dtype == np.float64
    except BaseException as error:
        error.add_note(f"{kind}: {body[:80]!r}")
        raise


class Direct:
    """Calls an app without a socket between."""

    def __init__(self, app: Any) -> None:
        import httpx

        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(app.router.lifespan_context(app).__aenter__())
        transport = httpx.ASGITransport(app)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://gate")

    def request(self, *given: Any, **more: Any) -> Any:
        """The answer to one request."""
        return self._loop.run_until_complete(self._client.request(*given, **more))

    def get(self, path: str, **more: Any) -> Any:
        """GET."""
        return self.request("GET", path, **more)

    def post(self, path: str, **more: Any) -> Any:
        """POST."""
        return self.request("POST", path, **more)


@cache
def service() -> tuple[Any, dict[str, str]]:
    """A client of a service with one stream, called directly, and a token of each role."""
    from tidegate.service.service_process import Service

    with beginning_with("fuzz, service"):
        opened = Service.opened(Path(_FOLDER.name) / "service", None, b"k" * 32, None)
        tokens = {
            role: opened.gate.call(lambda role=role: opened.tokens.make(role, role)).result()
            for role in _ROLES
        }
    opened.tokens.changed()
    client = Direct(opened.app())
    atexit.register(opened.gate.close)
    headers = {"authorization": f"Bearer {tokens['admin']}"}
    new = {"name": "meters", "epsilon": "1", "bound": "50", "settings": {"horizon": 64}}
    assert client.post("/v1/streams", json=new, headers=headers).status_code == 201
    headers = {"authorization": f"Bearer {tokens['producer']}"}
    values = {"values": [1] * 200, "times": [1706745600 + 60 * at for at in range(200)]}
    assert client.post("/v1/streams/meters/values", json=values, headers=headers).is_success
    return client, tokens


def _word(rng: random.Random) -> str:
    words = ["0", "3", "1d", "2h", "0.9", "²", "9" * 30, "9" * 5000, "-1", "2024-02-01", "nan", ""]
    return rng.choice([*words, number_text(rng)])


def service_request(rng: random.Random) -> None:
    """Any request: an answer or a problem, never a fault of the service."""
    client, tokens = service()
    name = rng.choice(["meters", "meters", "meters", "no", quote(_word(rng), safe="")])
    asked = {
        field: _word(rng)
        for field in ("start", "end", "limit", "from", "to", "every", "confidence", "zone")
        if rng.random() < 0.3
    }
    headers = {}
    if rng.random() < 0.95:
        token = tokens[rng.choice(_ROLES)] if rng.random() < 0.95 else _word(rng)
        headers["authorization"] = f"Bearer {token}"
    for field in ("idempotency-key", "last-event-id", "content-length"):
        if rng.random() < 0.1 and field != "content-length":
            headers[field] = _word(rng)
    headers = {field: text.encode("utf-8") for field, text in headers.items()}
    kind = rng.randrange(5)
    if kind == 0:
        body, media = _body(rng)
        headers["content-type"] = media.encode()
        path = f"/v1/streams/{name}/values"
        answer = client.post(path, content=body, params=asked, headers=headers)
    elif kind == 1:
        tree = {"start": [0], "end": [3], "confidence": 0.9, "from": "2024-02-01", "every": "1h"}
        answer = _posted(rng, f"/v1/streams/{name}/query", tree, headers)
    elif kind == 2:
        tree = {"name": _word(rng), "epsilon": "1", "bound": 5, "method": "tops",
                "settings": {"horizon": 64, "holdout": 4}}  # fmt: skip
        answer = _posted(rng, "/v1/streams", tree, headers)
    else:
        route = rng.choice(["", "/values", "/sum", "/table", "/sum", "/table"])
        answer = client.get(f"/v1/streams/{name}{route}", params=asked, headers=headers)
    assert answer.status_code < 500, (answer.status_code, answer.text[:300])
    assert answer.is_success or len(answer.text) < 2000


def _posted(rng: random.Random, path: str, tree: Any, headers: dict[str, Any]) -> Any:
    client, _ = service()
    try:
        data = json.dumps(mutated(rng, tree)).encode("utf-8", "replace")
    except (RecursionError, ValueError):
        data = b"[" * 50_000
    if rng.random() < 0.3:
        data = scrambled(rng, data)
    return client.post(path, content=data, headers={**headers, "content-type": b"application/json"})


def service_rows(rng: random.Random) -> None:
    """Released rows as the database keeps them."""
    from tidegate.service.released_rows import (
        RowBlock,
        packed_released_rows,
        unpacked_released_rows,
    )

    numbers, whole = np.arange(3.0), np.arange(3)
    more = rng.choice([(), (whole,), (None, whole, whole), (whole, whole, whole)])
    body, first, end = packed_released_rows(RowBlock(5, numbers, numbers, *more)), 5, 8
    if rng.random() < 0.7:
        body = scrambled(rng, body)
    if rng.random() < 0.3:
        first, end = rng.choice([-1, 0, 5, 2**62]), rng.choice([-1, 8, 9, 2**62])
    with refused():
        found = unpacked_released_rows(first, end, body)
        assert found.values.size == found.levels.size == end - first


_ALL: dict[str, Callable[[random.Random], None]] = {
    "service-body": service_body,
    "service-request": service_request,
    "service-rows": service_rows,
}
TARGETS = _ALL if find_spec("fastapi") and find_spec("httpx") else {}
