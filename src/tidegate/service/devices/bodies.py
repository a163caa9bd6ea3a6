"""Bodies of requests with reports: read no further than they may be long."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.requests import Request

from tidegate.local.messages import Report, parsed

_MOST_REPORTS = 10_000  # in one request
_MOST_BYTES = 4 << 20
_SMALL = 1 << 14  # bytes of a body that is parsed at once


async def read_body(request: Request) -> bytes:
    """The body; too long a one is refused before all of it was read."""
    pieces, size = [], 0
    async for piece in request.stream():
        size += len(piece)
        if size > _MOST_BYTES:
            raise HTTPException(413, f"at most {_MOST_BYTES >> 20} MiB in one request")
        pieces.append(piece)
    return b"".join(pieces)


async def reports_of(body: bytes) -> list[Report | str]:
    """The reports, a line each, as they were read, or why they could not be."""
    lines = [line for line in body.splitlines() if line.strip()]
    if len(lines) > _MOST_REPORTS:
        raise HTTPException(413, f"at most {_MOST_REPORTS:,} reports in one request")
    if len(body) > _SMALL:
        return await asyncio.to_thread(lambda: [parsed(line) for line in lines])
    return [parsed(line) for line in lines]
