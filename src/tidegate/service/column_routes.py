"""Rows with several values: a stream for each column, pushed together.

ε is that of a row: a replaced row replaces all its values, so the columns' budgets add up in the
ledger, to what was given. Columns of a request are taken all or none, in one transaction: if one of
them is refused (by the cap, say), so are the others, and a row never falls apart. Values for one
column alone are refused for the same reason.
"""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from tidegate.errors import InputError, TidegateError
from tidegate.guarantee import sequential
from tidegate.service import problem_details
from tidegate.service.access import Access, access_holder
from tidegate.service.answer_models import ColumnsFacts, TakenColumns
from tidegate.service.gate import GateThread
from tidegate.service.http_etags import etagged_answer
from tidegate.service.openapi_document import documented_answers
from tidegate.service.pending_requests import Conflict, PendingPush, RequestsOfSameRows
from tidegate.service.push_bodies import ARROW, JSON, parsed_body_of_columns
from tidegate.service.push_route import (
    push_idempotency_key,
    push_idempotency_parameter,
    push_media_type,
    read_push_body,
)
from tidegate.service.stored_stream import StoredStream
from tidegate.service.stream_creation import NewColumns
from tidegate.service.stream_kinds import clock_of_stream
from tidegate.service.stream_routes import Name
from tidegate.service.strict_json import StrictRoute

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
    "parameters": [push_idempotency_parameter(required=True)],
}


def column_routes(gate: GateThread, access: Access) -> APIRouter:
    """The routes under `/v1/columns`."""
    routes = APIRouter(prefix="/v1/columns", route_class=StrictRoute)

    @routes.post(
        "", dependencies=[access.allowed("manage")], **documented_answers(ColumnsFacts, 201)
    )
    async def create(new: NewColumns) -> dict[str, Any]:
        pipelines = await asyncio.to_thread(new.pipelines)
        make, where = gate.streams.create_columns, (new.name, pipelines, new.source)
        made = await asyncio.wrap_future(gate.call(lambda: make(*where, part=new.part)))
        return _shown_columns(new.name, made)

    facts = [access.allowed("read facts")]

    @routes.get("/{name}", dependencies=facts, **documented_answers(ColumnsFacts, tagged=True))
    async def one(request: Request, name: Name) -> Response:
        return etagged_answer(request, _shown_columns(name, gate.streams.columns_of(name)))

    @routes.post(
        "/{name}/values",
        dependencies=[access.allowed("write")],
        openapi_extra=_BODY,
        **documented_answers(TakenColumns, 202),
    )
    async def push(request: Request, name: Name) -> JSONResponse:
        streams = gate.streams.columns_of(name)
        first = next(iter(streams.values()))
        headers = dict(request.scope["headers"])
        kind = push_media_type(headers.get(b"content-type"), (JSON, ARROW))
        key = push_idempotency_key(headers.get(b"idempotency-key"))
        if key is None:
            raise problem_details.RefusedRequest(
                400, "Idempotency-Key is needed: rows that are sent again must be recognised"
            )
        body = await read_push_body(request.receive)
        parse = (body, kind, clock_of_stream(first.pipeline))
        found, times = await asyncio.to_thread(parsed_body_of_columns, *parse)
        if found.keys() != streams.keys():
            raise InputError(f"send the columns {', '.join(sorted(streams))}, and no others")
        rows, sender = RequestsOfSameRows(), access_holder(request).sender
        waiting = {
            column: PendingPush(
                streams[column].plain_name, values, times, key, rows=rows, sender=sender
            )
            for column, values in found.items()
        }
        gate.submit(*waiting.values())
        outcomes = await asyncio.gather(
            *(asyncio.wrap_future(one.answer) for one in waiting.values()), return_exceptions=True
        )
        receipts: dict[str, Any] = {}
        for column, outcome in zip(waiting, outcomes, strict=True):
            if isinstance(outcome, Conflict):  # which column differs is not told
                return problem_details.of(outcome)
            if isinstance(outcome, TidegateError):
                return problem_details.of(outcome, column=column)
            if isinstance(outcome, BaseException):
                raise outcome
            receipts[column] = vars(outcome)
        return JSONResponse({"columns": receipts}, 202)

    return routes


def _shown_columns(name: str, streams: dict[str, StoredStream]) -> dict[str, Any]:
    promises = [stream.guarantee for stream in streams.values()]
    columns = {column: stream.shown() for column, stream in streams.items()}
    return {"name": name, "columns": columns, "guarantee": str(sequential(*promises))}
