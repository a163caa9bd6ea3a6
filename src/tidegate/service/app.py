"""The HTTP interface, version 1."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from tidegate import methods
from tidegate._version import __version__
from tidegate.durable import DurableRelease
from tidegate.errors import SettingError
from tidegate.run.pipeline import Pipeline
from tidegate.service import ingest, problems
from tidegate.service.answers import described, sums, table
from tidegate.service.gate import Gate
from tidegate.service.live import Live, as_json
from tidegate.service.page import install as install_page
from tidegate.service.pending import Pending
from tidegate.service.released_rows import between
from tidegate.service.streams import Stream
from tidegate.service.tokens import PERMISSIONS, Tokens

_BEARER = HTTPBearer(auto_error=False)
_MOST_ROWS = 100_000  # in an answer
_SECURITY = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}


class NewStream(BaseModel):
    """A stream to create: a method of `tidegate methods`, and its settings."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(examples=["meters"])
    method: str = "adaptive"
    epsilon: str | float = Field(
        examples=["0.5"], description="A decimal or a fraction; as text it is exact."
    )
    bound: str | float = Field(examples=["100"], description="A public upper bound of a value.")
    source: str | None = Field(None, description="Streams of one source add up in the ledger.")
    settings: dict[str, Any] = Field(
        default_factory=dict, description="Further settings of the method."
    )

    def pipeline(self) -> Pipeline:
        """The pipeline of these settings."""
        if self.method not in methods.names():
            raise SettingError("method", f"must be one of {', '.join(methods.names())}")
        made = methods.find(self.method).preset(self.epsilon, self.bound, **self.settings)
        if not isinstance(made, Pipeline):
            raise SettingError("method", f"{self.method} is of the local model")
        return made


