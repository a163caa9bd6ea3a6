"""Conditional requests: ETags, 304 Not Modified, and cached answers."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable
from typing import Any

import orjson
from fastapi import Request, Response

from tidegate.keyed.committed_keyed_release import CommittedKeyed
from tidegate.service.answers_json import View, described_answers, view_to_answer
from tidegate.service.gate import GateThread
from tidegate.service.open_streams import Run
from tidegate.service.stream_kinds import epoch_of_stream

JSON = "application/json"


class GivenETags:
    """Recent answers by their tag: dashboards repeat their queries."""

    def __init__(self, most: int = 32 << 20) -> None:
        self._most, self._size = most, 0
        self._bodies: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def find(self, tag: str) -> bytes | None:
        """The answer with this tag."""
        return self._bodies.get(tag)

    def keep(self, tag: str, body: bytes) -> None:
        """Store an answer, replacing the oldest ones if there is no room."""
        with self._lock:
            if len(body) > self._most // 4 or tag in self._bodies:
                return
            self._bodies[tag] = body
            self._size += len(body)
            while self._size > self._most:
                self._size -= len(self._bodies.pop(next(iter(self._bodies))))


async def conditional_by_etag(
    request: Request,
    gate: GateThread,
    name: str,
    question: Callable[[View], Any] | None = None,
    keys: list[str] | None = None,
) -> Response:
    """An answer, or 304 if nothing was released since the client's last query.

    Without a question, the facts of the stream. `keys`: those that the question needs.
    """
    earlier: GivenETags = request.app.state.given

    def look(run: Run) -> tuple[str, bytes | View | None]:
        facts = described_answers(run)
        tag = etag_of(run, request, facts)
        if _etag_asked_before(request, tag):
            return tag, None
        body = earlier.find(tag)
        if body is not None:
            return tag, body
        return tag, _etag_json(facts) if question is None else view_to_answer(run, keys)

    tag, found = await asyncio.to_thread(gate.ask, name, look)
    headers = etag_headers(tag)
    if found is None:
        return Response(status_code=304, headers=headers)
    if question is None or isinstance(found, bytes):
        return Response(found, headers=headers, media_type=JSON)
    view, ask = found, question
    body = await gate.work_out(lambda: _etag_json(ask(view)))
    earlier.keep(tag, body)
    return Response(body, headers=headers, media_type=JSON)


def etagged_answer(request: Request, answer: Any) -> Response:
    """A cheap answer, or 304: its tag is its own digest."""
    body = _etag_json(answer)
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    return etag_unchanged(request, tag) or Response(
        body, headers=etag_headers(tag), media_type=JSON
    )


def etag_unchanged(request: Request, tag: str) -> Response | None:
    """304, if the client has the answer with this tag."""
    return (
        Response(status_code=304, headers=etag_headers(tag))
        if _etag_asked_before(request, tag)
        else None
    )


def etag_headers(tag: str) -> dict[str, str]:
    """Headers of an answer that a browser may store and must revalidate."""
    return {"ETag": tag, "Cache-Control": "private, no-cache"}


def _etag_asked_before(request: Request, tag: str) -> bool:
    """Compare tags weakly, as the standard says: proxies that compress make tags weak."""
    known = request.headers.get("if-none-match", "")
    return known.strip() == "*" or tag in [
        one.strip().removeprefix("W/") for one in known.split(",")
    ]


def _etag_json(answer: Any) -> bytes:
    return orjson.dumps(answer, default=_plain_in_etag)


def etag_of(run: Run, request: Request, facts: Any) -> str:
    """A digest of all that the answer depends on, which must be public: it could be guessed."""
    finishes = run.finishes if isinstance(run, CommittedKeyed) else 0  # else `facts` shows it
    asked = f"{epoch_of_stream(run)} {finishes} {request.url.path}?{request.url.query}".encode()
    digest = hashlib.sha256(asked + _etag_json(facts))
    return f'"{digest.hexdigest()[:32]}"'


def _plain_in_etag(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)
