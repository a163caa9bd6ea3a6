"""Conditional requests: ETags, 304 Not Modified, and answers that were computed before."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable
from typing import Any

import orjson
from fastapi import Request, Response

from tidegate.keyed.committed_release import CommittedKeyed
from tidegate.service.answers_json import View, described, view_of
from tidegate.service.gate import Gate
from tidegate.service.open_streams import Run
from tidegate.service.stream_kinds import epoch_of

JSON = "application/json"


class GivenETag:
    """Answers that were given lately, by their tag: dashboards ask the same again and again."""

    def __init__(self, most: int = 32 << 20) -> None:
        self._most, self._size = most, 0
        self._bodies: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def find(self, tag: str) -> bytes | None:
        """The answer with this tag."""
        return self._bodies.get(tag)

    def keep(self, tag: str, body: bytes) -> None:
        """Keep an answer, in place of the oldest ones if there is no room."""
        with self._lock:
            if len(body) > self._most // 4 or tag in self._bodies:
                return
            self._bodies[tag] = body
            self._size += len(body)
            while self._size > self._most:
                self._size -= len(self._bodies.pop(next(iter(self._bodies))))


async def conditional(
    request: Request,
    gate: Gate,
    name: str,
    question: Callable[[View], Any] | None = None,
    keys: list[str] | None = None,
) -> Response:
    """An answer, or 304: nothing was released since the client asked the same.

    Without a question, the facts of the stream. `keys`: those that the question needs.
    """
    known = request.headers.get("if-none-match")
    earlier: GivenETag = request.app.state.given

    def look(run: Run) -> tuple[str, bytes | View | None]:
        facts = described(run)
        tag = _tag(run, request, facts)
        if known is not None and tag in [one.strip() for one in known.split(",")]:
            return tag, None
        body = earlier.find(tag)
        if body is not None:
            return tag, body
        return tag, _json(facts) if question is None else view_of(run, keys)

    tag, found = await asyncio.to_thread(gate.ask, name, look)
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if found is None:
        return Response(status_code=304, headers=headers)
    if question is None or isinstance(found, bytes):
        return Response(found, headers=headers, media_type=JSON)
    view, ask = found, question
    body = await gate.work_out(lambda: _json(ask(view)))
    earlier.keep(tag, body)
    return Response(body, headers=headers, media_type=JSON)


def _json(answer: Any) -> bytes:
    return orjson.dumps(answer, default=_plain)


def _tag(run: Run, request: Request, facts: dict[str, Any]) -> str:
    """All that the answer depends on, and nothing that is not public: who knows it may guess it."""
    finishes = run.finishes if isinstance(run, CommittedKeyed) else 0  # else `facts` shows it
    asked = f"{epoch_of(run)} {finishes} {request.url.path}?{request.url.query}".encode()
    digest = hashlib.sha256(asked + _json(facts))
    return f'"{digest.hexdigest()[:32]}"'


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)
