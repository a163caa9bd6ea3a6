"""Routes of devices and shufflers: the open round, a question, reports.

Pages of other sites may report: these routes answer to any origin. Nothing is opened by that: no
cookie is read, and a report needs a token.
"""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from tidegate.errors import InputError, MissingError, TidegateError
from tidegate.io.json_rows import each_json_field_once
from tidegate.local.announcements_and_reports import Report, parsed_report
from tidegate.local.canonical_json import json_name
from tidegate.local.shuffle import Shuffled
from tidegate.local.task_messages import (
    ANNOUNCEMENT,
    MISDIRECTED,
    OUTCOMES,
    REPORT,
    REPORTS,
    ROUND,
    SHUFFLER,
    RoundMessage,
    outcomes_json,
)
from tidegate.service import problem_details
from tidegate.service.access import Access, access_holder
from tidegate.service.devices.device_queue import DeviceQueue
from tidegate.service.devices.device_requests import (
    DeviceNotNow,
    DeviceQuestion,
    DeviceReports,
    ShuffledBatch,
)
from tidegate.service.devices.task_answer_models import BatchOutcome
from tidegate.service.loop_wakeups import LoopAnswer, result_in_loop
from tidegate.service.openapi_document import documented_answers, documented_message
from tidegate.service.pending_requests import request_id
from tidegate.service.push_route import push_idempotency_parameter, read_push_body
from tidegate.service.strict_json import StrictRoute

_MOST_REPORTS = 10_000  # in one request
MOST_BYTES = 4 << 20
_SMALL = 1 << 14  # bytes of a body that is parsed at once


async def reports_of_devices(body: bytes) -> list[Report | str]:
    """The parsed reports, one per line, or why they could not be parsed."""
    lines = [line for line in body.splitlines() if line.strip()]
    if len(lines) > _MOST_REPORTS:
        raise HTTPException(413, f"at most {_MOST_REPORTS:,} reports in one request")
    if len(body) > _SMALL:
        return await asyncio.to_thread(lambda: [parsed_report(line) for line in lines])
    return [parsed_report(line) for line in lines]


_DEVICE = re.compile(r"/v1/tasks/([^/]+)/(round|announcement|reports)")


