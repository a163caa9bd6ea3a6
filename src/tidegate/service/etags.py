"""Answers that a client has already, or that were given before: the same question, nothing new."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any

import orjson
from fastapi import Request, Response

from tidegate.service.answers_json import described
from tidegate.service.gate import Gate
from tidegate.service.open_streams import Run
from tidegate.service.push_by_kind import epoch_of

JSON = "application/json"


class Given:
    """Answers that were given lately, by their tag: dashboards ask the same again and again."""

    def __init__(self, most: int = 32 << 20) -> None:
        self._most, self._size = most, 0
        self._bodies: dict[str, bytes] = {}

    def find(self, tag: str) -> bytes | None:
        """The answer with this tag."""
        return self._bodies.get(tag)

    def keep(self, tag: str, body: bytes) -> None:
        """Keep an answer, in place of the oldest ones if there is no room."""
        if len(body) > self._most // 4 or tag in self._bodies:
            return
        self._bodies[tag] = body
        self._size += len(body)
        while self._size > self._most:
            self._size -= len(self._bodies.pop(next(iter(self._bodies))))


async def conditional(
    request: Request, gate: Gate, name: str, question: Callable[[Run], Any]
) -> Response:
    """An answer, or 304: nothing was released since the client asked the same."""
    known = request.headers.get("if-none-match")
    earlier: Given = request.app.state.given

    def ask(run: Run) -> tuple[str, bytes | None]:  # one at a time: the gate sees to it
        tag = _tag(run, request)
        if known is not None and tag in [one.strip() for one in known.split(",")]:
            return tag, None
        body = earlier.find(tag)
        if body is None:
            body = orjson.dumps(question(run), default=_plain)
            earlier.keep(tag, body)
        return tag, body

    tag, body = await asyncio.to_thread(gate.ask, name, ask)
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if body is None:
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=JSON)


def _tag(run: Run, request: Request) -> str:
    """All that the answer depends on, and nothing that is not public: who knows it may guess it."""
    asked = f"{epoch_of(run)} {request.url.path}?{request.url.query}".encode()
    digest = hashlib.sha256(asked + orjson.dumps(described(run), default=_plain))
    return f'"{digest.hexdigest()[:32]}"'


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)
