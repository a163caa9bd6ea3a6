"""Answers out: range queries over a long stream, tables by key, live readers."""

from __future__ import annotations

import asyncio
import time

import httpx
import numpy as np

from benchmarks.service.serving import ARROW, Server, arrow_body, measured, raw_requests, told


def query(server: Server, stored: int) -> None:
    """Range queries over a long stream: its rows are made by pushes of four million."""
    server.create("long", method="tops", settings={"horizon": 2**24})
    size = min(stored, 4_000_000)
    body = arrow_body(np.random.default_rng(2).gamma(2, 10, size))
    with measured(server, f"{stored:,} values stored", stored, "values"):
        for _ in range(stored // size):
            server.ask("producer", "POST", "/v1/streams/long/values", content=body, headers=ARROW)
    random, took = np.random.default_rng(3), []
    with httpx.Client(
        base_url=server.address, headers=server.headers("reader"), timeout=600
    ) as client:
        client.get("/v1/streams/long/sum")
        stored = client.get("/v1/streams/long").json()["released"]  # without the hold-out
        for _ in range(1000):
            start, end = sorted(random.integers(0, stored, 2).tolist())
            begin, processor = time.perf_counter(), server.processor
            answer = client.get(f"/v1/streams/long/sum?start={start}&end={end + 1}")
            took.append((time.perf_counter() - begin, server.processor - processor))
            assert answer.status_code == 200, answer.text
    for what, times in zip(("the clock", "the processor"), np.array(took).T, strict=True):
        median, late = (1e3 * np.quantile(times, share) for share in (0.5, 0.99))
        print(f"range query, of {what}: median {median:.2f} ms, p99 {late:.2f} ms")
        told(f"p99 of a range query, ms of {what}", late, 20, at_most=True)


def table(server: Server, keys: int = 100, days: int = 30) -> None:
    """A table by day and key: first of all, with another confidence, after rows, after a start.

    A stream of few keys is smoothed once it rests and when the service starts, whether somebody has
    asked or not; straight after rows have come, a table waits for that.
    """
    names = [f"zone-{number}" for number in range(keys)]
    ticks = 1_704_067_200 + 900 * np.arange(96 * (days + 1))
    random = np.random.default_rng(4)
    for method, more in (("tops", {"holdout": 96}), ("adaptive", {})):
        name = f"zones-{method}"
        settings = {"horizon": 96 * days, **more}
        server.create(name, method=method, keys=names, settings=settings)

        def push(first: int, last: int, name: str = name) -> None:
            mine = np.repeat(ticks[first:last], keys)
            sent = names * (last - first)
            body = arrow_body(random.gamma(2, 10, mine.size), time=mine, key=sent)
            path = f"/v1/streams/{name}/values"
            server.ask("producer", "POST", path, content=body, headers=ARROW)

        with measured(server, f"{keys} keys of {method}, {days} days", 96 * days * keys, "values"):
            for day in range(days):
                push(96 * day, 96 * (day + 1))
        for what, confidence in (
            ("first of all, straight after rows", 0.95),
            ("another confidence", 0.9),
            ("the same", 0.9),
            ("after a row of each key", 0.9),
            ("after another, straight away", 0.9),
            ("first of all, fresh process", 0.9),
        ):
            if "fresh" in what:
                server.stop()
                server.start()
            elif "another, straight" in what or "a row" in what:
                at = 96 * days + ("straight" in what)
                push(at, at + 1)
            if "a row" in what:
                _rests(server)
            processor, begin = server.processor, time.perf_counter()
            path = f"/v1/streams/{name}/table?every=1d&confidence={confidence}"
            answer = server.ask("reader", "GET", path)
            took, used = time.perf_counter() - begin, server.processor - processor
            assert len(answer.json()["columns"]["sum"]) >= keys * (days - 1)
            shown = f"{1e3 * took:.0f} ms, processor {1e3 * used:.0f} ms"
            print(f"  {days} × {keys} of {method}, {what}: {shown}")
            if what != "the same":
                told(f"ms of the processor, {what}", 1e3 * used, 200, at_most=True)


def _rests(server: Server) -> None:
    """Wait until the service has nothing to do. On a busy machine it may get little at a time."""
    quiet = 0.0
    while quiet < 8:
        before = server.processor
        time.sleep(1)
        quiet = quiet + 1 if server.processor - before < 0.02 else 0.0


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
    told("lag of a live reader, s", max(lags), 1, at_most=True)
