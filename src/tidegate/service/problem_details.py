"""Errors as problem details (RFC 9457): what happened and what to do, never a value."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from tidegate.durable import StorageError
from tidegate.errors import (
    MissingError,
    RefusedError,
    TidegateError,
)
from tidegate.exact_numbers import said
from tidegate.ledger import CapExceeded
from tidegate.service.client.http import TITLES
from tidegate.service.pending_requests import Busy, Conflict, Fault

MEDIA_TYPE = "application/problem+json"
_MOST = 8  # places of a wrong request that are named
_log = logging.getLogger(__name__)
# The first that fits decides.
_KINDS: tuple[tuple[type[TidegateError], int, str], ...] = (
    (Busy, 429, "too much is waiting"),
    (Conflict, 409, "conflict"),
    (CapExceeded, 403, "the budget is spent"),
    (MissingError, 404, "not found"),
    (StorageError, 503, "the database is not available"),
    *((kind, 422, title) for kind, title in TITLES.items()),
    (RefusedError, 409, "refused"),
    (Fault, 500, "a fault of Tidegate"),
    (TidegateError, 400, "refused"),
)


def problem(
    status: int, title: str, detail: str, *, headers: dict[str, str] | None = None, **more: Any
) -> JSONResponse:
    """A response with problem details."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}
    return JSONResponse(body, status, headers, media_type=MEDIA_TYPE)


class RefusedRequest(HTTPException):  # as `HTTPException`, which it is
    """A refusal of a request, with its response."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(status, detail, headers)

    @property
    def answer(self) -> JSONResponse:
        """The response for the client."""
        return refused(self)


def of(error: TidegateError, **more: Any) -> JSONResponse:
    """The response to an error of ours; these carry no values."""
    status, title = next((code, name) for kind, code, name in _KINDS if isinstance(error, kind))
    headers = {"Retry-After": "1"} if status in (429, 503) else None
    if isinstance(error, Conflict) and error.seen is not None:
        more |= {"seen": error.seen}
    detail = _problem_of_spent(error) if isinstance(error, CapExceeded) else str(error)
    return problem(status, title, detail, headers=headers, **more)


def _problem_of_spent(error: CapExceeded) -> str:
    """The response to an exceeded cap. Producers get it too, so it omits what was spent."""
    return (
        f"source {said(error.source)}: this would cost more than its cap allows. Nothing was "
        "released. An admin sees what was spent in GET /v1/ledger, and changes the cap with PUT "
        "/v1/sources/NAME"
    )


def refused(error: HTTPException) -> JSONResponse:
    """The response to a refused request."""
    headers = dict(error.headers) if error.headers else None
    return problem(error.status_code, "refused", str(error.detail), headers=headers)


def install(app: FastAPI) -> None:
    """Answer every error of the app in this form. Frameworks echo input by default."""

    @app.exception_handler(TidegateError)
    async def ours(_: Request, error: TidegateError) -> JSONResponse:
        return of(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        places = sorted({_problem_place(one) for one in error.errors()})
        more = f" and {len(places) - _MOST} more" if len(places) > _MOST else ""
        return problem(
            422,
            "the request is wrong",
            f"{'; '.join(places[:_MOST])}{more}",
        )

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> JSONResponse:
        return refused(error)

    @app.exception_handler(Exception)
    async def unknown(_: Request, error: Exception) -> JSONResponse:
        return _fault_problem(
            _place_in_problem_details(error)
        )  # the framework raises it again: `RequestFront` logs it


def _problem_place(one: dict[str, Any]) -> str:
    """The place and the kind of a mistake; names of unknown fields are the client's own text."""
    where = [str(part) for part in one["loc"]]
    if one["type"] == "json_invalid":
        return f"the {where[0]} is not JSON, at character {where[-1]}"
    if one["type"] == "extra_forbidden":
        return f"{'.'.join(where[:-1])} has an unknown field"
    return f"{'.'.join(where)} is {'missing' if one['type'] == 'missing' else 'wrong'}"


def fault(error: Exception) -> JSONResponse:
    """The response to an unexpected error, without its message or traceback.

    Both may quote the data. The framework would write them to its log.
    """
    place = _place_in_problem_details(error)
    _log.error("this should not happen: %s", place)
    return _fault_problem(place)


def _place_in_problem_details(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(frame.filename).name}, line {frame.lineno}"


def _fault_problem(place: str) -> JSONResponse:
    return problem(500, "a fault of Tidegate", f"{place}. Please report it (SECURITY.md)")
