"""What must hold for long, and when things go wrong: soak, overload, a database that is gone."""

from __future__ import annotations

import asyncio
import threading
import time

import httpx
import numpy as np

from benchmarks.service.postgres import Postgres
from benchmarks.service.serving import ARROW, Server, arrow_body, raw_requests, told
from tidegate.service.gate import MOST_VALUES

_BATCH = 50_000  # values of a request


def overload(server: Server, count: int) -> None:
    """Twice as many values wait as the gate lets wait: refused, never lost."""
    server.create("overload", method="tops", settings={"horizon": 2**20})
    bodies = [arrow_body(np.full(_BATCH, 7.0))] * count
    clients = 2 * MOST_VALUES // _BATCH
    path, kind = "/v1/streams/overload/values", ARROW["Content-Type"]
    statuses = asyncio.run(raw_requests(server, path, bodies, clients, kind))
    taken = server.ask("reader", "GET", "/v1/streams/overload").json()["taken"]
    print(f"overload, {clients} clients with {_BATCH:,} values each: {statuses}; taken {taken:,}")
    told("values lost or doubled", abs(taken - _BATCH * statuses.get(202, 0)), 0, at_most=True)
    told("requests that were refused", count - statuses.get(202, 0), 1)
    strange = sum(many for status, many in statuses.items() if status not in (202, 429, 503))
    told("answers that are neither 202, 429 nor 503", strange, 0, at_most=True)


def gone(server: Server, database: Postgres, seconds: float) -> None:
    """The database stops under load, and starts again: refused meanwhile, then all goes on."""
    server.create("gone")
    headers = server.headers("producer")
    statuses: dict[int, int] = {}
    waits, sent, stop = [], 0, threading.Event()

    def produce() -> None:
        nonlocal sent
        with httpx.Client(base_url=server.address, headers=headers, timeout=60) as client:
            while not stop.is_set():
                more = {"Idempotency-Key": f"request {sent}"}
                path = f"/v1/streams/gone/values?start={sent}"
                answer = client.post(path, json=[sent % 90], headers=more)
                statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
                if answer.status_code in (200, 202):
                    sent += 1
                else:
                    waits.append(answer.headers.get("retry-after"))
                    time.sleep(0.05)

    producer = threading.Thread(target=produce)
    producer.start()
    time.sleep(3)
    database.stop()
    begin = sent
    time.sleep(seconds)
    database.start()
    restarted = time.perf_counter()
    while sent <= begin + 1:
        time.sleep(0.01)
    recovered = time.perf_counter() - restarted
    time.sleep(3)
    stop.set()
    producer.join()
    facts = server.ask("reader", "GET", "/v1/streams/gone").json()
    print(f"database gone for {seconds:g} s: {statuses}; recovered {recovered:.2f} s after it")
    told("values lost or doubled", abs(facts["taken"] - sent), 0, at_most=True)
    told("refusals without Retry-After", waits.count(None), 0, at_most=True)
    others = sum(many for status, many in statuses.items() if status not in (200, 202, 503))
    told("answers that are neither taken nor 503", others, 0, at_most=True)
    told("s until values are taken again", recovered, 5, at_most=True)


def soak(server: Server, minutes: float, pace: float, horizon: int = 4096) -> None:
    """Steady load of every kind, `pace` turns a second: memory must stay flat after a sixth.

    A record keeps 16 horizons, and a key gets a row in a turn: with a short horizon the records are
    full after some minutes, and nothing may grow any more.
    """
    server.create("soak-readings", settings={"horizon": horizon})
    names = [f"zone-{number}" for number in range(50)]
    server.create("soak-keys", keys=names, settings={"horizon": horizon})
    clock = {"every": "1s", "start": "2024-01-01T00:00Z"}
    server.create("soak-events", events=clock)
    random, samples, begin = np.random.default_rng(6), [], time.perf_counter()
    with httpx.Client(base_url=server.address, timeout=600) as client:
        turn, said = 0, 0.0
        while (past := time.perf_counter() - begin) < 60 * minutes:
            _turn(client, server, random, names, turn)
            turn += 1
            time.sleep(max(0.0, begin + turn / pace - time.perf_counter()))
            samples.append((past, server.memory))
            if past - said >= 30:
                said = past
                print(
                    f"  {past / 60:5.1f} min: {server.memory:,.0f} MB, {turn:,} turns", flush=True
                )
    settled = [(at, size) for at, size in samples if at > 10 * minutes]
    slope = np.polyfit(*np.array(settled).T, 1)[0] * 3600
    grown = settled[-1][1] / settled[0][1]
    print(f"soak of {minutes:g} min: {turn:,} turns, {settled[-1][1]:,.0f} MB, {slope:+,.1f} MB/h")
    told("memory at the end over that after a sixth", grown, 1.1, at_most=True)


def _turn(
    client: httpx.Client, server: Server, random: np.random.Generator, names: list[str], turn: int
) -> None:
    produce, read = server.headers("producer"), server.headers("reader")
    second = f"2024-01-01T{turn // 3600 % 24:02d}:{turn // 60 % 60:02d}:{turn % 60:02d}Z"
    bodies = {
        "soak-readings": {"values": random.gamma(2, 10, 200).tolist()},
        "soak-keys": {"values": random.gamma(2, 10, 50).tolist(), "keys": names},
        "soak-events": {"values": [5.0] * 20, "times": [second] * 20, "until": second},
    }
    for name, body in bodies.items():
        answer = client.post(f"/v1/streams/{name}/values", json=body, headers=produce)
        if answer.status_code not in (202, 429, 503):
            raise SystemExit(f"{name}: {answer.status_code} {answer.text}")
    if turn % 20 == 19:
        for question in ("soak-readings/sum?start=0&end=100", "soak-keys/sum?key=zone-3"):
            client.get(f"/v1/streams/{question}", headers=read)
        client.get("/v1/streams/soak-readings/values?limit=1000", headers=read)
