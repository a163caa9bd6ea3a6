"""Answers that a client has already: the same question after the same commit."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any

import orjson
from fastapi import Request, Response

from tidegate.service.gate import Gate
from tidegate.service.pushing import epoch_of, position_of
from tidegate.service.streams import Run

JSON = "application/json"


async def conditional(
    request: Request, gate: Gate, name: str, question: Callable[[Run], Any]
) -> Response:
    """An answer, or 304: nothing was released since the client asked the same."""
    given = request.headers.get("if-none-match")

    def ask(run: Run) -> tuple[str, bytes | None]:
        tag = _tag(run, request)
        if given is not None and tag in [one.strip() for one in given.split(",")]:
            return tag, None
        return tag, orjson.dumps(question(run), default=_plain)

    tag, body = await asyncio.to_thread(gate.ask, name, ask)
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if body is None:
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=JSON)


def _tag(run: Run, request: Request) -> str:
    """What the answer depends on: the noise, how much was taken, and the question."""
    # Of readings the answer tells how many were taken, which moves before rows are released.
    public = run.seen if hasattr(run, "pipeline") and run.pipeline.ticks is None else 0
    asked = f"{epoch_of(run)} {position_of(run)} {public} {request.url.path}?{request.url.query}"
    return f'"{hashlib.sha256(asked.encode()).hexdigest()[:32]}"'


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)
