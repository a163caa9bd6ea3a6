"""Close connections whose requests arrive too slowly, before the framework sees them.

A client that opens connections and says little on them (slow loris) would hold each for ever:
uvicorn waits for the end of a request's head as long as the connection lasts, and keeps a head of
any length. Here a request has `PATIENCE` seconds, and more for what it has sent by then, until it
is whole. A request that comes in one piece, as most do, starts no timer.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

PATIENCE = 30.0  # seconds until a request must be whole, however short it is
_SLOWEST = 16_384.0  # bytes of it that buy another second
_MOST_HEAD = 65_536  # bytes before the body


class SlowRequestProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with time limits."""

    _whole = False  # whether the last request has come to its end
    _in_body = False
    _begun = 0.0  # when the request began, by the clock of the loop
    _came = 0  # bytes of it so far
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit for the first request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time limit."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Note a piece of a request."""
        self._came += len(data)
        super().data_received(data)
        if self._whole:
            if self._timer is not None:
                self._stop_waiting()
        elif not self._in_body and self._came > _MOST_HEAD:
            self._refuse(b"431 Request Header Fields Too Large")
        elif self._timer is None:
            self._wait()

    def on_message_begin(self) -> None:
        """Note the first byte of a request."""
        self._whole = self._in_body = False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Note that the headers are complete."""
        self._in_body = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Note that the request is complete: later bytes belong to the next one."""
        self._whole, self._came = True, 0
        super().on_message_complete()

    def _wait(self) -> None:
        self._begun = self.loop.time()
        self._timer = self.loop.call_later(PATIENCE, self._look)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """Close the connection, unless enough has arrived."""
        left = self._begun + PATIENCE + self._came / _SLOWEST - self.loop.time()
        if self.flow.read_paused:  # it is the service that does not read
            left = max(left, PATIENCE)
        if left > 0:
            self._timer = self.loop.call_later(left, self._look)
            return
        self._timer = None
        self._refuse(b"408 Request Timeout")

    def _refuse(self, status: bytes) -> None:
        if not self._in_body or not self.cycle.response_started:
            head = b"HTTP/1.1 " + status + b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            self.transport.write(head)
        self.transport.close()