class DeviceCORS:
    """Adds CORS headers to the routes of devices only, including errors."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open = CORSMiddleware(
            app,
            allow_origins=["*"],
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", "If-None-Match"],
            expose_headers=["ETag", "Retry-After"],
            max_age=86_400,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        app = self._app
        for name, _ in scope.get("headers", ()):
            if name == b"origin" and _DEVICE.fullmatch(scope["path"]):
                app = self._open
        await app(scope, receive, send)


class DeviceRoutes:
    """The three requests that every device sends, answered without the framework.

    Its routing and dependencies took three quarters of the time of a report.
    """

    def __init__(self, queue: DeviceQueue, access: Access) -> None:
        self._queue, self._access = queue, access

    @staticmethod
    def match(scope: Scope) -> tuple[str, str] | None:
        """The task and the purpose of a device's request. None: another request."""
        found = _DEVICE.fullmatch(scope["path"])
        if found is None or scope["method"] != ("POST" if found[2] == "reports" else "GET"):
            return None
        return unquote(found[1]), found[2]

    async def __call__(
        self, found: tuple[str, str], scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Handle one request."""
        task_id, wanted = found
        scope["state"]["route"] = f"/v1/tasks/{{task_id}}/{wanted}"
        try:
            self._access.check_role(scope["state"]["who"].role, "report")
            if wanted == "reports":
                await self._reports(task_id, receive, send)
                return
            ask = self._round if wanted == "round" else self._announcement
            answer = await ask(Request(scope), task_id)
        except HTTPException as error:
            answer = problem_details.refused(error)
        except TidegateError as error:
            answer = problem_details.of(error)
        await answer(scope, receive, send)

    async def _round(self, request: Request, task_id: str) -> Response:
        facts = self._queue.known(task_id)
        if facts is None:
            facts = await asyncio.to_thread(self._queue.facts, task_id)
        if facts.retired is not None:
            raise MissingError("this task was retired: nobody is asked any more")
        # Before a report is drawn: it would be spent, and refused.
        if facts.shuffled != (SHUFFLER in request.headers):
            way = "through its shuffler" if facts.shuffled else "straight, not through a shuffler"
            raise HTTPException(MISDIRECTED, f"reports of this task come {way}")
        calendar, now = facts.calendar, self._queue.clock()
        number = calendar.number(now)
        message = RoundMessage(
            task=task_id,
            round=f"{task_id}.{number}",
            opens=calendar.text(calendar.opens(number)),
            closes=calendar.text(calendar.closes(number)),
            accepted_until=calendar.text(calendar.accepted_until(number)),
        )
        left = max(0, int(calendar.closes(number) - now))
        return _cached_for_devices(request, message.json(), ROUND, f'"{number}"', left)

    async def _announcement(self, request: Request, task_id: str) -> Response:
        names = request.query_params
        if not {"round", "client"} <= names.keys():
            raise HTTPException(422, "round and client must be given")
        answer = LoopAnswer()
        device = json_name(names, "round"), json_name(names, "client")
        self._queue.submit(DeviceQuestion(task_id, *device, answer))
        asked = await answer.woken
        if isinstance(asked, DeviceNotNow):
            return Response(status_code=204, headers={"Retry-After": str(asked.seconds)})
        left = max(0, int(asked.closes - self._queue.clock()))
        return _cached_for_devices(request, asked.text, ANNOUNCEMENT, f'"{asked.digest}"', left)

    async def _reports(self, task_id: str, receive: Receive, send: Send) -> None:
        read = await reports_of_devices(await read_push_body(receive, MOST_BYTES))
        answer = LoopAnswer()
        self._queue.submit(DeviceReports(task_id, read, answer))
        outcomes = await answer.woken
        ids = [one.client if isinstance(one, Report) else None for one in read]
        body = outcomes_json(ids, outcomes).encode()
        headers = [(b"content-type", OUTCOMES.encode()), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def device_routes(queue: DeviceQueue, access: Access) -> APIRouter:
    """The routes of devices under `/v1/tasks/{task_id}`; most are only documented here."""
    routes = APIRouter(prefix="/v1/tasks/{task_id}", route_class=StrictRoute)
    report = [access.allowed("report")]

    @routes.get("/round", dependencies=report, **_said_to_device(ROUND, "round"))
    async def which_round(task_id: str) -> Response:
        raise AssertionError(task_id)  # `DeviceRoutes` answers before a request comes this far

    @routes.get("/announcement", dependencies=report, **_announced_to_device())
    async def announcement(task_id: str, round: str, client: str) -> Response:  # noqa: A002  # as in messages
        raise AssertionError(task_id, round, client)

    @routes.post("/reports", dependencies=report, **_taken_from_device())
    async def reports(task_id: str) -> Response:
        raise AssertionError(task_id)

    @routes.post(
        "/batches",
        dependencies=[access.allowed("report shuffled")],
        openapi_extra=_BATCH,
        **documented_answers(BatchOutcome),
    )
    async def batches(request: Request, task_id: str) -> dict[str, Any]:
        key = request.headers.get("idempotency-key", "")
        if not 0 < len(key) <= 200:
            raise HTTPException(400, "Idempotency-Key is needed, of 1 to 200 characters")
        body = await read_push_body(request.receive, MOST_BYTES)
        key = request_id(access_holder(request).sender, "key", key)
        batch = ShuffledBatch(task_id, key, await asyncio.to_thread(_shuffled_route, body))
        queue.submit(batch)
        return await result_in_loop(batch.answer)

    return routes


def _cached_for_devices(request: Request, text: str, kind: str, tag: str, seconds: int) -> Response:
    headers = {"ETag": tag, "Cache-Control": f"private, max-age={seconds}"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(text, media_type=kind, headers=headers)


def _shuffled_route(body: bytes) -> Shuffled:
    plain: Any = None
    with suppress(ValueError, RecursionError):  # their words may quote the body
        plain = json.loads(body, object_pairs_hook=each_json_field_once)
    known = isinstance(plain, dict) and plain.keys() == {"round", "slots", "reports"}
    if not known or not isinstance(plain["round"], str):
        raise InputError('send {"round": "…", "slots": […], "reports": […]}')
    return Shuffled(plain["round"], plain["slots"], plain["reports"])


# -- their description in the OpenAPI document -----------------------------------------------------


def _said_to_device(kind: str, name: str, *, tagged: bool = True) -> dict[str, Any]:
    found = documented_answers(None, tagged=tagged)
    found["responses"][200] |= {
        "content": {kind: {"schema": documented_message(name)}},
        "model": None,
    }
    return {**found, "response_class": Response}


def _announced_to_device() -> dict[str, Any]:
    found = _said_to_device(ANNOUNCEMENT, "announcement")
    found["responses"][204] = {"description": "No place is free: ask again after Retry-After."}
    return found


def _taken_from_device() -> dict[str, Any]:
    lines = {"schema": {"type": "string", "description": "One report per line."}}
    content = {REPORT: {"schema": documented_message("report")}, REPORTS: lines}
    extra = {"requestBody": {"required": True, "content": content}}
    return {**_said_to_device(OUTCOMES, "outcomes", tagged=False), "openapi_extra": extra}


_BATCH = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": documented_message("shuffled")}},
    },
    "parameters": [push_idempotency_parameter(required=True)],
}
