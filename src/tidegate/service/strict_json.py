"""Refuse JSON objects with a repeated field: two readers may differ on which one counts."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from tidegate.errors import InputError
from tidegate.io.json_rows import FieldTwice, each_json_field_once
from tidegate.service.problem_details import RefusedRequest

_TWICE = "the body has a field twice"


def check_strict_json(
    text: bytes, counts: Iterable[tuple[str, int]], *, lines: bool = False
) -> None:
    """Refuse JSON text with a field that occurs twice in one object.

    As a rule it is enough to count: the text is parsed again only where a name has an escape, or
    comes more often than fields have it.

    Args:
        text: an object, or an object a line.
        counts: the names of all fields, and how many objects have each.
        lines: every line is an object of its own.
    """
    if b"\\" not in text and all(
        text.count(b'"%s"' % name.encode()) == count for name, count in counts
    ):
        return
    try:
        for one in text.splitlines() if lines else [text]:
            json.loads(one, object_pairs_hook=each_json_field_once, parse_int=float)
    except (ValueError, RecursionError):
        raise InputError(_TWICE) from None


class _StrictRequest(Request):
    async def json(self) -> Any:
        try:
            return json.loads(await self.body(), object_pairs_hook=each_json_field_once)
        except FieldTwice:
            raise RefusedRequest(422, _TWICE) from None


class StrictRoute(APIRoute):
    """A route of the framework with such checks of bodies."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler of requests."""
        answer = super().get_route_handler()

        async def answered(request: Request) -> Response:
            return await answer(_StrictRequest(request.scope, request.receive))

        return answered