def make_app(gate: Gate, tokens: Tokens, live: Live, *, public_reading: bool = False) -> FastAPI:
    """The service over an open database. The app opens and closes the gate.

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
    gate.listener = live.tell

    def allowed(permission: str) -> Any:
        async def check(
            given: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)],
        ) -> None:
            if permission == "read" and public_reading:
                return
            role = None
            if given is not None:
                role = await asyncio.to_thread(tokens.role, given.credentials)
            if role is None:
                wanted = {"WWW-Authenticate": "Bearer"}
                raise HTTPException(401, "a token is needed: Authorization: Bearer …", wanted)
            if permission not in PERMISSIONS[role]:
                raise HTTPException(403, f"a {role} may not do this")

        return Depends(check)

    async def asked(name: str, question: Callable[[DurableRelease], Any]) -> Any:
        return await asyncio.to_thread(gate.ask, name, question)

    @app.middleware("http")
    async def headers(
        request: Request, following: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        response = await following(request)
        for name, value in _SECURITY.items():
            response.headers.setdefault(name, value)
        return response

    # -- streams ---------------------------------------------------------------------------------

    @app.post("/v1/streams", status_code=201, dependencies=[allowed("manage")])
    async def create(new: NewStream) -> dict[str, Any]:
        pipeline = await asyncio.to_thread(new.pipeline)
        made = gate.call(lambda: gate.streams.create(new.name, pipeline, new.source))
        return shown(await asyncio.wrap_future(made))

    @app.get("/v1/streams", dependencies=[allowed("read")])
    async def listed() -> list[dict[str, Any]]:
        return [shown(stream) for stream in await asyncio.to_thread(gate.streams.listed)]

    @app.get("/v1/streams/{name}", dependencies=[allowed("read")])
    async def one(name: str) -> dict[str, Any]:
        facts: dict[str, Any] = await asked(name, described)
        return facts

    @app.post("/v1/streams/{name}/retire", dependencies=[allowed("manage")])
    async def retire(name: str) -> dict[str, Any]:
        done = gate.call(lambda: gate.streams.retire(name))
        return shown(await asyncio.wrap_future(done))

    # -- values ----------------------------------------------------------------------------------

    @app.post(
        "/v1/streams/{name}/values",
        status_code=202,
        dependencies=[allowed("write")],
        openapi_extra=_INGEST,
    )
    async def push(
        request: Request, name: str, start: int | None = None, zone: str | None = None
    ) -> JSONResponse:
        if int(request.headers.get("content-length") or 0) > ingest.MOST_BYTES:
            raise HTTPException(413, f"at most {ingest.MOST_BYTES >> 20} MiB in one request")
        body = await _body(request)
        kind = request.headers.get("content-type", "application/json")
        if len(body) > 1 << 16:
            values, times = await asyncio.to_thread(ingest.parsed, body, kind, zone)
        else:
            values, times = ingest.parsed(body, kind, zone)
        key = request.headers.get("idempotency-key")
        if key is not None and not 0 < len(key) <= 200:
            raise HTTPException(400, "Idempotency-Key must have 1 to 200 characters")
        pending = Pending(name, values, times, key, start)
        gate.submit(pending)
        receipt = await asyncio.wrap_future(pending.answer)
        return JSONResponse(vars(receipt), 200 if receipt.repeated else 202)

    @app.get("/v1/streams/{name}/values", dependencies=[allowed("read")])
    async def values(name: str, start: int = 0, limit: int = 1000) -> dict[str, Any]:
        await asked(name, lambda run: run.position)  # 404 if there is none
        limit = max(0, min(limit, _MOST_ROWS))
        rows = await asyncio.to_thread(
            lambda: list(between(gate.database, name, start, start + limit))
        )
        pages = [as_json(page) for page in rows]
        return {"rows": pages, "next": start + sum(page.values.size for page in rows)}

    @app.get("/v1/streams/{name}/sum", dependencies=[allowed("read")])
    async def total(request: Request, name: str) -> dict[str, Any]:
        found: dict[str, Any] = await asked(name, lambda run: sums(run, request.query_params))
        return found

    @app.get("/v1/streams/{name}/table", dependencies=[allowed("read")])
    async def by_time(request: Request, name: str) -> dict[str, Any]:
        found: dict[str, Any] = await asked(name, lambda run: table(run, request.query_params))
        return found

    @app.get("/v1/streams/{name}/live", dependencies=[allowed("read")])
    async def follow(request: Request, name: str, start: int | None = None) -> StreamingResponse:
        position = await asked(name, lambda run: run.position)
        seen = request.headers.get("last-event-id", "")
        first = int(seen) if seen.isdigit() else position if start is None else start
        return StreamingResponse(live.events(name, first), media_type="text/event-stream")

    # -- trust and operation ---------------------------------------------------------------------

    @app.get("/v1/ledger", dependencies=[allowed("read ledger")])
    async def spent() -> dict[str, Any]:
        def read() -> dict[str, Any]:
            with gate.lock:
                book = gate.streams.ledger
                cap = None if book.cap is None else str(book.cap)
                sources = {name: str(book.total(name)) for name in book.sources}
                return {"entries": book.count, "head": book.head, "cap": cap, "sources": sources}

        return await asyncio.to_thread(read)

    @app.get("/healthz", include_in_schema=False)
    async def alive() -> PlainTextResponse:
        return PlainTextResponse("ok")

    @app.get("/readyz", include_in_schema=False)
    async def ready() -> PlainTextResponse:
        failure = gate.failure
        return PlainTextResponse(failure or "ok", 503 if failure else 200)

    install_page(app)
    return app


def shown(stream: Stream) -> dict[str, Any]:
    """The public facts of a stream."""
    guarantee = str(stream.pipeline.guarantee)
    return {**vars(stream), "guarantee": guarantee}


async def _body(request: Request) -> bytes:
    """The body, read no further than it may be long."""
    pieces, size = [], 0
    async for piece in request.stream():
        size += len(piece)
        if size > ingest.MOST_BYTES:
            raise HTTPException(413, f"at most {ingest.MOST_BYTES >> 20} MiB in one request")
        pieces.append(piece)
    return b"".join(pieces)


_NUMBERS = {
    "oneOf": [
        {"type": "number"},
        {"type": "array", "items": {"type": "number"}},
        {"type": "object"},
    ]
}
_INGEST = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": _NUMBERS},
            "application/x-ndjson": {"schema": {"type": "string"}},
            ingest.ARROW: {"schema": {"type": "string", "format": "binary"}},
        },
    },
    "parameters": [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "schema": {"type": "string", "maxLength": 200},
        }
    ],
}
