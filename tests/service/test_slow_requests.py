"""Requests that do not come in time: their connections are closed, and all others go on."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

uvicorn = pytest.importorskip("uvicorn", reason="tests of the service need the extra [test]")

from tidegate.service import slow_requests  # noqa: E402  # it needs uvicorn

HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answers how long the body is."""
    if scope["type"] != "http":
        return
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
        if scope["path"] == "/slow":
            await asyncio.sleep(0.05)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(size).encode()})


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(slow_requests, "PATIENCE", 0.4)
    monkeypatch.setattr(slow_requests, "_SLOWEST", 1000.0)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        place: int = probe.getsockname()[1]
    config = uvicorn.Config(
        app, port=place, http=slow_requests.SlowRequestProtocol, lifespan="off", log_level="error"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield place
    server.should_exit = True
    thread.join(20)


def said(connection: socket.socket) -> bytes:
    """All that is answered until the connection ends."""
    connection.settimeout(20)
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while more := connection.recv(1 << 16):
            found += more
    return found


def dripped(port: int, first: bytes, drop: bytes) -> tuple[bytes, float]:
    """Send something, and then drops; what is answered, and after how many seconds it ends."""
    begin = time.monotonic()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(first)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while time.monotonic() < begin + 10:
                time.sleep(0.05)
                connection.sendall(drop)
        return said(connection), time.monotonic() - begin


@pytest.mark.parametrize(
    ("first", "drop"),
    [
        (b"", b""),
        (b"", b"x"),
        (HEAD, b"A: b\r\n"),
        (HEAD + b"Content-Length: 100000\r\n\r\n", b"x"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    ],
)
def test_what_drips_is_closed(port: int, first: bytes, drop: bytes) -> None:
    if not drop:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            assert said(connection).startswith(b"HTTP/1.1 408")
        return
    _, seconds = dripped(port, first, drop)
    assert seconds < 9


def test_a_body_may_take_longer_the_more_of_it_comes(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(HEAD + b"Content-Length: 20000\r\n\r\n")
        for _ in range(20):
            connection.sendall(b"x" * 1000)
            time.sleep(0.04)
        answer = connection.recv(1 << 16)
        assert answer.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(("fields", "status"), [(40, b"200"), (80, b"431")])
def test_a_long_head_is_refused(port: int, fields: int, status: bytes) -> None:
    head = HEAD + b"".join(b"A%d: %s\r\n" % (at, b"x" * 999) for at in range(fields))
    with socket.create_connection(("127.0.0.1", port)) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for start in range(0, len(head), 1 << 13):
                connection.sendall(head[start : start + (1 << 13)])
                time.sleep(0.02)  # one piece after the other: a large one is refused as it comes
            connection.sendall(b"Content-Length: 0\r\nConnection: close\r\n\r\n")
        found = said(connection)
    assert found.startswith(b"HTTP/1.1 " + status) or (status == b"431" and not found)


def test_a_service_that_reads_slowly_waits_for_nobody_else(port: int) -> None:
    body = b"x" * 2_000_000
    with socket.create_connection(("127.0.0.1", port)) as connection:
        head = HEAD.replace(b"POST /", b"POST /slow") + b"Content-Length: %d\r\n\r\n" % len(body)
        connection.sendall(head + body)
        connection.settimeout(30)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")


def test_requests_after_each_other_start_no_timer(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(20)
        for _ in range(3):
            connection.sendall(HEAD + b"Content-Length: 2\r\n\r\nab")
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
            time.sleep(0.5)  # idle: longer than a request may take
