"""The OpenAPI document: a schema for every answer, the problems of every route, devices' messages.

Routes name the model of their answer (`documented_answers`); what all routes have in common is
added here.
"""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI, Response
from fastapi.openapi.utils import get_openapi

from tidegate.local.message_schemas import schemas
from tidegate.service.answer_models import Problem
from tidegate.service.problem_details import MEDIA_TYPE

_MESSAGE = "message-"  # before the kinds of devices' messages
_COMMON = {
    "400": "The request is wrong.",
    "401": "A token is needed.",
    "403": "The token may not do this, or the budget is spent.",
    "409": "The request contradicts an earlier one, or what the stream is.",
    "422": "A setting, a value or a question is wrong.",
    "429": "Too much at once: wait.",
    "500": "A fault of Tidegate.",
    "503": "The database is not available: wait.",
}
_WITH_PLACE = {"404": "There is no such stream, key, source or task."}
_WITH_BODY = {"408": "The body came too slowly.", "413": "The body is too large."}


def documented_answers(
    model: Any, status: int = 200, *, tagged: bool = False, description: str = "It is done."
) -> dict[str, Any]:
    """The documentation of a route's answers: their model, and whether they have an ETag.

    Nothing is checked when a request is answered.
    """
    responses: dict[int | str, dict[str, Any]] = {
        status: {"model": model, "description": description}
    }
    if tagged:
        tag = {"description": "Send it as If-None-Match.", "schema": {"type": "string"}}
        responses[status]["headers"] = {"ETag": tag}
        responses[304] = {"description": "Nothing has changed since this ETag."}
    return {"status_code": status, "response_model": None, "responses": responses}


def documented_text_answers(kind: str, description: str) -> dict[str, Any]:
    """The documentation of answers in plain text."""
    content = {kind: {"schema": {"type": "string"}}}
    said = {200: {"description": description, "content": content}}
    return {"response_class": Response, "response_model": None, "responses": said}


def documented_message(kind: str) -> dict[str, Any]:
    """The schema of a message of the local model (`local.message_schemas`)."""
    return {"$ref": f"#/components/schemas/{_MESSAGE}{kind}"}


def openapi_document(app: FastAPI) -> dict[str, Any]:
    """The document; cached."""
    if app.openapi_schema is None:
        found = get_openapi(title=app.title, version=app.version, routes=app.routes)
        for path, verbs in found["paths"].items():
            for operation in verbs.values():
                _add_openapi_problems(operation, "{" in path)
        known = found["components"]["schemas"]
        for unused in ("HTTPValidationError", "ValidationError"):  # the framework's own
            known.pop(unused, None)
        known["Problem"] = Problem.model_json_schema()
        messages = json.dumps(schemas()["$defs"]).replace(
            "#/$defs/", documented_message("")["$ref"]
        )
        known |= {_MESSAGE + kind: schema for kind, schema in json.loads(messages).items()}
        app.openapi_schema = found
    return app.openapi_schema


def _add_openapi_problems(operation: dict[str, Any], named: bool) -> None:
    """The statuses with which an operation may refuse."""
    found = _COMMON | (_WITH_PLACE if named else {})
    if "requestBody" in operation:
        found |= _WITH_BODY
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for status, words in found.items():
        operation["responses"][status] = {"description": words, "content": content}
