"""Streams over HTTP: created, fed, read, asked, followed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from tidegate import methods
from tidegate.durable import DurableRelease
from tidegate.errors import SettingError
from tidegate.run.pipeline import Pipeline
from tidegate.service import ingest
from tidegate.service.access import Access
from tidegate.service.answers import described, sums, table
from tidegate.service.gate import Gate
from tidegate.service.live import Live, as_json
from tidegate.service.pending import Pending
from tidegate.service.released_rows import between
from tidegate.service.streams import Stream

_MOST_ROWS = 100_000  # in an answer
_DIGITS = 18  # of a position
_SMALL = 1 << 16  # bytes of a body that is parsed at once
Position = Annotated[int, Query(ge=0, lt=1 << 60)]  # what every database can count


class NewStream(BaseModel):
    """A stream to create: a method of `tidegate methods`, and its settings."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(examples=["meters"])
    method: str = "adaptive"
    epsilon: str | float = Field(
        examples=["0.5"], description="A decimal or a fraction; as text it is exact."
    )
    bound: str | float = Field(examples=["100"], description="A public upper bound of a value.")
    source: str | None = Field(None, description="Streams of one source add up in the ledger.")
    settings: dict[str, Any] = Field(
        default_factory=dict, description="Further settings of the method."
    )

    def pipeline(self) -> Pipeline:
        """The pipeline of these settings."""
        if self.method not in methods.names():
            raise SettingError("method", f"must be one of {', '.join(methods.names())}")
        for name in ("epsilon", "bound"):
            if name in self.settings:
                raise SettingError(name, "is given twice: beside the settings, and among them")
        made = methods.find(self.method).preset(self.epsilon, self.bound, **self.settings)
        if not isinstance(made, Pipeline):
            raise SettingError("method", f"{self.method} is of the local model")
        return made


def stream_routes(gate: Gate, live: Live, access: Access) -> APIRouter:
    """The routes under `/v1/streams`."""
    routes = APIRouter(prefix="/v1/streams")
    read, write = [access.allowed("read")], [access.allowed("write")]
    manage = [access.allowed("manage")]

    async def asked(name: str, question: Callable[[DurableRelease], Any]) -> Any:
        return await asyncio.to_thread(gate.ask, name, question)

    # -- streams ---------------------------------------------------------------------------------

    @routes.post("", status_code=201, dependencies=manage)
    async def create(new: NewStream) -> dict[str, Any]:
        pipeline = await asyncio.to_thread(new.pipeline)
        made = gate.call(lambda: gate.streams.create(new.name, pipeline, new.source))
        return shown(await asyncio.wrap_future(made))

    @routes.get("", dependencies=read)
    async def listed() -> list[dict[str, Any]]:
        return [shown(stream) for stream in await asyncio.to_thread(gate.streams.listed)]

    @routes.get("/{name}", dependencies=read)
    async def one(name: str) -> dict[str, Any]:
        facts: dict[str, Any] = await asked(name, described)
        return facts

    @routes.post("/{name}/retire", dependencies=manage)
    async def retire(name: str) -> dict[str, Any]:
        done = gate.call(lambda: gate.streams.retire(name))
        return shown(await asyncio.wrap_future(done))

    # -- values ----------------------------------------------------------------------------------

    @routes.post(
        "/{name}/values",
        status_code=202,
        dependencies=write,
        openapi_extra=_INGEST,
    )
    async def push(
        request: Request, name: str, start: Position | None = None, zone: str | None = None
    ) -> JSONResponse:
        if int(request.headers.get("content-length") or 0) > ingest.MOST_BYTES:
            raise HTTPException(413, f"at most {ingest.MOST_BYTES >> 20} MiB in one request")
        body = await _body(request)
        kind = request.headers.get("content-type", "application/json")
        if len(body) > _SMALL:
            values, times = await asyncio.to_thread(ingest.parsed, body, kind, zone)
        else:
            values, times = ingest.parsed(body, kind, zone)
        key = request.headers.get("idempotency-key")
        if key is not None and not 0 < len(key) <= 200:
            raise HTTPException(400, "Idempotency-Key must have 1 to 200 characters")
        pending = Pending(name, values, times, key, start)
        gate.submit(pending)
        receipt = await asyncio.wrap_future(pending.answer)
        return JSONResponse(vars(receipt), 200 if receipt.repeated else 202)

    @routes.get("/{name}/values", dependencies=read)
    async def values(name: str, start: Position = 0, limit: int = 1000) -> dict[str, Any]:
        await asked(name, lambda run: run.position)  # 404 if there is none
        limit = max(0, min(limit, _MOST_ROWS))
        rows = await asyncio.to_thread(
            lambda: list(between(gate.database, name, start, start + limit))
        )
        pages = [as_json(page) for page in rows]
        return {"rows": pages, "next": start + sum(page.values.size for page in rows)}

    @routes.get("/{name}/sum", dependencies=read)
    async def total(request: Request, name: str) -> dict[str, Any]:
        found: dict[str, Any] = await asked(name, lambda run: sums(run, request.query_params))
        return found

    @routes.get("/{name}/table", dependencies=read)
    async def by_time(request: Request, name: str) -> dict[str, Any]:
        found: dict[str, Any] = await asked(name, lambda run: table(run, request.query_params))
        return found

    @routes.get("/{name}/live", dependencies=read)
    async def follow(
        request: Request, name: str, start: Position | None = None
    ) -> StreamingResponse:
        position = await asked(name, lambda run: run.position)
        seen = request.headers.get("last-event-id", "")
        known = seen.isascii() and seen.isdigit() and len(seen) <= _DIGITS
        first = int(seen) if known else position if start is None else start
        return StreamingResponse(live.events(name, first), media_type="text/event-stream")

    return routes


def shown(stream: Stream) -> dict[str, Any]:
    """The public facts of a stream."""
    guarantee = str(stream.pipeline.guarantee)
    return {**vars(stream), "guarantee": guarantee}


async def _body(request: Request) -> bytes:
    """The body, read no further than it may be long."""
    pieces, size = [], 0
    async for piece in request.stream():
        size += len(piece)
        if size > ingest.MOST_BYTES:
            raise HTTPException(413, f"at most {ingest.MOST_BYTES >> 20} MiB in one request")
        pieces.append(piece)
    return b"".join(pieces)


_NUMBERS = {
    "oneOf": [
        {"type": "number"},
        {"type": "array", "items": {"type": "number"}},
        {"type": "object"},
    ]
}
_INGEST = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": _NUMBERS},
            "application/x-ndjson": {"schema": {"type": "string"}},
            ingest.ARROW: {"schema": {"type": "string", "format": "binary"}},
        },
    },
    "parameters": [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "schema": {"type": "string", "maxLength": 200},
        }
    ],
}
