"""Holds answers of the service against its OpenAPI document: status, kind, headers and schema."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

_document: dict[str, Any] = {}


def described_answers(fetch: Callable[[], Any]) -> DescribedAnswers:
    """What the document allows; it is the same of every service, and fetched once by a process."""
    if not _document:
        _document.update(fetch().json())
    return DescribedAnswers(_document)


class DescribedAnswers:
    """What the document allows; `check` is a hook of httpx."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._paths = {
            path: re.compile(re.sub(r"\{[^}]+\}", "[^/]+", path)) for path in document["paths"]
        }
        self.checked: set[tuple[str, str, int]] = set()  # verb, path and status
        self._validator = cache(self._made)

    def check(self, answer: Any) -> None:
        """Fail, if an answer is not as it is described."""
        request = answer.request
        path = self._path(request.url.path)
        if path is None or request.method.lower() not in self._document["paths"][path]:
            return  # pages, probes; methods that there are not
        described = self._document["paths"][path][request.method.lower()]["responses"]
        place = request.method, path, answer.status_code
        assert str(answer.status_code) in described, place
        self.checked.add(place)
        known = described[str(answer.status_code)]
        assert known.get("headers", {}).keys() <= {*map(_spelt, answer.headers)}, place
        kind = answer.headers.get("content-type", "").partition(";")[0]
        if "content" not in known:
            assert not kind, place
            return
        assert kind in known["content"], (place, kind)
        if kind.endswith("json"):
            answer.read()
            wrong = [
                f"{list(error.absolute_path)}: {error.validator}"
                for error in self._validator(*map(str, place), kind).iter_errors(answer.json())
            ]
            assert wrong == [], (place, wrong[:3], answer.text[:500])

    def _path(self, asked: str) -> str | None:
        exact = [path for path in self._paths if path == asked]
        found = [path for path, pattern in self._paths.items() if pattern.fullmatch(asked)]
        return next(iter([*exact, *found]), None)

    def _made(self, verb: str, path: str, status: str, kind: str) -> Draft202012Validator:
        content = self._document["paths"][path][verb.lower()]["responses"][status]["content"]
        components = {"components": self._document["components"]}
        return Draft202012Validator({**content[kind]["schema"], **components})


def _spelt(header: str) -> str:
    return "ETag" if header.lower() == "etag" else header
