"""The shuffler as a process: to devices it has the HTTP interface of the service."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from urllib.parse import quote, urlsplit

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse, Response

from tidegate._version import __version__
from tidegate.errors import SettingError
from tidegate.local.announcements_and_reports import Announcement, Report
from tidegate.local.canonical_json import LONGEST
from tidegate.local.report_delivery import HttpAnswer, http_call
from tidegate.local.task_messages import (
    ANNOUNCEMENT,
    OUTCOMES,
    ROUND,
    SHUFFLER,
    RoundMessage,
    outcomes_json,
)
from tidegate.service import logs_and_traces, problem_details
from tidegate.service.devices.device_requests import device_digest
from tidegate.service.devices.device_routes import MOST_BYTES, DeviceCORS, reports_of_devices
from tidegate.service.pending_requests import Busy
from tidegate.service.push_route import read_push_body
from tidegate.service.shuffler.forwarding import Forwarder
from tidegate.service.shuffler.shuffler_store import ShufflerStore
from tidegate.service.slow_requests import SlowRequestProtocol

_OK = 200
_STRANGERS = (401, 403)  # a token that the service does not know, or of another role
_TRUSTED = 60.0  # seconds for which a token is let in without the service being asked again
_MOST_TRUSTED = 10_000  # tokens; devices as a rule share one


class ShufflerApp:
    """Passes questions on, and stores reports.

    Args:
        store: of the shuffler.
        forwarder: sends batches.
        service: its address.
        clock: seconds since 1970.
    """

    def __init__(
        self,
        store: ShufflerStore,
        forwarder: Forwarder,
        service: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._forwarder = store, forwarder
        self._service, self._clock = service.rstrip("/"), clock
        self._let_in: dict[bytes, float] = {}  # when the service last said so, by digest

    def app(self) -> FastAPI:
        """The ASGI application; it forwards batches while it runs."""

        @asynccontextmanager
        async def lifespan(_: FastAPI) -> AsyncIterator[None]:
            self._forwarder.start()
            yield
            await asyncio.to_thread(self._forwarder.stop)
            self._store.close()

        app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
        problem_details.install(app)

        @app.middleware("http")
        async def guarded(
            request: Request, following: Callable[[Request], Awaitable[Response]]
        ) -> Response:
            try:
                return await following(request)
            except Exception as error:  # noqa: BLE001  # its words may quote a report
                return problem_details.fault(error)

        task = "/v1/tasks/{task_id}"
        app.add_api_route(f"{task}/round", self.round)
        app.add_api_route(f"{task}/announcement", self.announcement)
        app.add_api_route(f"{task}/reports", self.reports, methods=["POST"])
        app.add_api_route("/healthz", self.alive)
        app.add_middleware(DeviceCORS)
        return app

    async def alive(self, _: Request) -> PlainTextResponse:
        """Whether batches are being forwarded."""
        failure = self._forwarder.failure
        return PlainTextResponse(failure or "ok", 503 if failure else _OK)

    async def round(self, request: Request) -> Response:
        """The open round, from the service."""
        answer = await self._passed_on(request, "/round", LONGEST["round"])
        token = _shuffler_token_digest(request)
        if answer.status == _OK:
            message = RoundMessage.from_json(answer.body)
            times = (
                datetime.fromisoformat(one) for one in (message.closes, message.accepted_until)
            )
            moments = [one.timestamp() for one in times]
            await asyncio.to_thread(self._store.keep_round, message.round, message.task, *moments)
            await asyncio.to_thread(self._store.keep_token, token, moments[-1])
            if len(self._let_in) >= _MOST_TRUSTED:
                self._let_in.clear()  # the service is asked once more about each
            self._let_in[token] = self._clock()
        elif answer.status in _STRANGERS:
            self._let_in.pop(token, None)
            await asyncio.to_thread(self._store.forget_token, token)
        return _shuffler_answer_as_it_came(answer, ROUND)

    async def announcement(self, request: Request) -> Response:
        """The question for a device, from the service; stored, to check the device's report."""
        asked = {name: request.query_params.get(name, "") for name in ("round", "client")}
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in asked.items())
        answer = await self._passed_on(request, f"/announcement?{query}", LONGEST["announcement"])
        if answer.status == _OK:
            text = answer.body.decode()
            message = await asyncio.to_thread(Announcement.from_json, text)
            device = device_digest(asked["client"])
            await asyncio.to_thread(
                self._store.keep_asked, message.round, device, message.slot, text
            )
        return _shuffler_answer_as_it_came(answer, ANNOUNCEMENT)

    async def reports(self, request: Request) -> Response:
        """Store reports; return an outcome for each."""
        refused = await self._refused(request)
        if refused is not None:
            return refused
        read = await reports_of_devices(await read_push_body(request.receive, MOST_BYTES))
        outcomes = await asyncio.to_thread(self._outcomes, read)
        ids = [one.client if isinstance(one, Report) else None for one in read]
        return Response(outcomes_json(ids, outcomes), media_type=OUTCOMES)

    async def _refused(self, request: Request) -> Response | None:
        """The response to a sender who may not report. None: the service accepts this token.

        The service is asked again once a minute, so a token that was revoked there ends here, too.
        While it is unreachable, or after the task was retired, a token that was accepted for a
        round still counts until the round takes no more reports: these would be lost together with
        the ε that they have spent. Nobody else is let in.
        """
        token, now = _shuffler_token_digest(request), self._clock()
        if 0 <= now - self._let_in.get(token, -_TRUSTED) < _TRUSTED:
            return None
        known = await asyncio.to_thread(self._store.token_until, token) is not None
        try:
            answer = await self.round(request)
        except Busy:
            if known:
                return None
            raise
        if answer.status_code == _OK or (known and answer.status_code not in _STRANGERS):
            return None
        return answer  # also 404 or 431, say: nothing but 200 says that a new token is let in

    def _outcomes(self, read: list[Report | str]) -> list[str]:
        outcomes = [one if isinstance(one, str) else self._problem(one) for one in read]
        good = [
            (one, device_digest(one.client))
            for one, problem in zip(read, outcomes, strict=True)
            if isinstance(one, Report) and problem is None
        ]
        taken = iter(self._store.take(good))
        return [next(taken) if outcome is None else outcome for outcome in outcomes]

    def _problem(self, report: Report) -> str | None:
        until = self._store.until(report.round)
        if until is None:
            return "round"
        if self._clock() >= until - 2 * self._forwarder.every:  # it could not be sent in time
            return "late"
        text = self._store.question(report.round, report.slot)
        if text is None:
            return "slot"
        return report.problem_with(Announcement.from_json(text))

    async def _passed_on(self, request: Request, path: str, longest: int) -> HttpAnswer:
        """Ask the service with the device's own token, but without its address."""
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        url = f"{self._service}/v1/tasks/{quote(request.path_params['task_id'], safe='')}{path}"
        try:
            asked = partial(http_call, "GET", url, b"", "", token or None, longest)
            return await asyncio.to_thread(asked, more={SHUFFLER: __version__})
        except OSError:
            raise Busy("the service cannot be reached: send it again in a moment") from None


