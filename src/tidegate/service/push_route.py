"""`POST /v1/streams/NAME/values`, the most frequent request: plain ASGI, without the framework.

Routing, dependencies and parsing of the framework take four times as long as all of this.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection
from urllib.parse import parse_qsl, unquote

import orjson
from starlette.types import Receive, Scope, Send

from tidegate.errors import RefusedError, SettingError, TidegateError
from tidegate.run.event_ticks import check_event_values
from tidegate.service import problem_details, push_bodies
from tidegate.service.access import Access
from tidegate.service.gate import GateThread
from tidegate.service.logs_and_traces import mark_values_in_traces
from tidegate.service.loop_wakeups import result_in_loop
from tidegate.service.pending_requests import PendingPush, Receipt
from tidegate.service.push_bodies import ARROW
from tidegate.service.stored_stream import StoredStream
from tidegate.service.stream_kinds import clock_of_stream

PATH = re.compile(r"/v1/streams/([^/]+)/values")
_SMALL = 1 << 16  # bytes of a body that is parsed at once
_SMALL_ARROW = 1 << 20  # which takes no longer
_DIGITS = 18  # of a place in a stream
_LONGEST = 200  # characters of an idempotency key
_PARAMETERS = {"start", "zone", "until"}


class PushRoute:
    """Takes values for a stream."""

    def __init__(self, gate: GateThread, access: Access) -> None:
        self._gate, self._access = gate, access

    @staticmethod
    def match(scope: Scope) -> str | None:
        """The stream of a request with values. None: another request."""
        if scope["method"] != "POST":
            return None
        found = PATH.fullmatch(scope["path"])
        return None if found is None else unquote(found[1])

    async def __call__(self, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        mark_values_in_traces(scope)
        try:
            receipt = await self._taken(name, scope, receive)
        except problem_details.RefusedRequest as error:
            await error.answer(scope, receive, send)
            return
        except TidegateError as error:
            await problem_details.of(error)(scope, receive, send)
            return
        body = orjson.dumps(vars(receipt))
        headers = [(b"content-type", b"application/json")]
        headers.append((b"content-length", b"%d" % len(body)))
        status = 200 if receipt.repeated else 202
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _taken(self, name: str, scope: Scope, receive: Receive) -> Receipt:
        self._access.check_role(scope["state"]["who"].role, "write")
        stream = self._gate.streams.existing(name)
        if stream.row_of is not None:
            raise RefusedError(
                f"this is a column: send whole rows to /v1/columns/{stream.row_of}/values"
            )
        headers = dict(scope["headers"])
        asked = _push_parameters(scope["query_string"])
        start = asked.get("start")
        if start is not None and not (
            start.isascii() and start.isdigit() and len(start) <= _DIGITS
        ):
            raise problem_details.RefusedRequest(
                422, "start must be the place of the first value, from 0"
            )
        key = push_idempotency_key(headers.get(b"idempotency-key"))
        kind = push_media_type(headers.get(b"content-type"), push_bodies.MEDIA_TYPES)
        body = await read_push_body(receive)
        zone, events = asked.get("zone"), stream.pipeline.ticks is not None
        parse = (body, kind, zone or clock_of_stream(stream.pipeline), events)
        large = len(body) > (_SMALL_ARROW if kind == ARROW else _SMALL)
        rows = (
            await asyncio.to_thread(push_bodies.parsed_body, *parse)
            if large
            else push_bodies.parsed_body(*parse)
        )
        until = rows.until or asked.get("until")
        if until is not None:
            refuse_clock_of_push(stream)
        if stream.pipeline.ticks is not None and rows.times is not None:
            check_event_values(stream.pipeline, rows.values if rows.valued else None)
        pending = PendingPush(
            name,
            rows.values,
            rows.times,
            key,
            None if start is None else int(start),
            rows.keys,
            until,
            trace=self._gate.telemetry.context(),
            sender=scope["state"]["who"].sender,
        )
        self._gate.submit(pending)
        return await result_in_loop(pending.answer)


def refuse_clock_of_push(stream: StoredStream) -> None:
    """Refuse a producer's clock where the service's own clock closes ticks."""
    if stream.grace is not None:
        raise SettingError("until", "must be left out: the service's clock closes these ticks")


def _push_parameters(query: bytes) -> dict[str, str]:
    if not query:
        return {}
    found = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True))
    if not found.keys() <= _PARAMETERS:
        known = ", ".join(sorted(_PARAMETERS))
        raise problem_details.RefusedRequest(422, f"unknown parameter; there are {known}")
    return found


def push_idempotency_key(header: bytes | None) -> str | None:
    """The key that makes a request safe to repeat, without outer blanks. None: none."""
    header = None if header is None else header.strip(b" \t")
    if header is not None and not 0 < len(header) <= _LONGEST:
        raise problem_details.RefusedRequest(400, "Idempotency-Key must have 1 to 200 characters")
    return None if header is None else header.decode("latin-1")


def push_media_type(header: bytes | None, known: Collection[str]) -> str:
    """The media type of a body; JSON without a header. Parameters such as `charset` are left out.

    Another kind is refused, even if its bytes could be read: a number in a CSV file is JSON, too.
    """
    given = (header or b"").decode("latin-1").partition(";")[0].strip().lower()
    given = given or push_bodies.JSON
    if given not in known:
        raise problem_details.RefusedRequest(415, f"Content-Type must be one of {', '.join(known)}")
    return given


async def read_push_body(receive: Receive, most: int | None = None) -> bytes:
    """Read the body, up to its size limit."""
    most = push_bodies.MOST_BYTES if most is None else most
    pieces, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise problem_details.RefusedRequest(400, "the connection ended before the body did")
        piece = message.get("body", b"")
        size += len(piece)
        if size > most:
            raise problem_details.RefusedRequest(413, f"at most {most >> 20} MiB in a request")
        pieces.append(piece)
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


# -- the description of a push in the OpenAPI document ---------------------------------------------


def push_idempotency_parameter(*, required: bool) -> dict[str, object]:
    """The documentation of the header with a request's key."""
    return {
        "name": "Idempotency-Key",
        "in": "header",
        "required": required,
        "schema": {"type": "string", "minLength": 1, "maxLength": _LONGEST},
    }


_NUMBER = {"type": ["number", "null"]}
_TIME = {"type": ["string", "number"]}
_KEY = {"type": ["string", "integer"]}
_UNTIL = {"type": "string", "description": "The clock: closes ticks of an event stream."}
_BODY = {
    "oneOf": [
        {"type": "number"},
        {"type": "array", "items": _NUMBER},
        {
            "type": "object",
            "properties": {"value": _NUMBER, "time": _TIME, "key": _KEY, "until": _UNTIL},
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {
                "values": {"type": "array", "items": _NUMBER},
                "times": {"type": "array", "items": _TIME},
                "keys": {"type": "array", "items": _KEY},
                "until": _UNTIL,
            },
            "additionalProperties": False,
        },
    ]
}
PUSH_DESCRIPTION = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": _BODY},
            "application/x-ndjson": {"schema": {"type": "string"}},
            ARROW: {"schema": {"type": "string", "format": "binary"}},
        },
    },
    "parameters": [
        push_idempotency_parameter(required=False),
        {
            "name": "start",
            "in": "query",
            "description": "The place of the first value; a gap is answered with 409.",
            "schema": {"type": "integer", "minimum": 0},
        },
        {"name": "zone", "in": "query", "schema": {"type": "string"}},
        {"name": "until", "in": "query", "schema": {"type": "string"}},
    ],
}
