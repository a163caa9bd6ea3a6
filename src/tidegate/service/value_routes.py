"""Routes of values: released rows, sums and tables of a stream, live readers; and the clock."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from tidegate.clock import Clock
from tidegate.errors import QueryError
from tidegate.record.times.time_ranges_and_tables import end_of_time_range
from tidegate.service import push_bodies, released_rows
from tidegate.service.access import Access
from tidegate.service.answer_models import (
    ClockTaken,
    MovingSumColumns,
    ReleasedPage,
    Sums,
    Table,
    TakenValues,
)
from tidegate.service.answers_ahead import AnswersAhead
from tidegate.service.answers_json import (
    codes_of_answer,
    keys_to_answer,
    sums_as_json,
    table_as_json,
)
from tidegate.service.gate import GateThread
from tidegate.service.http_etags import conditional_by_etag, etag_headers, etag_of, etag_unchanged
from tidegate.service.live_readers import LiveReader, LiveReaders, first_live_position
from tidegate.service.moving_sums_as_json import moving_sums_as_json
from tidegate.service.open_streams import Run
from tidegate.service.openapi_document import documented_answers, documented_text_answers
from tidegate.service.pending_requests import NO_VALUES, PendingPush
from tidegate.service.push_route import PUSH_DESCRIPTION, refuse_clock_of_push
from tidegate.service.stream_kinds import key_names_of_stream, position_of_stream
from tidegate.service.stream_routes import Name
from tidegate.service.strict_json import StrictRoute

LARGEST = 1 << 62  # a place in a stream
MOST_ROWS = 100_000  # in an answer
_Text = Annotated[str | None, Field(max_length=200)]
Place = Annotated[int, Query(ge=0, le=LARGEST)]
Text = Annotated[str | None, Query(max_length=200)]


class ValuesQuestion(BaseModel):
    """The common part of all queries: a range of time, and keys."""

    model_config = ConfigDict(extra="forbid")

    from_: _Text = Field(None, alias="from", description="A time; rows from there on.")
    to: _Text = Field(None, description="A time; rows before it.")
    key: _Text = Field(None, description="One key.")
    keys: str | None = Field(None, max_length=100_000, description="Keys, with commas between.")

    def given(self) -> dict[str, Any]:
        """The given parameters, by their names in the address."""
        return self.model_dump(by_alias=True, exclude_none=True)


class RowsQuestion(ValuesQuestion):
    """A query for released rows."""

    start: int = Field(0, ge=0, le=LARGEST, description="The place of the first row.")
    limit: int = Field(1000, ge=0, le=MOST_ROWS)


class SumQuestion(ValuesQuestion):
    """A query for a sum, a count and a mean."""

    start: int | None = Field(None, ge=0, le=LARGEST, description="A position.")
    end: int | None = Field(None, ge=0, le=LARGEST, description="A position.")
    confidence: float = Field(0.95, gt=0, lt=1)


class MovingQuestion(ValuesQuestion):
    """A query for sums and means over a sliding window."""

    over: str = Field(max_length=18, description="Window length: 1h, 1d, 1w; or a number of rows.")
    every: _Text = Field(None, description="How far apart windows end; a quarter of `over`.")
    start: int | None = Field(None, ge=0, le=LARGEST, description="A position.")
    end: int | None = Field(None, ge=0, le=LARGEST, description="A position.")
    confidence: float = Field(0.95, gt=0, lt=1)


class TableQuestion(ValuesQuestion):
    """A query for sums, means and rates, part by part."""

    every: str = Field("1d", max_length=18, description="15min, 1h, 1d, 1w; or a number of rows.")
    total: bool = Field(False, description="The total over all keys.")
    confidence: float = Field(0.95, gt=0, lt=1)


AskedRows = Annotated[RowsQuestion, Query()]
AskedSum = Annotated[SumQuestion, Query()]
AskedMoving = Annotated[MovingQuestion, Query()]
AskedTable = Annotated[TableQuestion, Query()]


_TAKEN = documented_answers(TakenValues, 202, description="The values are durable.")
_TAKEN["responses"][200] = {"model": TakenValues, "description": "The values were taken before."}
_ROWS = documented_answers(ReleasedPage, tagged=True)
_ROWS["responses"][200]["content"] = {
    push_bodies.ARROW: {"schema": {"type": "string", "format": "binary"}}
}
_EVENTS = documented_text_answers(
    "text/event-stream", "Released rows as they come; resumed by Last-Event-ID."
)


class Moment(BaseModel):
    """The time that the clock shows."""

    model_config = ConfigDict(extra="forbid")

    until: str = Field(max_length=100, examples=["2024-01-02T00:00Z"])


def value_routes(
    gate: GateThread, live: LiveReaders, access: Access, ahead: AnswersAhead
) -> APIRouter:
    """The routes under `/v1/streams/NAME` that carry data."""
    routes = APIRouter(prefix="/v1/streams", route_class=StrictRoute)
    read, write = [access.allowed("read")], [access.allowed("write")]

    @routes.post("/{name}/values", dependencies=write, openapi_extra=PUSH_DESCRIPTION, **_TAKEN)
    async def push(name: Name) -> Response:
        """Described here, and answered by `PushRoute` before a request comes this far."""
        raise AssertionError(name)

    @routes.post("/{name}/advance", dependencies=write, **documented_answers(ClockTaken, 202))
    async def advance(name: Name, clock: Moment) -> dict[str, Any]:
        """Release the ticks of an event stream that are over."""
        refuse_clock_of_push(gate.streams.existing(name))
        pending = PendingPush(name, NO_VALUES, until=clock.until)
        gate.submit(pending)
        await asyncio.wrap_future(pending.answer)
        return {"until": clock.until}

    @routes.get("/{name}/values", dependencies=read, **_ROWS)
    async def values(request: Request, name: Name, question: AskedRows) -> Response:
        arrow = push_bodies.ARROW in request.headers.get("accept", "")
        last = question.start + max(1, question.limit)

        def asked(run: Run) -> tuple[str, list[str] | None, list[int] | None, Any]:
            after, before = _moment(run, question.from_, "from"), _moment(run, question.to, "to")
            times = (after, before)
            if after is not None and before is not None and after > before:
                raise QueryError("from must not be after to")
            names, codes = key_names_of_stream(run), codes_of_answer(run, question.given())
            released = position_of_stream(run)
            if codes is None and times == (None, None):
                released = min(released, last)  # what comes after a full page does not change it
            # Keys are named with their codes in Arrow, also those that came later.
            known = len(names) if names is not None and arrow else 0
            return etag_of(run, request, [released, arrow, known]), names, codes, times

        stored = gate.streams.existing(name).name
        tag, names, codes, times = await asyncio.to_thread(gate.ask, name, asked)
        if (same := etag_unchanged(request, tag)) is not None:
            return same
        place = (gate.database, stored, question.start, question.limit)
        page = await asyncio.to_thread(released_rows.page_of_rows, *place, codes=codes, times=times)
        return released_rows.row_response(
            page, names, etag_headers(tag), arrow=arrow, start=question.start
        )

    @routes.get("/{name}/sum", dependencies=read, **documented_answers(Sums, tagged=True))
    async def total(request: Request, name: Name, question: AskedSum) -> Response:
        asked = question.given()
        return await conditional_by_etag(
            request, gate, name, lambda view: sums_as_json(view, asked), keys_to_answer(asked)
        )

    @routes.get(
        "/{name}/moving", dependencies=read, **documented_answers(MovingSumColumns, tagged=True)
    )
    async def sliding(request: Request, name: Name, question: AskedMoving) -> Response:
        """The sum over the last hour, day or 1,000 rows, again and again, with its interval."""
        asked = question.given()
        return await conditional_by_etag(
            request,
            gate,
            name,
            lambda view: moving_sums_as_json(view, asked),
            keys_to_answer(asked),
        )

    @routes.get("/{name}/table", dependencies=read, **documented_answers(Table, tagged=True))
    async def by_time(request: Request, name: Name, question: AskedTable) -> Response:
        asked = question.given()
        keys = keys_to_answer(asked)
        found = await conditional_by_etag(
            request, gate, name, lambda view: table_as_json(view, asked), keys
        )
        if gate.streams.existing(name).keys is not None and (keys is None or len(keys) > 1):
            ahead.asked(
                gate.streams.existing(name).name, keys, lambda view: table_as_json(view, asked)
            )
        return found

    @routes.get("/{name}/live", dependencies=read, **_EVENTS)
    async def follow(
        request: Request, name: Name, start: Place | None = None, key: Text = None
    ) -> StreamingResponse:
        stream = gate.streams.existing(name)
        released = await asyncio.to_thread(gate.ask, name, position_of_stream)
        last_id = request.headers.get("last-event-id", "")
        reader = LiveReader(
            stream.name,
            first_live_position(stream, last_id, start, released),
            key,
            names=lambda: gate.ask(name, key_names_of_stream),
            allowed=lambda: access.still(request, "read"),
            newest=lambda: gate.streams.existing(name).name == stream.name,
        )
        events = live.events(reader)
        return StreamingResponse(events, media_type="text/event-stream")

    return routes


def _moment(run: Run, when: str | None, word: str) -> int | None:
    if when is None:
        return None
    clock: Clock | None = run.clock if hasattr(run, "clock") else run.release.clock
    if clock is None:
        raise QueryError(f"{word} asks by time, and the rows of this stream have none")
    return end_of_time_range(clock, when, word)