def _shuffler_token_digest(request: Request) -> bytes:
    """A digest of the request's token: the shuffler stores no secrets of others."""
    return hashlib.sha256(request.headers.get("authorization", "").encode()).digest()


def _shuffler_answer_as_it_came(answer: HttpAnswer, kind: str) -> Response:
    headers = {} if answer.retry_after is None else {"Retry-After": str(answer.retry_after)}
    media = kind if answer.status == _OK else problem_details.MEDIA_TYPE
    body = answer.body if answer.status != 204 else b""  # as HTTP counts
    return Response(body, answer.status, headers, media_type=media)


def run_shuffler(
    folder: Path,
    service: str,
    token: str,
    *,
    host: str,
    port: int,
    size: int,
    every: float,
    certificate: Path | None = None,
    private_key: Path | None = None,
) -> None:
    """Serve until a signal comes; waiting reports are on the disk."""
    place = urlsplit(service)
    if place.scheme not in ("http", "https") or not place.hostname:
        raise SettingError("to", "must be the address of a service: https://host")
    store = ShufflerStore(folder)
    forwarder = Forwarder(store, service, token, size=size, every=every)
    logs_and_traces.begin_log("text")
    uvicorn.run(
        ShufflerApp(store, forwarder, service).app(),
        host=host,
        port=port,
        http=SlowRequestProtocol,
        proxy_headers=False,  # addresses of devices are not logged
        ssl_certfile=certificate,
        ssl_keyfile=private_key,
        log_config=None,  # ours: a traceback could quote a report
        log_level="warning",
        access_log=False,  # it would hold addresses of devices
        server_header=False,
        timeout_graceful_shutdown=5,
    )
