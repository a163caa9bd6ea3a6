"""Values over HTTP: taken in, released rows out, answers, live readers."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from tidegate.clock import Clock
from tidegate.errors import QueryError
from tidegate.record.time_ranges import moment
from tidegate.service import released_rows, request_bodies, row_formats
from tidegate.service.access import Access
from tidegate.service.answers_json import asked_keys, codes_of, sums, table
from tidegate.service.etags import conditional
from tidegate.service.gate import Gate
from tidegate.service.open_streams import Run
from tidegate.service.pending_requests import Pending
from tidegate.service.problems import PROBLEMS
from tidegate.service.push_by_kind import names_of, position_of
from tidegate.service.push_route import refuse_clock
from tidegate.service.query_parameters import LARGEST, AskedRows, AskedSum, AskedTable
from tidegate.service.server_sent_events import Live
from tidegate.service.stream_routes import Name

Place = Annotated[int, Query(ge=0, le=LARGEST)]
Text = Annotated[str | None, Query(max_length=200)]


class Moment(BaseModel):
    """What the clock shows."""

    model_config = ConfigDict(extra="forbid")

    until: str = Field(max_length=100, examples=["2024-01-02T00:00Z"])


def value_routes(gate: Gate, live: Live, access: Access) -> APIRouter:
    """The routes under `/v1/streams/NAME` that carry data."""
    routes = APIRouter(prefix="/v1/streams", responses=PROBLEMS)
    read, write = [access.allowed("read")], [access.allowed("write")]

    @routes.post(
        "/{name}/values", status_code=202, dependencies=write, openapi_extra=row_formats.INGEST
    )
    async def push(name: Name) -> Response:
        """Described here, and answered by `ingest_app` before a request comes this far."""
        raise AssertionError(name)

    @routes.post("/{name}/advance", status_code=202, dependencies=write)
    async def advance(name: Name, clock: Moment) -> dict[str, Any]:
        """Release the ticks of an event stream that are over."""
        refuse_clock(gate.streams.existing(name))
        pending = Pending(name, row_formats.NOTHING, until=clock.until)
        gate.submit(pending)
        await asyncio.wrap_future(pending.answer)
        return {"until": clock.until}

    @routes.get("/{name}/values", dependencies=read, response_model=None)
    async def values(request: Request, name: Name, question: AskedRows) -> Response:
        def asked(run: Run) -> tuple[list[str] | None, list[int] | None, Any]:
            ends = (("from", question.from_), ("to", question.to))
            times = tuple(_moment(run, when, word) for word, when in ends)
            return names_of(run), codes_of(run, question.given()), times

        stored = gate.streams.existing(name).name
        names, codes, times = await asyncio.to_thread(gate.ask, name, asked)
        place = (gate.database, stored, question.start, question.limit)
        page = await asyncio.to_thread(released_rows.page, *place, codes=codes, times=times)
        arrow = request_bodies.ARROW in request.headers.get("accept", "")
        return row_formats.answer(page, names, arrow=arrow, start=question.start)

    @routes.get("/{name}/sum", dependencies=read, response_model=None)
    async def total(request: Request, name: Name, question: AskedSum) -> Response:
        asked = question.given()
        return await conditional(
            request, gate, name, lambda view: sums(view, asked), asked_keys(asked)
        )

    @routes.get("/{name}/table", dependencies=read, response_model=None)
    async def by_time(request: Request, name: Name, question: AskedTable) -> Response:
        asked = question.given()
        return await conditional(
            request, gate, name, lambda view: table(view, asked), asked_keys(asked)
        )

    @routes.get("/{name}/live", dependencies=read, response_model=None)
    async def follow(
        request: Request, name: Name, start: Place | None = None, key: Text = None
    ) -> StreamingResponse:
        stored = gate.streams.existing(name).name
        position = await asyncio.to_thread(gate.ask, name, position_of)
        seen = request.headers.get("last-event-id", "")
        first = position if start is None else start
        if seen.isascii() and seen.isdigit():
            first = int(seen[:18])
        events = live.events(stored, first, key, lambda: gate.ask(name, names_of))
        return StreamingResponse(events, media_type="text/event-stream")

    return routes


def _moment(run: Run, when: str | None, word: str) -> int | None:
    if when is None:
        return None
    clock: Clock | None = run.clock if hasattr(run, "clock") else run.release.clock
    if clock is None:
        raise QueryError(f"{word} asks by time, and the rows of this stream have none")
    return moment(clock, when, word)
