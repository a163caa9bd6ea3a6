"""The front of the app: rate, size and time limits of requests; headers of answers.

All of it is checked before anything is locked.

Plain ASGI: a layer of a framework would cost more than the request itself.
"""

from __future__ import annotations

import asyncio
import time
import types
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address
from typing import Any, Protocol

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidegate.errors import TidegateError
from tidegate.service import problem_details
from tidegate.service.access import Access
from tidegate.service.logs_and_traces import TelemetryTraces

_MOST_KNOWN = 4096  # tokens that are counted one by one
_STRANGERS = 1 << 16  # bytes of a body without a token: the framework reads it before it asks who


@dataclass
class RequestLimits:
    """The limits for one client.

    Attributes:
        rate: requests in a second, for each token; None: as many as come. Without a token: all
            clients together, a tenth of it at least.
        burst: seconds of this rate that may come at once.
        body: bytes of a request.
        patience: seconds until the next piece of a body must come.
    """

    rate: float | None = None
    burst: float = 2.0
    body: int = 64 << 20
    patience: float = 30.0
    _left: dict[str, tuple[float, float]] = field(default_factory=dict, repr=False)

    def wait(self, who: str) -> float:
        """0 if the client may continue; else the seconds until it may ask again.

        A token bucket: it fills at the rate, and holds what a burst may use.
        """
        if self.rate is None:
            return 0.0
        now, room = time.monotonic(), max(1.0, self.rate * self.burst)
        left, before = self._left.get(who, (room, now))
        left = min(room, left + (now - before) * self.rate)
        if left < 1.0:
            self._left[who] = (left, now)
            return (1.0 - left) / self.rate
        if who not in self._left and len(self._left) >= _MOST_KNOWN:
            self._left.clear()  # who waits begins with a full bucket: no more than one burst each
        self._left[who] = (left - 1.0, now)
        return 0.0


_SECURITY = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "Cache-Control": "no-store",
}
_HEADERS = [(name.lower().encode(), value.encode()) for name, value in _SECURITY.items()]
_HSTS = (b"strict-transport-security", b"max-age=31536000")
# Producers and devices show nothing: what a browser must not do with their answers is enough. Each
# header costs more than a look at the token.
_MACHINES = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
]
_NAMES = frozenset(name for name, _ in [*_HEADERS, _HSTS])
_FREE = ("/healthz", "/readyz")  # probes must be answered however much is asked


class DirectRequests(Protocol):
    """Answers some requests without the framework."""

    def match(self, scope: Scope) -> Any:
        """The subject of a request. None: the framework handles it."""

    async def __call__(self, found: Any, /, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""


class RequestFront:
    """Adds the sender's role to the request, and refuses it before any lock is taken."""

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        limits: RequestLimits,
        direct: Sequence[DirectRequests],
        telemetry: TelemetryTraces,
    ) -> None:
        self._app, self._access, self._limits, self._direct = app, access, limits, direct
        self._telemetry = telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def answered(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                more = _MACHINES if scope["state"].get("direct") else _HEADERS
                more = [*more, _HSTS] if scope["scheme"] == "https" else more
                known = {name.lower() for name, _ in message["headers"]}
                if not known.isdisjoint(_NAMES):
                    more = [header for header in more if header[0] not in known]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        try:
            refused = await self._refused(scope)
            if refused is not None:
                await refused(scope, receive, answered)
                return
            known = bool(self._access.permissions(scope["state"]["who"].role))
            patient = _LimitedBody(receive, self._limits, known=known)
            if not self._telemetry.collected:
                await self._answer(scope, patient, answered)
                return
            with self._telemetry.request(scope, answered) as send_traced:
                await self._answer(scope, patient, send_traced)
        except HTTPException as error:
            if not begun:
                await problem_details.refused(error)(scope, receive, answered)
        except TidegateError as error:  # the database, which knows the tokens, is gone
            if not begun:
                await problem_details.of(error)(scope, receive, answered)
        except Exception as error:  # noqa: BLE001  # its words may quote the data
            answer = problem_details.fault(error)
            if not begun:
                await answer(scope, receive, answered)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        for direct in self._direct:
            if (found := direct.match(scope)) is not None:
                scope["state"]["direct"] = True
                await direct(found, scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _refused(self, scope: Scope) -> Any:
        """The response to a refused request. None: it may continue."""
        given, length = b"", b"0"
        for name, value in scope["headers"]:
            if name == b"authorization":
                given = value
            elif name == b"content-length":
                length = value
            elif (
                name == b"x-forwarded-proto" and value == b"https" and _request_through_proxy(scope)
            ):
                scope["scheme"] = "https"
        who = self._access.known_at_once(given) or await self._access.known(given)
        scope.setdefault("state", {})["who"] = who
        limited = scope["path"] not in _FREE and who.role != "device"  # whose token all phones have
        if limited and (seconds := self._limits.wait(who.name)):
            return problem_details.problem(
                429,
                "too many requests",
                "this token has asked too often: wait, then ask again",
                headers={"Retry-After": str(max(1, round(seconds)))},
            )
        if not length.isdigit() or int(length[:18]) > self._limits.body:
            return problem_details.problem(
                413, "too large", f"at most {self._limits.body:,} bytes in one request"
            )
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:  # PostgreSQL takes none
            return problem_details.problem(400, "refused", "an address must not have a zero byte")
        return None


def _request_through_proxy(scope: Scope) -> bool:
    """Whether the request comes from this machine: a proxy, which knows the original address.

    A socket of the file system has no address. Anybody else is not believed.
    """
    client = scope.get("client")
    try:
        return client is None or ip_address(client[0]).is_loopback
    except ValueError:
        return False


@types.coroutine
def _begun_request(
    coming: Generator[Any, Any, Message], waits: Any
) -> Generator[Any, Any, Message]:
    """Continue an awaited operation that has already begun."""
    while True:
        try:
            sent = yield waits
        except BaseException as error:  # noqa: BLE001  # what waits is told: it may be cancelled
            step = partial(coming.throw, error)
        else:
            step = partial(coming.send, sent)
        try:
            waits = step()
        except StopIteration as done:
            found: Message = done.value
            return found


class BodyError(HTTPException):  # as one, the framework lets it through
    """A body arrived too slowly, or is too long."""


class _LimitedBody:
    """Reads a body within limits of time and size.

    How long a body is need not be said beforehand, and the framework keeps all of it.
    """

    def __init__(self, receive: Receive, limits: RequestLimits, *, known: bool) -> None:
        self._receive, self._patience = receive, limits.patience
        self._known = known  # who asks may do something here
        self._left = self._most = limits.body if known else min(limits.body, _STRANGERS)
        self._whole = False

    async def __call__(self) -> Message:
        if self._whole:
            return await self._receive()  # what comes now is the end of the connection
        coming = self._receive().__await__()
        try:
            waits = next(coming)
        except StopIteration as here:  # as a rule: a clock would cost more than the message
            message: Message = here.value
        else:
            try:
                async with asyncio.timeout(self._patience):
                    message = await _begun_request(coming, waits)
            except TimeoutError:
                raise BodyError(408, "the body did not come in time") from None
        self._whole = not message.get("more_body", False)
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            if self._known:
                raise BodyError(413, f"at most {self._most:,} bytes in one request")
            needed = {"WWW-Authenticate": "Bearer"}
            raise BodyError(401, "a token is needed: Authorization: Bearer …", needed)
        return message
