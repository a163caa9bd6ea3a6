"""The database is gone, the disk is full, too much comes: refused clearly, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.cli.invoking import run
from tests.service.conftest import PLAIN, Place, PostgresServer, sender, served
from tidegate.durable import StorageError
from tidegate.service import gate
from tidegate.service.pending_requests import Busy, PendingPush
from tidegate.service.released_rows import rows_between
from tidegate.service.service_process import Service

httpx = pytest.importorskip("httpx", reason="tests of the service need the extra [test]")

PIPELINE = tg.adaptive(epsilon=1, bound=100, horizon=400)
VALUES = np.random.default_rng(8).gamma(2, 10, 400)
GONE = float(os.environ.get("TIDEGATE_DATABASE_GONE", "0.5"))  # seconds; the heavy run has 60
KEY = b"k" * 32


def started(place: Place) -> tuple[Service, Any]:
    """A service with a stream, and a release with the same noise."""
    service = place.opened(KEY)
    service.gate.call(lambda: service.gate.streams.create("meters", PIPELINE)).result()
    snapshot = service.gate.ask("meters", lambda run: run._release.snapshot())
    return service, PIPELINE.resume(snapshot)


def released(service: Service) -> Any:
    blocks = list(rows_between(service.gate.database, "meters", 0, 10**9))
    assert [one.first for one in blocks[1:]] == [one.end for one in blocks[:-1]]
    return np.concatenate([one.values for one in blocks])


def test_postgresql_is_gone_for_a_while(postgres_server: PostgresServer, tmp_path: Path) -> None:
    """A producer that retries what is refused loses nothing, and nothing is released twice."""
    service, whole = started(Place(tmp_path / "gate", postgres_server.new_database()))
    token = service.make_token("producer", "p")
    refused: list[Any] = []
    sent = threading.Event()

    def produce(address: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=address, headers=headers, timeout=240, verify=PLAIN) as client:
            for start in range(0, VALUES.size, 4):
                while True:
                    answer = client.post(
                        f"/v1/streams/meters/values?start={start}",
                        json=VALUES[start : start + 4].tolist(),
                        headers={"Idempotency-Key": f"request {start}"},
                    )
                    if answer.status_code in (200, 202):
                        break
                    refused.append(answer)
                    time.sleep(0.05)
                if start >= 100:
                    sent.set()

    with served(service) as address:
        producer = threading.Thread(target=produce, args=(address,))
        producer.start()
        sent.wait(240)
        postgres_server.stop()
        time.sleep(GONE)
        ready = httpx.get(f"{address}/readyz", verify=PLAIN)
        postgres_server.start()
        producer.join()
        assert httpx.get(f"{address}/readyz", verify=PLAIN).text == "ok"  # it recovered by itself
        assert refused
        assert {one.status_code for one in refused} == {503}
        assert all(one.headers["retry-after"] for one in refused)
        assert ready.status_code == 503
        assert released(service).tobytes() == whole.push(VALUES).tobytes()


def test_the_disk_is_full(tmp_path: Path) -> None:
    service, whole = started(Place(tmp_path / "gate", None))
    send = sender(service, "meters")
    send(*VALUES[:100])

    def limit(pages: int) -> None:
        def set_limit() -> None:
            connection = service.gate.database.connection
            used = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            most = used + 1 if pages else 2**31
            connection.exec_driver_sql(f"PRAGMA max_page_count={most}").close()

        service.gate.call(set_limit).result()

    limit(1)  # SQLite says "database or disk is full", as it does at the end of a disk

    def fill() -> None:
        for at in range(100, 400, 10):
            send(*VALUES[at : at + 10], start=at)

    with pytest.raises(StorageError):
        fill()
    assert service.gate.failure is not None
    seen = service.gate.ask("meters", lambda run: run.seen)
    limit(0)
    send(*VALUES[seen:], start=seen)
    assert service.gate.failure is None
    assert released(service).tobytes() == whole.push(VALUES).tobytes()
    service.gate.close()


def test_the_lock_file_cannot_be_written_once(place: Place) -> None:
    """A commit is durable, and its number cannot be noted: the ledger's copy has it once.

    The copy had it twice, so that the service did not start again ("another history").
    """
    service, _ = started(place)
    lock = service.gate.database.lock
    assert lock._file is not None
    kept, blind = os.dup(lock._file), os.open("/dev/null", os.O_RDONLY)
    os.dup2(blind, lock._file)  # every write to it fails; `kept` holds the lock
    try:
        with pytest.raises(StorageError):
            service.gate.call(lambda: service.gate.streams.retire("meters")).result()
    finally:
        os.dup2(kept, lock._file)
        os.close(kept)
        os.close(blind)
    create = service.gate.streams.create
    service.gate.call(lambda: create("other", PIPELINE)).result()
    notes = service.gate.spent(lambda book: [entry.note for entry in book.entries])
    assert sum("retired" in note for note in notes) == 1
    service.gate.close()
    again = place.opened(KEY)
    assert again.gate.spent(lambda book: [entry.note for entry in book.entries]) == notes
    again.gate.close()


def test_too_much_is_refused_and_never_lost(tmp_path: Path) -> None:
    service, whole = started(Place(tmp_path / "gate", None))
    taken: list[PendingPush] = []
    refused = 0
    with service.gate.lock:  # the gate cannot empty its queue
        for at in range(6000):
            one = PendingPush("meters", VALUES[at % 400 : at % 400 + 1])
            try:
                service.gate.submit(one)
                taken.append(one)
            except Busy:
                refused += 1
    assert refused > 500
    starts = [one.answer.result(240).start for one in taken]
    assert starts == list(range(len(taken)))
    expected = whole.push(np.concatenate([one.values for one in taken]))
    assert released(service).tobytes() == expected.tobytes()
    service.gate.close()


def test_overload_over_http_is_refused_and_never_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three times as many values at once as the gate lets wait; what is refused is sent again."""
    service, whole = started(Place(tmp_path / "gate", None))
    # Of 120 that are on their way 40 may have been taken, and 40 wait: at least ten are refused.
    monkeypatch.setattr(gate, "MOST_VALUES", 40)
    token = service.make_token("producer", "p")
    refused: list[Any] = []
    starts: dict[int, int] = {}

    async def produce(client: Any, number: int) -> None:
        body = VALUES[4 * number : 4 * number + 4].tolist()
        while True:
            answer = await client.post("/v1/streams/meters/values", json=body)
            if answer.status_code == 202:
                starts[number] = answer.json()["start"]
                return
            refused.append(answer)
            await asyncio.sleep(0.05)

    async def load(address: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        limits = httpx.Limits(max_connections=30)
        async with httpx.AsyncClient(
            base_url=address, headers=headers, limits=limits, timeout=240
        ) as client:
            await asyncio.gather(*(produce(client, number) for number in range(100)))

    with served(service) as address, ThreadPoolExecutor(1) as threads:
        with service.gate.lock:  # as long as it takes until too much waits
            loading = threads.submit(lambda: asyncio.run(load(address)))
            while len(refused) < 5 and not loading.done():
                time.sleep(0.01)
        loading.result()
        assert {one.status_code for one in refused} == {429}
        assert all(int(one.headers["retry-after"]) >= 1 for one in refused)
        order = sorted(starts, key=starts.__getitem__)  # as they were taken
        assert [starts[number] for number in order] == list(range(0, 400, 4))
        sent = np.concatenate([VALUES[4 * number : 4 * number + 4] for number in order])
        assert released(service).tobytes() == whole.push(sent).tobytes()


def test_a_token_that_asks_too_often_is_told_to_wait(tmp_path: Path) -> None:
    service, _ = started(Place(tmp_path / "gate", None))
    tokens = [service.make_token("producer", name) for name in "ab"]
    with (
        served(service, rate=2.0) as address,
        httpx.Client(base_url=address, verify=PLAIN) as client,
    ):
        path = "/v1/streams/meters/values"

        def push(token: str) -> Any:
            return client.post(path, json=[1], headers={"Authorization": f"Bearer {token}"})

        answers = [push(tokens[0]) for _ in range(8)]
        late = [one for one in answers if one.status_code == 429]
        assert late
        assert all(int(one.headers["retry-after"]) >= 1 for one in late)
        assert push(tokens[1]).status_code == 202  # others are not held up
        assert all(client.get("/healthz").status_code == 200 for _ in range(8))
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as raw:  # announced, and never sent
            raw.sendall(
                f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {1 << 30}\r\n\r\n".encode()
            )
            assert raw.recv(100).startswith(b"HTTP/1.1 413")


def test_backup_and_restore(tmp_path: Path) -> None:
    service, _ = started(Place(tmp_path / "gate", None))
    sender(service, "meters")(*VALUES[:50])
    assert run("backup", tmp_path / "gate", tmp_path / "copy").exit_code == 0  # beside the service
    sender(service, "meters")(*VALUES[50:100])
    service.gate.close()
    refused = run("restore", tmp_path / "copy", tmp_path / "gate")
    assert refused.exit_code != 0
    assert "move it away" in refused.stderr
    for file in (tmp_path / "gate").glob("service.sqlite*"):
        file.unlink()
    large = b"x" * (24 << 20)  # a database may be larger than the memory
    with sqlite3.connect(tmp_path / "copy" / "service.sqlite") as database:
        database.execute("CREATE TABLE large (body BLOB)")
        database.execute("INSERT INTO large VALUES (?)", (large,))
    database.close()
    tracemalloc.start()
    assert run("restore", tmp_path / "copy", tmp_path / "gate").exit_code == 0
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < len(large) / 2
    service = Service.opened(tmp_path / "gate", None, KEY)
    assert oct((tmp_path / "gate" / "service.sqlite").stat().st_mode & 0o777) == "0o600"
    assert service.gate.ask("meters@1", lambda run: run.position) == 50
    assert sender(service, "meters")(1.0).start == 0
    assert service.gate.streams.ledger.total("meters").epsilon == 2
    service.gate.close()
