"""Routes of streams: check, plan, create, change, retire."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from tidegate.keyed.committed_keyed_release import CommittedKeyed
from tidegate.service.access import Access
from tidegate.service.answer_models import (
    Checked,
    Finished,
    KeysPage,
    Planned,
    StreamFacts,
    StreamKind,
    StreamState,
)
from tidegate.service.gate import GateThread
from tidegate.service.http_etags import conditional_by_etag, etagged_answer
from tidegate.service.open_streams import Run
from tidegate.service.openapi_document import documented_answers
from tidegate.service.stream_creation import NewStream, Plan
from tidegate.service.strict_json import StrictRoute

Name = Annotated[str, Path(max_length=200, description="A stream; NAME@1 is its first epoch.")]
_MOST_KEYS = 10_000  # in an answer


class MoreKeys(BaseModel):
    """Keys to declare."""

    model_config = ConfigDict(extra="forbid")

    keys: list[str | int] = Field(min_length=1)


def stream_routes(gate: GateThread, access: Access) -> APIRouter:
    """The routes about streams."""
    routes = APIRouter(prefix="/v1", route_class=StrictRoute)
    read, manage = [access.allowed("read")], [access.allowed("manage")]
    facts, write = [access.allowed("read facts")], [access.allowed("write")]

    async def changed(function: Callable[[], Any]) -> dict[str, Any]:
        stream = await asyncio.wrap_future(gate.call(function))
        shown: dict[str, Any] = stream.shown()
        return shown

    @routes.post("/check", dependencies=manage, **documented_answers(Checked))
    async def check(new: NewStream) -> dict[str, Any]:
        return await asyncio.to_thread(new.checked)

    @routes.post("/plan", dependencies=[access.allowed("plan")], **documented_answers(Planned))
    async def plan(asked: Plan) -> dict[str, Any]:
        return await asyncio.to_thread(asked.expected)

    @routes.post("/streams", dependencies=manage, **documented_answers(StreamFacts, 201))
    async def create(new: NewStream) -> dict[str, Any]:
        pipeline = await asyncio.to_thread(new.pipeline)
        more: dict[str, Any] = {"part": new.part, "keys": new.key_settings(pipeline)}
        more["grace"] = new.grace(pipeline)
        return await changed(lambda: gate.streams.create(new.name, pipeline, new.source, **more))

    @routes.get(
        "/streams", dependencies=facts, **documented_answers(list[StreamFacts], tagged=True)
    )
    async def listed(request: Request) -> Response:
        streams = await asyncio.to_thread(gate.streams.listed)
        return etagged_answer(request, [stream.shown() for stream in streams])

    @routes.get(
        "/streams/{name}", dependencies=facts, **documented_answers(StreamState, tagged=True)
    )
    async def one(request: Request, name: Name) -> Response:
        return await conditional_by_etag(request, gate, name)

    @routes.get("/streams/{name}/kind", dependencies=write, **documented_answers(StreamKind))
    async def kind(name: Name) -> dict[str, Any]:
        """What a producer must know: whether rows are readings or events, with keys or without."""
        return {"kind": gate.streams.existing(name).kind}

    @routes.post("/streams/{name}/retire", dependencies=manage, **documented_answers(StreamFacts))
    async def retire(name: Name) -> dict[str, Any]:
        return await changed(lambda: gate.streams.retire(name))

    @routes.post("/streams/{name}/finish", dependencies=write, **documented_answers(Finished))
    async def finish(name: Name) -> dict[str, Any]:
        """End open warm-ups from the values that came: for a stream that is over."""
        await asyncio.wrap_future(gate.call(lambda: gate.streams.finish(name)))
        return {"finished": True}

    @routes.post(
        "/streams/{name}/epochs", dependencies=manage, **documented_answers(StreamFacts, 201)
    )
    async def begin_epoch(name: Name) -> dict[str, Any]:
        return await changed(lambda: gate.streams.begin_epoch(name, "asked for"))

    @routes.post("/streams/{name}/keys", dependencies=manage, **documented_answers(StreamFacts))
    async def declare(name: Name, more: MoreKeys) -> dict[str, Any]:
        return await changed(lambda: gate.streams.declare_keys(name, more.keys))

    @routes.get(
        "/streams/{name}/keys", dependencies=read, **documented_answers(KeysPage, tagged=True)
    )
    async def keys(request: Request, name: Name, start: int = 0, limit: int = 1000) -> Response:
        def found(run: Run) -> dict[str, Any]:
            if not isinstance(run, CommittedKeyed):
                return {"keys": [], "released": [], "next": None}
            first = max(0, start)
            end = first + max(0, min(limit, _MOST_KEYS))
            names, counts = run.release.keys[first:end], run.release.counts()[first:end]
            following = end if end < len(run.release.keys) else None
            return {"keys": names, "released": counts.tolist(), "next": following}

        return etagged_answer(request, await asyncio.to_thread(gate.ask, name, found))

    return routes
