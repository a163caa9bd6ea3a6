"""The HTTP interface, version 1: routes, errors and headers put together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.responses import Response

from tidegate._version import __version__
from tidegate.service import devices, page, problems
from tidegate.service.access import Access
from tidegate.service.gate import Gate
from tidegate.service.group import Group
from tidegate.service.live import Live
from tidegate.service.metrics import Metrics
from tidegate.service.range_routes import range_routes
from tidegate.service.stream_routes import stream_routes
from tidegate.service.tokens import Tokens
from tidegate.service.trust_routes import trust_routes

_SECURITY = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}


def make_app(gate: Gate, tokens: Tokens, live: Live, *, public_reading: bool = False) -> FastAPI:
    """The service over an open gate, which the app closes when it ends.

    Args:
        gate: what releases.
        tokens: who may do what.
        live: wakes live readers.
        public_reading: released data needs no token: they are made to be published.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        live.begin(asyncio.get_running_loop())
        yield
        await asyncio.to_thread(gate.close)

    app = FastAPI(
        title="Tidegate",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        openapi_url="/v1/openapi.json",
    )
    problems.install(app)
    access, metrics = Access(tokens, public_reading=public_reading), Metrics(live)

    def released(group: Group) -> None:
        metrics.count(group)
        live.tell(group)

    gate.listener = released

    @app.middleware("http")
    async def headers(
        request: Request, following: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        try:
            response = await following(request)
        except Exception as error:  # noqa: BLE001  # its words may quote the data
            response = problems.fault(error)
        for name, value in _SECURITY.items():
            response.headers.setdefault(name, value)
        return response

    app.include_router(stream_routes(gate, live, access))
    app.include_router(range_routes(gate, access))
    app.include_router(trust_routes(gate, access, metrics))
    devices.install(app, gate, access)
    page.install(app)
    return app
