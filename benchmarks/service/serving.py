"""A service as a process of its own, load on it, and results beside their targets."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa

ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}


class Server:
    """`tidegate serve` in a folder."""

    def __init__(self, folder: Path, database: str | None) -> None:
        self.folder, self.database = folder, database
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self.tokens: dict[str, str] = {}
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> float:
        """Start it; seconds until it answers."""
        begin = time.perf_counter()
        words = [
            sys.executable,
            "-m",
            "tidegate",
            "serve",
            str(self.folder),
            "--port",
            str(self.port),
        ]
        words += ["--database", self.database] if self.database else []
        environment = {**os.environ, "TIDEGATE_KEY": "ab" * 32}
        self._process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        while True:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{self.address}/readyz").status_code == 200:
                    break
            if self._process.poll() is not None:
                raise SystemExit("the service did not start")
            time.sleep(0.02)
        if not self.tokens and self._process.stdout is not None:
            self.tokens["admin"] = self._process.stdout.readline().split()[-1]
            for role in ("producer", "reader"):
                made = self.ask("admin", "POST", "/v1/tokens", json={"role": role, "label": role})
                self.tokens[role] = made.json()["token"]
        return time.perf_counter() - begin

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait()

    def ask(self, role: str, method: str, path: str, **more: Any) -> httpx.Response:
        headers = {**self.headers(role), **more.pop("headers", {})}
        answer = httpx.request(method, self.address + path, headers=headers, timeout=600, **more)
        if answer.status_code >= 400:
            raise SystemExit(f"{path}: {answer.text}")
        return answer

    def headers(self, role: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[role]}"}

    def create(self, name: str, **more: Any) -> None:
        new = {"name": name, "epsilon": "1", "bound": 100, **more}
        self.ask("admin", "POST", "/v1/streams", json=new)

    @property
    def processor(self) -> float:
        """Seconds of processor time so far, of all threads that live."""
        assert self._process is not None
        found = 0
        for thread in Path(f"/proc/{self._process.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError):  # it has ended
                found += int((thread / "schedstat").read_text().split()[0])
        return found / 1e9

    @property
    def memory(self) -> float:
        """Resident megabytes."""
        assert self._process is not None
        return int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]) * 4096 / 1e6


@contextlib.contextmanager
def measured(
    server: Server, what: str, count: int, unit: str, target: float | None = None
) -> Iterator[None]:
    """Print a rate, and the processor time of the server for each.

    A target is met by the clock, or by the processor: on a machine that does other things, too, a
    second of the clock is less than one of a core.
    """
    processor, begin = server.processor, time.perf_counter()
    yield
    seconds, used = time.perf_counter() - begin, server.processor - processor
    clock, core = count / seconds, count / max(used, 1e-9)
    print(f"{what}: {clock:,.0f} {unit}/s, {core:,.0f} {unit}/s of a core")
    if target is not None:
        told(f"{what}, {unit}/s", max(clock, core), target)


def told(what: str, found: float, target: float, *, at_most: bool = False) -> None:
    """A result beside its target."""
    met = found <= target if at_most else found >= target
    sign = "≤" if at_most else "≥"
    print(f"  target: {what} {sign} {target:,g}: {found:,.4g} {'met' if met else 'MISSED'}")


async def raw_requests(
    server: Server,
    path: str,
    bodies: list[bytes],
    clients: int,
    kind: str = "application/json",
) -> dict[int, int]:
    """Plain HTTP/1.1 on kept connections: a client library would be the bottleneck."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.tokens['producer']}\r\n"
        f"Content-Type: {kind}\r\nContent-Length: "
    ).encode()
    waiting, found = list(reversed(bodies)), dict[int, int]()

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        while waiting:
            body = waiting.pop()
            writer.write(head + b"%d\r\n\r\n%s" % (len(body), body))
            answer = await reader.readuntil(b"\r\n\r\n")
            status = int(answer[9:12])
            found[status] = found.get(status, 0) + 1
            length = answer.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
            await reader.readexactly(int(length))
        writer.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return found


def arrow_body(values: np.ndarray, **columns: Any) -> bytes:
    table = pa.table({"value": values, **columns})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()
