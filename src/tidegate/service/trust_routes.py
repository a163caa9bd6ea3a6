"""Who may do what, what was spent, and how the service is."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from tidegate.ledger import Ledger
from tidegate.service.access import Access, Given
from tidegate.service.gate import Gate
from tidegate.service.metrics import MEDIA_TYPE, Metrics


class NewToken(BaseModel):
    """A token to make."""

    model_config = ConfigDict(extra="forbid")

    role: str = Field(examples=["producer"])
    label: str = Field(min_length=1, max_length=200, examples=["meters"])


def trust_routes(gate: Gate, access: Access, metrics: Metrics) -> APIRouter:
    """The ledger, tokens, metrics and health."""
    routes = APIRouter()
    tokens, manage = access.tokens, [access.allowed("manage")]

    @routes.get("/v1/ledger", dependencies=[access.allowed("read ledger")])
    async def spent() -> dict[str, Any]:
        def read(book: Ledger) -> dict[str, Any]:
            cap = None if book.cap is None else str(book.cap)
            sources = {name: str(book.total(name)) for name in book.sources}
            return {"entries": book.count, "head": book.head, "cap": cap, "sources": sources}

        return await asyncio.to_thread(gate.spent, read)

    @routes.get("/v1/session")
    async def session(given: Given) -> dict[str, Any]:
        role = await access.role(given)
        return {"role": role, "may": sorted(access.permissions(role))}

    @routes.post("/v1/tokens", status_code=201, dependencies=manage)
    async def make_token(new: NewToken) -> dict[str, str]:
        token = await asyncio.wrap_future(gate.call(lambda: tokens.make(new.role, new.label)))
        await asyncio.to_thread(tokens.changed)
        return {"token": token, "role": new.role, "label": new.label}

    @routes.get("/v1/tokens", dependencies=manage)
    async def list_tokens() -> list[dict[str, str]]:
        return await asyncio.to_thread(tokens.listed)

    @routes.delete("/v1/tokens/{label}", dependencies=manage)
    async def revoke_tokens(label: str) -> dict[str, int]:
        removed = await asyncio.wrap_future(gate.call(lambda: tokens.revoke(label)))
        await asyncio.to_thread(tokens.changed)
        return {"removed": removed}

    @routes.get("/metrics", include_in_schema=False, dependencies=[access.allowed("read")])
    async def numbers() -> Response:
        return Response(metrics.text(), media_type=MEDIA_TYPE)

    @routes.get("/healthz", include_in_schema=False)
    async def alive() -> PlainTextResponse:
        return PlainTextResponse("ok")

    @routes.get("/readyz", include_in_schema=False)
    async def ready() -> PlainTextResponse:
        failure = gate.failure
        return PlainTextResponse(failure or "ok", 503 if failure else 200)

    return routes
