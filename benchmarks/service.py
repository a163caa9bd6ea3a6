"""The service under load: requests and values a second, range queries, tables, live readers, keys.

    python -m benchmarks.service                          # SQLite, every part
    python -m benchmarks.service --part single --part arrow
    python -m benchmarks.service --database postgresql://…/empty   # an empty database

The server is a process of its own, `tidegate serve`; clients are in this one. On a machine that
does other things too, read the processor time of the server: a core gives one second in a second.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa

PARTS = ("single", "arrow", "query", "table", "live", "keys", "overload")
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
        """Seconds of processor time so far."""
        assert self._process is not None
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def memory(self) -> float:
        """Resident megabytes."""
        assert self._process is not None
        return int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]) * 4096 / 1e6


@contextlib.contextmanager
def measured(server: Server, what: str, count: int, unit: str) -> Iterator[None]:
    """Print a rate, and the processor time of the server for each."""
    processor, begin = server.processor, time.perf_counter()
    yield
    seconds, used = time.perf_counter() - begin, server.processor - processor
    rates = f"{count / seconds:,.0f} {unit}/s, {count / max(used, 1e-9):,.0f} {unit}/s of a core"
    print(f"{what}: {rates} ({1e6 * used / count:,.2f} µs of processor time each)")


async def raw_requests(
    server: Server, path: str, bodies: list[bytes], clients: int
) -> dict[int, int]:
    """Plain HTTP/1.1 on kept connections: a client library would be the bottleneck."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.tokens['producer']}\r\n"
        "Content-Type: application/json\r\nContent-Length: "
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


def single(server: Server, count: int) -> None:
    server.create("single")
    bodies = [b"%d" % (number % 90) for number in range(count)]
    asyncio.run(raw_requests(server, "/v1/streams/single/values", bodies[:200], 8))
    for clients in (16, 128):
        with measured(server, f"single values, {clients} clients", count, "requests"):
            statuses = asyncio.run(
                raw_requests(server, "/v1/streams/single/values", bodies, clients)
            )
        assert statuses == {202: count}, statuses


def overload(server: Server, count: int) -> None:
    """Far more clients than the gate lets wait: refused, never lost."""
    server.create("overload")
    bodies = [b"7"] * count
    statuses = asyncio.run(raw_requests(server, "/v1/streams/overload/values", bodies, 900))
    taken = server.ask("reader", "GET", "/v1/streams/overload").json()["taken"]
    lost = "none lost" if taken == statuses.get(202, 0) else "WRONG"
    print(f"overload: {statuses}; taken {taken}: {lost}")


