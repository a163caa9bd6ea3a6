"""Routes of operators: tokens, caps, ledger entries, metrics, health."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import PlainTextResponse, Response
from pydantic import BaseModel, ConfigDict, Field, StrictFloat

from tidegate.ledger import Ledger
from tidegate.ledger.entries import CapChange, Charge, Closing, Declaration, Entry, Opening
from tidegate.service.access import Access, Given, access_holder
from tidegate.service.gate import GateThread
from tidegate.service.http_etags import etagged_answer
from tidegate.service.ledger_answer_models import (
    Audit,
    ListedToken,
    MadeToken,
    RevokedTokens,
    Session,
    SourceCap,
    SourceCharges,
    Spent,
)
from tidegate.service.openapi_document import documented_answers
from tidegate.service.prometheus_metrics import MEDIA_TYPE, Metrics
from tidegate.service.source_charges import source_charges
from tidegate.service.stored_tokens import make_token_in, revoke_in
from tidegate.service.strict_json import StrictRoute

Source = Annotated[str, Path(max_length=200)]


class Cap(BaseModel):
    """How much a source may spend."""

    model_config = ConfigDict(extra="forbid")

    cap: str | StrictFloat = Field(examples=["1"], description="As text it is exact.")


class NewToken(BaseModel):
    """A token to make."""

    model_config = ConfigDict(extra="forbid")

    role: str = Field(examples=["producer"])
    label: str = Field(min_length=1, max_length=200, examples=["meters"])


def admin_routes(gate: GateThread, access: Access, metrics: Metrics) -> APIRouter:
    """The ledger, tokens, metrics and health."""
    routes = APIRouter(route_class=StrictRoute)
    tokens, manage = access.tokens, [access.allowed("manage")]
    ledger = [access.allowed("read ledger")]

    @routes.get("/v1/ledger", dependencies=ledger, **documented_answers(Spent, tagged=True))
    async def spent(request: Request) -> Response:
        def read(book: Ledger) -> dict[str, Any]:
            cap = None if book.cap is None else str(book.cap)
            sources = {name: str(book.total(name)) for name in book.sources}
            left = {name: book.left(name) for name in book.sources}
            return {
                "entries": book.count,
                "head": book.head,
                "cap": cap,
                "caps": {name: str(own) for name, own in book.caps.items()},
                "sources": sources,
                "left": {name: None if one is None else str(one) for name, one in left.items()},
            }

        return etagged_answer(request, await asyncio.to_thread(gate.spent, read))

    @routes.get("/v1/audit", dependencies=ledger, **documented_answers(Audit, tagged=True))
    async def audit(
        request: Request,
        start: Annotated[int, Query(ge=0)] = 0,
        limit: Annotated[int, Query(ge=0, le=10_000)] = 1000,
    ) -> Response:
        """Everything that was charged or changed, each entry with the hash of all before it."""

        def read(book: Ledger) -> dict[str, Any]:
            entries = [ledger_entry_for_admins(one) for one in book.entries[start : start + limit]]
            return {"entries": entries, "count": book.count, "head": book.head}

        return etagged_answer(request, await asyncio.to_thread(gate.spent, read))

    @routes.get(
        "/v1/sources/{source:path}",
        dependencies=ledger,
        **documented_answers(SourceCharges, tagged=True),
    )
    async def charges(request: Request, source: Source) -> Response:
        """What each range of its rows has spent, charge by charge."""
        return etagged_answer(request, await asyncio.to_thread(source_charges, gate, source))

    @routes.put("/v1/sources/{source:path}", dependencies=manage, **documented_answers(SourceCap))
    async def set_cap(source: Source, change: Cap) -> dict[str, Any]:
        """The most ε that a source may ever spend."""

        def changed() -> None:
            gate.streams.set_cap(change.cap, source)

        await asyncio.wrap_future(gate.call(changed))
        return {"source": source, "cap": str(change.cap)}

    @routes.get("/v1/session", **documented_answers(Session))
    async def session(request: Request, given: Given) -> dict[str, Any]:  # noqa: ARG001  # as above
        role = access_holder(request).role
        return {"role": role, "may": sorted(access.permissions(role))}

    @routes.post("/v1/tokens", dependencies=manage, **documented_answers(MadeToken, 201))
    async def make_token(new: NewToken) -> dict[str, str]:
        token = await asyncio.wrap_future(make_token_in(gate, tokens, new.role, new.label))
        await asyncio.to_thread(tokens.changed)
        return {"token": token, "role": new.role, "label": new.label}

    @routes.get("/v1/tokens", dependencies=manage, **documented_answers(list[ListedToken]))
    async def list_tokens() -> list[dict[str, str]]:
        return await asyncio.to_thread(tokens.listed)

    @routes.delete(
        "/v1/tokens/{label:path}", dependencies=manage, **documented_answers(RevokedTokens)
    )
    async def revoke_tokens(label: str) -> dict[str, int]:
        removed = await asyncio.wrap_future(revoke_in(gate, tokens, label))
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


def ledger_entry_for_admins(entry: Entry) -> dict[str, Any]:
    """An entry of the ledger as JSON. Nothing in it is secret."""
    common = {"sequence": entry.sequence, "time": entry.time.isoformat(), "hash": entry.hash}
    more: dict[str, Any] = {"kind": "note"}
    if isinstance(entry, Charge):
        more = {"kind": "charge", "source": entry.source, "part": entry.part, "stage": entry.stage}
        more |= {"start": entry.start, "end": entry.end, "guarantee": str(entry.guarantee)}
        more["epoch"] = entry.epoch
    elif isinstance(entry, CapChange):
        more = {"kind": "cap", "source": entry.source, "epsilon": str(entry.epsilon)}
    elif isinstance(entry, Declaration):
        more = {"kind": "declaration", "source": entry.source, "disjoint": entry.disjoint}
    elif isinstance(entry, Closing):
        more = {"kind": "close", "charge": entry.charge, "end": entry.end}
    elif isinstance(entry, Opening):
        more = {"kind": "opening", "id": entry.id}
    return {**common, **more, "note": entry.note}
