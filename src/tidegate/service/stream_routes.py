"""Streams over HTTP: planned, created, changed, retired; and rows with several values at once.

ε is that of a row: a replaced row replaces all its values, so the columns' budgets add up in the
ledger, to what was given. Columns of a request are taken all or none, in one transaction: if one of
them is refused (by the cap, say), so are the others, and a row never falls apart. Values for one
column alone are refused for the same reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from tidegate.errors import InputError, TidegateError
from tidegate.guarantee import sequential
from tidegate.keyed.committed_release import CommittedKeyed
from tidegate.service import problem_details
from tidegate.service.access_and_tokens import Access
from tidegate.service.gate import Gate
from tidegate.service.http_etags import conditional
from tidegate.service.open_streams import Run
from tidegate.service.pending_requests import Pending, WholeRows
from tidegate.service.problem_details import PROBLEMS
from tidegate.service.push_route import idempotency_key, idempotency_parameter, read_body
from tidegate.service.request_bodies import ARROW, parsed_body_of_columns
from tidegate.service.stored_stream import StoredStream
from tidegate.service.stream_creation import NewColumns, NewStream, Plan
from tidegate.service.stream_kinds import clock_of

Name = Annotated[str, Path(max_length=200, description="Of a stream; NAME@1 is its first epoch.")]
_MOST_KEYS = 10_000  # in an answer


class MoreKeys(BaseModel):
    """Keys to declare."""

    model_config = ConfigDict(extra="forbid")

    keys: list[str | int] = Field(min_length=1)


def stream_routes(gate: Gate, access: Access) -> APIRouter:
    """The routes about streams."""
    routes = APIRouter(prefix="/v1", responses=PROBLEMS)
    read, manage = [access.allowed("read")], [access.allowed("manage")]

    async def changed(function: Callable[[], Any]) -> dict[str, Any]:
        stream = await asyncio.wrap_future(gate.call(function))
        shown: dict[str, Any] = stream.shown()
        return shown

    @routes.post("/check", dependencies=manage)
    async def check(new: NewStream) -> dict[str, Any]:
        return await asyncio.to_thread(new.checked)

    @routes.post("/plan", dependencies=[access.allowed("plan")])
    async def plan(asked: Plan) -> dict[str, Any]:
        return await asyncio.to_thread(asked.expected)

    @routes.post("/streams", status_code=201, dependencies=manage)
    async def create(new: NewStream) -> dict[str, Any]:
        pipeline = await asyncio.to_thread(new.pipeline)
        more: dict[str, Any] = {"part": new.part, "keys": new.key_settings(pipeline)}
        more["grace"] = new.grace(pipeline)
        return await changed(lambda: gate.streams.create(new.name, pipeline, new.source, **more))

    @routes.get("/streams", dependencies=read)
    async def listed() -> list[dict[str, Any]]:
        streams = await asyncio.to_thread(gate.streams.listed)
        return [stream.shown() for stream in streams]

    @routes.get("/streams/{name}", dependencies=read)
    async def one(request: Request, name: Name) -> Response:
        return await conditional(request, gate, name)

    @routes.get("/streams/{name}/kind", dependencies=[access.allowed("write")])
    async def kind(name: Name) -> dict[str, Any]:
        """What a producer must know: whether rows are readings or events, with keys or without."""
        return {"kind": gate.streams.existing(name).kind}

    @routes.post("/streams/{name}/retire", dependencies=manage)
    async def retire(name: Name) -> dict[str, Any]:
        return await changed(lambda: gate.streams.retire(name))

    @routes.post("/streams/{name}/finish", dependencies=[access.allowed("write")])
    async def finish(name: Name) -> dict[str, Any]:
        """End open warm-ups from the values that came: for a stream that is over."""
        await asyncio.wrap_future(gate.call(lambda: gate.streams.finish(name)))
        return {"finished": True}

    @routes.post("/streams/{name}/epochs", status_code=201, dependencies=manage)
    async def begin_epoch(name: Name) -> dict[str, Any]:
        return await changed(lambda: gate.streams.begin_epoch(name, "asked for"))

    @routes.post("/streams/{name}/keys", dependencies=manage)
    async def declare(name: Name, more: MoreKeys) -> dict[str, Any]:
        return await changed(lambda: gate.streams.declare_keys(name, more.keys))

    @routes.get("/streams/{name}/keys", dependencies=read)
    async def keys(name: Name, start: int = 0, limit: int = 1000) -> dict[str, Any]:
        def found(run: Run) -> dict[str, Any]:
            if not isinstance(run, CommittedKeyed):
                return {"keys": [], "released": [], "next": None}
            first = max(0, start)
            end = first + max(0, min(limit, _MOST_KEYS))
            names, counts = run.release.keys[first:end], run.release.counts()[first:end]
            following = end if end < len(run.release.keys) else None
            return {"keys": names, "released": counts.tolist(), "next": following}

        result: dict[str, Any] = await asyncio.to_thread(gate.ask, name, found)
        return result

    return routes


_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "columns": {
                            "type": "object",
                            "additionalProperties": {
                                "type": "array",
                                "items": {"type": ["number", "null"]},
                            },
                        },
                        "times": {"type": "array", "items": {"type": ["string", "number"]}},
                    },
                    "required": ["columns"],
                    "additionalProperties": False,
                }
            },
            ARROW: {"schema": {"type": "string", "format": "binary"}},
        },
    },
    "parameters": [idempotency_parameter(required=True)],
}


def column_routes(gate: Gate, access: Access) -> APIRouter:
    """The routes under `/v1/columns`."""
    routes = APIRouter(prefix="/v1/columns", responses=PROBLEMS)

    @routes.post("", status_code=201, dependencies=[access.allowed("manage")])
    async def create(new: NewColumns) -> dict[str, Any]:
        pipelines = await asyncio.to_thread(new.pipelines)
        make, where = gate.streams.create_columns, (new.name, pipelines, new.source)
        made = await asyncio.wrap_future(gate.call(lambda: make(*where, part=new.part)))
        return _shown(new.name, made)

    @routes.get("/{name}", dependencies=[access.allowed("read")])
    async def one(name: Name) -> dict[str, Any]:
        return _shown(name, gate.streams.columns_of(name))

    @routes.post(
        "/{name}/values",
        status_code=202,
        dependencies=[access.allowed("write")],
        response_model=None,
        openapi_extra=_BODY,
    )
    async def push(request: Request, name: Name) -> JSONResponse:
        streams = gate.streams.columns_of(name)
        first = next(iter(streams.values()))
        kind = request.headers.get("content-type", "application/json")
        key = idempotency_key(dict(request.scope["headers"]).get(b"idempotency-key"))
        if key is None:
            raise problem_details.RefusedRequest(
                400, "Idempotency-Key is needed: rows that are sent again must be recognised"
            )
        body = await read_body(request.receive)
        parse = (body, kind, clock_of(first.pipeline))
        found, times = await asyncio.to_thread(parsed_body_of_columns, *parse)
        if found.keys() != streams.keys():
            raise InputError(f"send the columns {', '.join(sorted(streams))}, and no others")
        rows = WholeRows()
        waiting = {
            column: Pending(streams[column].plain_name, values, times, key, rows=rows)
            for column, values in found.items()
        }
        gate.submit(*waiting.values())
        outcomes = await asyncio.gather(
            *(asyncio.wrap_future(one.answer) for one in waiting.values()), return_exceptions=True
        )
        receipts: dict[str, Any] = {}
        for column, outcome in zip(waiting, outcomes, strict=True):
            if isinstance(outcome, TidegateError):
                return problem_details.of(outcome, column=column)
            if isinstance(outcome, BaseException):
                raise outcome
            receipts[column] = vars(outcome)
        return JSONResponse({"columns": receipts}, 202)

    return routes


def _shown(name: str, streams: dict[str, StoredStream]) -> dict[str, Any]:
    promises = [stream.guarantee for stream in streams.values()]
    columns = {column: stream.shown() for column, stream in streams.items()}
    return {"name": name, "columns": columns, "guarantee": str(sequential(*promises))}
