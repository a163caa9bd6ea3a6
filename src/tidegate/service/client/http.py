"""HTTP requests to a service: one connection per thread, retried where safe, our error classes."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from tidegate.errors import (
    InputError,
    MissingError,
    QueryError,
    RefusedError,
    SettingError,
    TidegateError,
)

_TRIES = 8
_FIRST_WAIT = 0.1  # seconds; doubled with every try
_LONGEST_WAIT = 5.0
_AGAIN = (429, 503)
_LOST = (http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError)
TITLES: dict[type[TidegateError], str] = {  # titles of problem details, by error class
    SettingError: "a setting is wrong",
    InputError: "the input is wrong",
    QueryError: "the question is wrong",
}
# By the title of the problem details, then by the status.
_ERRORS: dict[str | int, type[TidegateError]] = {
    **{title: kind for kind, title in TITLES.items()},
    404: MissingError,
    403: RefusedError,
    409: RefusedError,
}


class ServiceError(TidegateError):
    """The service cannot be reached, or fails for a reason other than the request."""


class _UnansweredError(ServiceError):
    """The service is unreachable, disconnected, or asks to retry later."""


class HttpClient:
    """Requests to the service at an address.

    Args:
        url: such as `https://gate.example:8000`.
        timeout: seconds to wait for an answer.
        context: for TLS with a certificate of one's own; None: those that the system trusts.
    """

    def __init__(
        self, url: str, *, timeout: float = 60, context: ssl.SSLContext | None = None
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingError("url", "must begin with http:// or https:// and name a host")
        self.url = url.rstrip("/")
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._prefix = parts.path.rstrip("/")
        self._timeout, self._context = timeout, context
        self._local = threading.local()
        self._opened: list[http.client.HTTPConnection] = []  # of all threads

    def close(self) -> None:
        """Close the connections of all threads; the next request opens a new one."""
        self._local = threading.local()
        while self._opened:
            self._opened.pop().close()

    def __del__(self) -> None:
        if hasattr(self, "_opened"):
            self.close()

    def call(
        self,
        method: str,
        path: str,
        token: str | None = None,
        *,
        content: Any = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        repeat: bool | None = None,
    ) -> Any:
        """Make a request; return the JSON of the response.

        `repeat`: whether a request that may have arrived can be sent again; None: if it only reads.
        """
        if content is not None:
            body, headers = json.dumps(content).encode(), {"Content-Type": "application/json"}
        safe = method == "GET" if repeat is None else repeat
        sent = {**_http_headers(token), **(headers or {})}
        for attempt in range(_TRIES):
            last = attempt == _TRIES - 1
            if not safe:  # the service may have closed the old connection while it was idle
                self._drop()
            try:
                answer = self._once(method, path, body, sent)
            except _LOST as error:
                if last or not (safe or isinstance(error, ConnectionRefusedError)):
                    raise ServiceError(f"{self.url} cannot be reached, or broke off") from None
                time.sleep(_http_wait(attempt))
                continue
            status, text, after = answer
            if safe and status in _AGAIN and not last:
                time.sleep(_http_wait(attempt, after))
                continue
            return _http_content(status, text)
        raise AssertionError("the last try returns or raises")

    def events(self, path: str, token: str | None) -> Iterator[Any]:
        """The data of server-sent events, without end.

        A connection that ends is opened again, from the event that was seen last.
        """
        seen: dict[str, str] = {}
        attempt = 0
        while True:
            try:
                with self._stream(path, token, seen) as lines:
                    for name, data in _http_events_in(lines):
                        seen = seen if name is None else {"Last-Event-ID": name}
                        attempt = 0
                        if data is not None:
                            yield json.loads(data)
            except _UnansweredError:
                if attempt == _TRIES - 1:
                    raise
            time.sleep(_http_wait(attempt))
            attempt += 1

    @contextmanager
    def _stream(self, path: str, token: str | None, more: Mapping[str, str]) -> Iterator[Any]:
        """A response that is read line by line, on its own connection."""
        connection = self._connect()
        headers = {**_http_headers(token), "Accept": "text/event-stream", **more}
        try:
            connection.request("GET", self._prefix + path, headers=headers)
            response = connection.getresponse()
            if response.status in _AGAIN:
                raise _UnansweredError(f"{self.url} asks to come back later")
            if response.status != http.client.OK:
                _http_content(response.status, response.read())
            yield response
        except _LOST:
            raise _UnansweredError(f"{self.url} cannot be reached, or broke off") from None
        finally:
            connection.close()

    def _once(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes, str | None]:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect()
            self._opened.append(connection)
        try:
            connection.request(method, self._prefix + path, body, headers)
            response = connection.getresponse()
            return response.status, response.read(), response.headers.get("Retry-After")
        except BaseException:
            self._drop()
            raise

    def _drop(self) -> None:
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            self._local.connection = None
            self._opened.remove(connection)
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        if self._secure:
            context = self._context or ssl.create_default_context()
            return http.client.HTTPSConnection(
                self._host, self._port, timeout=self._timeout, context=context
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)


def _http_events_in(lines: Iterable[bytes]) -> Iterator[tuple[str | None, bytes | None]]:
    """Id and data of each complete event; an incomplete one does not count as seen."""
    name: str | None = None
    data: bytes | None = None
    for line in lines:
        field, _, rest = line.rstrip(b"\r\n").partition(b": ")
        if field == b"id":
            name = rest.decode("latin-1")
        elif field == b"data":
            data = rest
        elif not field and not rest:
            yield name, data
            name = data = None


def _http_headers(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token}"}


def _http_wait(attempt: int, after: str | None = None) -> float:
    """The seconds to wait: longer each time, and at least as long as the service asks for."""
    asked = float(after) if after and after.isascii() and after.isdigit() else 0.0
    return min(max(_FIRST_WAIT * float(1 << attempt), asked), _LONGEST_WAIT)


def _http_content(status: int, text: bytes) -> Any:
    try:
        content = json.loads(text) if text else None
    except ValueError:
        content = None
    if status < http.client.BAD_REQUEST:
        return content
    problem = content if isinstance(content, dict) else {}
    title, detail = str(problem.get("title", "")), str(problem.get("detail", ""))
    kind = _ERRORS.get(title) or _ERRORS.get(status) or ServiceError
    said = detail or title or f"the service answered with status {status}"
    if kind is SettingError:
        name, _, rest = said.partition(": ")
        raise SettingError(name, rest)
    raise kind(said)
