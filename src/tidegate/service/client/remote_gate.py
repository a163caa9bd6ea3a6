"""`connect` and `Gate`: a service with the library's methods."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import numpy as np

from tidegate._context_managers import Closed
from tidegate.errors import RefusedError, SettingError
from tidegate.exact_numbers import said
from tidegate.randomness import random_bytes
from tidegate.service.client.http import HttpClient, ServiceError
from tidegate.service.client.remote_keyed import KeyedEventStream, KeyedStream
from tidegate.service.client.remote_stream import EventStream, Stream
from tidegate.service.client.remote_stream_base import RemoteStreamBase
from tidegate.timestamps import read_times

_KINDS: dict[str, type[RemoteStreamBase]] = {
    "readings": Stream,
    "events": EventStream,
    "keyed readings": KeyedStream,
    "keyed events": KeyedEventStream,
}
# Which role has a token for it.
_PERMISSIONS = {
    "read": "reader or admin",
    "write": "producer",
    "manage": "admin",
    "plan": "reader or admin",
    "read facts": "reader, auditor or admin",
    "read ledger": "auditor or admin",
    "report": "device",
    "report shuffled": "shuffler",
}


def connect(
    url: str, *tokens: str, timeout: float = 60, context: ssl.SSLContext | None = None
) -> Gate:
    """Connect to a service.

    Args:
        url: its address.
        tokens: one for each role that is needed; each request takes the one that allows it. A
            producer's token may push and not read, so code that does both gives two.
        timeout: seconds to wait for an answer.
        context: for TLS with your own certificate.

        with tidegate.connect("https://gate.example", token) as gate:
            gate.stream("fares").push([12.5, 8])
    """
    return Gate(HttpClient(url, timeout=timeout, context=context), tokens)


class Gate(Closed):
    """A service: its streams and its ledger. Close it, or use `with`."""

    def __init__(self, http: HttpClient, tokens: tuple[str, ...]) -> None:
        self._http = http
        self._tokens: dict[str, str | None] = dict.fromkeys(self._allowed(None))
        for token in tokens:
            self._tokens |= dict.fromkeys(self._allowed(token), token)
        if tokens and not any(self._tokens.values()):
            raise RefusedError("the service does not know these tokens")

    def __repr__(self) -> str:
        return f"<service at {self._http.url}>"

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def create(
        self,
        name: str,
        *,
        epsilon: Any,
        bound: Any = None,
        method: str = "adaptive",
        keys: Any = None,
        events: dict[str, Any] | None = None,
        source: str | None = None,
        **settings: Any,
    ) -> Any:
        """Create a stream; return it with the methods of its kind: see `stream`.

        Args:
            name: of the stream.
            epsilon, bound, method, settings: the preset and its arguments.
            keys: a list of all keys that there can be, or "public"; None: it has none.
            events: rows are events: `every`, `start` and, if need be, `zone` and `count`.
            source: whose values these are, in the ledger; None: of no other stream.
        """
        content: dict[str, Any] = {
            "name": name,
            "method": method,
            "epsilon": _exact_for_gate(epsilon),
        }
        content |= {"source": source, "settings": settings, "keys": keys, "events": events}
        if bound is not None:
            content["bound"] = _exact_for_gate(bound)
        content = {name: value for name, value in content.items() if value is not None}
        self.call("POST", "/v1/streams", "manage", content=content)
        return self.stream(name)

    def create_columns(
        self, name: str, *, epsilon: Any, columns: dict[str, Any], **more: Any
    ) -> dict[str, Any]:
        """Create streams for rows of several values: `columns={"fare": {"bound": 100}, …}`.

        `epsilon` is that of a row: shares (`{"bound": 30, "share": "0.3"}`) divide it.
        """
        content = {"name": name, "epsilon": _exact_for_gate(epsilon), "columns": columns, **more}
        made = self.call("POST", "/v1/columns", "manage", content=content)
        return {column: self.stream(one["name"]) for column, one in made["columns"].items()}

    def push_columns(self, name: str, columns: dict[str, Any], times: Any = None) -> None:
        """Send rows with several values, a list for each column; durable when it returns."""
        most = np.finfo(np.float64).max  # JSON knows no infinity: it lies beyond every bound
        rows = {
            column: np.clip(np.asarray(values, dtype=np.float64), -most, most).tolist()
            for column, values in columns.items()
        }
        plain = {one: [None if v != v else v for v in values] for one, values in rows.items()}
        content: dict[str, Any] = {"columns": plain}
        if times is not None:
            when = read_times(times)
            content["times"] = when.clock.texts(when.ticks)
        headers = {"Content-Type": "application/json", "Idempotency-Key": random_bytes(16).hex()}
        path, body = f"/v1/columns/{quote(name)}/values", json.dumps(content).encode()
        self.call("POST", path, "write", body=body, headers=headers, repeat=True)

    def stream(self, name: str) -> Any:
        """An existing stream, with the methods of its kind.

        A `Stream` of readings, an `EventStream`, a `KeyedStream` or a `KeyedEventStream`.
        """
        if not isinstance(name, str):
            raise SettingError("name", "must be text: the name of a stream")
        path = f"/v1/streams/{quote(name)}"
        asked = (path, "read") if self.may("read") else (f"{path}/kind", "write")
        kind = self.call("GET", *asked)["kind"]
        if kind not in _KINDS:
            raise ServiceError(f"streams of {kind} need a newer Tidegate here")
        return _KINDS[kind](self, name)

    def __getitem__(self, name: str) -> Any:
        return self.stream(name)

    def __iter__(self) -> Iterator[str]:
        """The names of all streams, each once, regardless of epochs."""
        return iter(self._names())

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def __len__(self) -> int:
        return len(self._names())

    def _names(self) -> list[str]:
        names = (str(one["name"]).partition("@")[0] for one in self.streams())
        return list(dict.fromkeys(names))

    def streams(self) -> list[dict[str, Any]]:
        """The public facts of all streams."""
        found: list[dict[str, Any]] = self.call("GET", "/v1/streams", "read facts")
        return found

    def retire(self, name: str) -> None:
        """Let a stream take no more values. What was released stays."""
        self.call("POST", f"/v1/streams/{quote(name)}/retire", "manage")

    def ledger(self) -> dict[str, Any]:
        """What each source has spent."""
        found: dict[str, Any] = self.call("GET", "/v1/ledger", "read ledger")
        return found

    def may(self, permission: str) -> bool:
        """Whether one of the tokens permits this: `read`, `write`, `manage`, `read ledger`."""
        return permission in self._tokens

    def call(self, method: str, path: str, permission: str, **request: Any) -> Any:
        """Make a request with the token that permits it."""
        return self._http.call(method, path, self.token(permission), **request)

    def token(self, permission: str) -> str | None:
        """The token that permits something. None: no token is needed."""
        if permission not in _PERMISSIONS:
            raise SettingError(
                "permission", f"must be one of {', '.join(_PERMISSIONS)}, not {said(permission)}"
            )
        if permission not in self._tokens:
            raise RefusedError(
                f"no token was given to connect() that may {permission}: give one of the role "
                f"{_PERMISSIONS[permission]}"
            )
        return self._tokens[permission]

    @property
    def http(self) -> HttpClient:
        """The connection."""
        return self._http

    def _allowed(self, token: str | None) -> list[str]:
        found: list[str] = self._http.call("GET", "/v1/session", token)["may"]
        return found


def _exact_for_gate(number: Any) -> str | float:
    """Fractions and decimals as exact text."""
    return number if isinstance(number, int | float) else str(number)
