"""One HTTP request of a device, with the standard library: bounded, and without redirects."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from tidegate.errors import RefusedError

_TIMEOUT = 20.0  # seconds
_BUSY = (408, 425, 429, 500, 502, 503, 504)
_UNAUTHORIZED = (401, 403)


@dataclass(frozen=True)
class Answer:
    """What a service answered."""

    status: int
    body: bytes
    retry_after: int | None

    @property
    def busy(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in _BUSY

    def expected(self, status: int) -> Answer:
        """This answer, if it has the status."""
        if self.status == status:
            return self
        if self.status in _UNAUTHORIZED:
            raise RefusedError("token: the service does not let this device in")
        raise RefusedError(f"the service answered {self.status}, which was not expected")


def call(
    verb: str,
    url: str,
    body: bytes,
    kind: str,
    token: str | None,
    longest: int,
    *,
    key: str | None = None,
) -> Answer:
    """Make one request; raises `OSError` if there is no answer.

    `key`: a second request with it is the same request.

    Redirects are not followed: a report goes where it was meant to go, and so does the token.
    """
    import http.client  # on demand: importing them is slow
    import ssl

    place = urlsplit(url)
    host, port = place.hostname or "", place.port
    if place.scheme == "https":
        context = ssl.create_default_context()
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            host, port, timeout=_TIMEOUT, context=context
        )
    else:
        connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT)
    headers = {"User-Agent": "tidegate"}
    if kind:
        headers["Content-Type"] = kind
    if key is not None:
        headers["Idempotency-Key"] = key
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    try:
        path = f"{place.path}?{place.query}" if place.query else place.path
        connection.request(verb, path, body or None, headers)
        found = connection.getresponse()
        again = found.headers.get("Retry-After", "")
        seconds = int(again) if again.isascii() and again.isdigit() and len(again) < 9 else None
        return Answer(found.status, found.read(longest + 1), seconds)
    except http.client.HTTPException as error:
        raise OSError(type(error).__name__) from None
    finally:
        connection.close()
