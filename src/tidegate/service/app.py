"""The HTTP interface, version 1: routes, errors, headers and the live page put together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files

from fastapi import FastAPI
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from tidegate._version import __version__
from tidegate.service import devices, problem_details
from tidegate.service.access import Access, AccessHolder
from tidegate.service.admin_routes import admin_routes
from tidegate.service.answers_ahead import AnswersAhead
from tidegate.service.clock_ticks import ClockTicks
from tidegate.service.column_routes import column_routes
from tidegate.service.devices.device_queue import DeviceQueue
from tidegate.service.devices.device_routes import DeviceCORS, DeviceRoutes
from tidegate.service.gate import GateThread
from tidegate.service.http_etags import GivenETags
from tidegate.service.live_readers import LiveReaders
from tidegate.service.openapi_document import openapi_document
from tidegate.service.prometheus_metrics import Metrics
from tidegate.service.push_group import PushGroup
from tidegate.service.push_route import PushRoute
from tidegate.service.query_route import query_route
from tidegate.service.request_limits import RequestFront, RequestLimits
from tidegate.service.stored_tokens import Tokens
from tidegate.service.stream_routes import stream_routes
from tidegate.service.value_routes import value_routes

_log = logging.getLogger(__name__)


class _App(FastAPI):
    """An ASGI app with a front before the framework.

    Values and reports are answered there: layers of the framework take longer than they do.
    """

    front: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, or the start and the end of the service.

        HEAD is answered as GET, and the server leaves out the body; but not where that never ends
        (`live`), or where asking does something (`announcement`).
        """
        head = scope["type"] == "http" and scope["method"] == "HEAD"
        if head and not scope["path"].endswith(("/live", "/announcement")):
            scope = {**scope, "method": "GET"}
        await (self.front if scope["type"] == "http" else self.framework)(scope, receive, send)

    async def framework(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The framework behind the front."""
        await super().__call__(scope, receive, send)


def make_app(
    gate: GateThread,
    tokens: Tokens,
    live: LiveReaders,
    *,
    public_reading: bool = False,
    limits: RequestLimits | None = None,
    issued: Callable[[str], Awaitable[AccessHolder | None]] | None = None,
) -> FastAPI:
    """The service over an open gate, which the app closes when it ends.

    Args:
        gate: what releases.
        tokens: who may do what.
        live: wakes live readers.
        public_reading: released data needs no token: they are made to be published.
        limits: what one client may ask.
        issued: checks tokens of somebody else (OpenID Connect).
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        live.begin(asyncio.get_running_loop())
        beside = [asyncio.create_task(one.run()) for one in (ClockTicks(gate), ahead)]
        await ahead.ready()
        yield
        for task in beside:
            task.cancel()
        await asyncio.to_thread(gate.close)
        _log.info("the service has stopped: what waited is released")

    app = _App(
        title="Tidegate",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        openapi_url="/v1/openapi.json",
    )
    app.state.given = GivenETags()
    app.openapi = partial(openapi_document, app)  # type: ignore[method-assign]  # as the framework says
    problem_details.install(app)
    access = Access(tokens, public_reading=public_reading, issued=issued)
    metrics, ahead = Metrics(live), AnswersAhead(gate)
    queue = DeviceQueue(gate)
    queue.listener = metrics.count_devices
    app.front = DeviceCORS(
        RequestFront(
            app.framework,
            access=access,
            limits=limits or RequestLimits(),
            direct=(PushRoute(gate, access), DeviceRoutes(queue, access)),
            telemetry=gate.telemetry,
        )
    )

    def released(group: PushGroup) -> None:
        metrics.count(group)
        live.tell(group)
        ahead.released(group.rows)

    gate.listener = released

    app.include_router(stream_routes(gate, access))
    app.include_router(value_routes(gate, live, access, ahead))
    app.include_router(query_route(gate, access))
    app.include_router(column_routes(gate, access))
    app.include_router(admin_routes(gate, access, metrics))
    devices.install(app, queue, access)
    install_live_page(app)
    return app


_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


def install_live_page(app: FastAPI) -> None:
    """Serve the page at `/`."""
    pages = files("tidegate.service") / "pages"
    known = {item.name: item.read_bytes() for item in pages.iterdir() if item.is_file()}

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return _served_app("index.html", known)

    @app.get("/pages/plotly.js", include_in_schema=False)
    async def charts() -> Response:
        script = (files("plotly") / "package_data" / "plotly.min.js").read_bytes()
        return Response(script, media_type=_TYPES["js"], headers={"Cache-Control": "max-age=86400"})

    @app.get("/pages/{name}", include_in_schema=False)
    async def part(name: str) -> Response:
        return _served_app(name, known)


def _served_app(name: str, known: dict[str, bytes]) -> Response:
    kind = _TYPES.get(name.rpartition(".")[2])
    if name not in known or kind is None:
        raise HTTPException(404, "there is no such page")
    return Response(known[name], media_type=kind)