def arrow(server: Server, values: int) -> None:
    random = np.random.default_rng(1)
    for method, settings in (("tops", {"horizon": 2**20}), ("adaptive", {"horizon": 2**20})):
        server.create(f"arrow-{method}", method=method, settings=settings)
        for size in (10_000, 100_000):
            body = arrow_body(random.gamma(2, 10, size))
            with httpx.Client(
                base_url=server.address, headers=server.headers("producer") | ARROW
            ) as client:
                path = f"/v1/streams/arrow-{method}/values"
                client.post(path, content=body)
                with measured(server, f"Arrow, {method}, batches of {size:,}", values, "values"):
                    for _ in range(values // size):
                        assert client.post(path, content=body).status_code == 202


def query(server: Server, stored: int) -> None:
    """Range queries over a long stream: its rows are made by pushes of a million."""
    server.create("long", method="tops", settings={"horizon": 2**24})
    body = arrow_body(np.random.default_rng(2).gamma(2, 10, 1_000_000))
    with measured(server, f"{stored:,} values stored", stored, "values"):
        for _ in range(stored // 1_000_000):
            server.ask("producer", "POST", "/v1/streams/long/values", content=body, headers=ARROW)
    random, took = np.random.default_rng(3), []
    with httpx.Client(
        base_url=server.address, headers=server.headers("reader"), timeout=600
    ) as client:
        client.get("/v1/streams/long/sum")
        processor = server.processor
        for _ in range(1000):
            start, end = sorted(random.integers(0, stored, 2).tolist())
            begin = time.perf_counter()
            answer = client.get(f"/v1/streams/long/sum?start={start}&end={end + 1}")
            took.append(time.perf_counter() - begin)
            assert answer.status_code == 200, answer.text
    used = (server.processor - processor) / len(took)
    median, late = (1e3 * np.quantile(took, share) for share in (0.5, 0.99))
    print(f"range query: median {median:.1f} ms, p99 {late:.1f} ms, processor {1e3 * used:.2f} ms")


def table(server: Server, keys: int = 100, days: int = 30) -> None:
    """A table by day and key: asked first, with another confidence, and the same again."""
    names = [f"zone-{number}" for number in range(keys)]
    ticks = 1_704_067_200 + 900 * np.arange(96 * days)
    random = np.random.default_rng(4)
    for method, more in (("tops", {"holdout": 96}), ("adaptive", {})):
        name = f"zones-{method}"
        settings = {"horizon": 96 * days, **more}
        server.create(name, method=method, keys=names, settings=settings)
        with measured(server, f"{keys} keys of {method}, {days} days", 96 * days * keys, "values"):
            for day in range(days):
                mine = np.repeat(ticks[96 * day : 96 * (day + 1)], keys)
                body = arrow_body(random.gamma(2, 10, mine.size), time=mine, key=names * 96)
                path = f"/v1/streams/{name}/values"
                server.ask("producer", "POST", path, content=body, headers=ARROW)
        for what, confidence in (("first", 0.95), ("another confidence", 0.9), ("again", 0.9)):
            processor, begin = server.processor, time.perf_counter()
            path = f"/v1/streams/{name}/table?every=1d&confidence={confidence}"
            answer = server.ask("reader", "GET", path)
            took, used = time.perf_counter() - begin, server.processor - processor
            assert len(answer.json()["columns"]["sum"]) >= keys * (days - 1)
            shown = f"{1e3 * took:.0f} ms, processor {1e3 * used:.0f} ms"
            print(f"  {days} × {keys} of {method}, {what}: {shown}")


def live(server: Server, readers: int = 500) -> None:
    server.create("live")

    async def run() -> list[float]:
        lags: list[float] = []
        begun = asyncio.Semaphore(0)
        token = server.tokens["reader"]
        head = "GET /v1/streams/live/live HTTP/1.1\r\nHost: x\r\n"
        head += f"Authorization: Bearer {token}\r\n\r\n"

        async def follow() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(head.encode())
            await reader.readuntil(b"\r\n\r\n")
            begun.release()
            for _ in range(5):
                while not (await reader.readline()).startswith(b"data"):
                    pass
                lags.append(time.perf_counter() - sent)
            writer.close()

        sent = 0.0
        following = [asyncio.create_task(follow()) for _ in range(readers)]
        for _ in following:
            await begun.acquire()
        await asyncio.sleep(1)
        for _ in range(5):
            sent = time.perf_counter()
            await raw_requests(server, "/v1/streams/live/values", [b"[1,2,3]"], 1)
            await asyncio.sleep(2)
        await asyncio.gather(*following)
        return lags

    processor = server.processor
    lags = asyncio.run(run())
    used = 1e3 * (server.processor - processor) / len(lags)
    print(f"{readers} live readers: lag median {np.median(lags):.3f} s, most {max(lags):.3f} s")
    print(f"  processor: {used:.2f} ms an event")


def keys(server: Server, count: int = 10_000) -> None:
    for method, settings in (("tops", {"holdout": 64}), ("adaptive", {"horizon": 4096})):
        name = f"keys-{method}"
        before = server.memory
        server.create(name, method=method, keys="public", settings=settings)
        names = [f"meter-{number}" for number in range(count)]
        random = np.random.default_rng(5)
        for turn in range(3):
            values = random.gamma(2, 10, 10 * count)
            body = arrow_body(values, key=names * 10)
            with measured(
                server, f"{count:,} keys of {method}, tick {turn}", values.size, "values"
            ):
                server.ask(
                    "producer", "POST", f"/v1/streams/{name}/values", content=body, headers=ARROW
                )
        more = server.memory - before
        print(f"{count:,} keys of {method}: {more:.0f} MB more, {server.memory:.0f} MB in all")
        server.stop()
        took = server.start()
        begin = time.perf_counter()
        facts = server.ask("reader", "GET", f"/v1/streams/{name}").json()
        more = time.perf_counter() - begin
        print(f"restart: ready in {took:.2f} s, {facts['keys']:,} keys in {more:.2f} s more")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--part", action="append", choices=PARTS)
    parser.add_argument("--database", help="postgresql://… of an empty database; default: SQLite")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--values", type=int, default=5_000_000)
    parser.add_argument("--stored", type=int, default=100_000_000)
    given = parser.parse_args()
    sizes = {
        "single": given.requests,
        "overload": 3 * given.requests,
        "arrow": given.values,
        "query": given.stored,
    }
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "gate", given.database)
        print(json.dumps({"start, s": round(server.start(), 2), "MB": round(server.memory)}))
        try:
            for part in given.part or PARTS:
                function = globals()[part]
                function(server, sizes[part]) if part in sizes else function(server)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
