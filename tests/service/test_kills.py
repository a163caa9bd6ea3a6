"""kill −9 of the service at any moment: what it acknowledged is released, once, with its noise."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

import tidegate as tg
from tests.service.conftest import Place
from tidegate.keyed.keyed_snapshot import resumed_keys, sealed_keys
from tidegate.service.database import Database
from tidegate.service.gate import GateThread
from tidegate.service.pending_requests import PendingPush, RequestsOfSameRows
from tidegate.service.released_rows import RowBlock, rows_between
from tidegate.service.service_process import Service

PIPELINE = tg.adaptive(epsilon=1, bound=100, horizon=1000)
REQUEST = 10  # values
KILLS = int(os.environ.get("TIDEGATE_KILLS", "6"))  # `make test-service` has 100
VALUES = np.random.default_rng(5).gamma(2, 10, max(1200, 60 * KILLS))  # some after the last kill
KEY = b"k" * 32


COLUMNS = {"fare": "0.7", "tip": "0.3"}
NAMES = [f"zone {number}" for number in range(7)]
KINDS = {"readings": None, "keys": {"names": NAMES[:-1], "threshold": "per key"}}  # one is dropped


def keys_of(number: int) -> list[str]:
    """The keys of a request: not all, so that commits write different pages."""
    return [NAMES[(number + at * at) % len(NAMES)] for at in range(REQUEST)]


def rows_of(number: int, kind: str) -> list[PendingPush]:
    """The columns of some rows, which go with a request of readings."""
    values, whole = VALUES[number * REQUEST : (number + 1) * REQUEST], RequestsOfSameRows()
    names = COLUMNS if kind == "readings" else {}
    return [PendingPush(f"trips.{one}", values, key=f"rows {number}", rows=whole) for one in names]


def work(folder: Path, url: str | None, kind: str, first: int, told: Connection) -> None:
    """A service and a producer in one process: sends requests, and tells what was acknowledged."""
    gate = GateThread(Database(folder, url), key=KEY)
    gate.open()
    if kind == "readings":
        told.send([gate.ask(f"trips.{one}", lambda run: run.seen) for one in COLUMNS])
    for number in range(first, VALUES.size // REQUEST):
        values = VALUES[number * REQUEST : (number + 1) * REQUEST]
        keys = None if KINDS[kind] is None else keys_of(number)
        start = number * REQUEST if keys is None else None  # not public: some rows are dropped
        one = PendingPush("meters", values, key=f"request {number}", start=start, keys=keys)
        gate.submit(one, *(rows := rows_of(number, kind)))
        receipt = one.answer.result()
        for column in rows:
            column.answer.result()
        told.send((number, receipt.start, receipt.count))
    gate.close()
    told.send(None)


def killed_again_and_again(place: Place, kind: str) -> None:
    """Until everything was acknowledged; after the last kill it is left alone."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    draws = random.Random(17)
    kills, acknowledged, done = 0, -1, False
    while not done:
        ours, theirs = context.Pipe()
        # Sent again from a little earlier: a producer does not know what was taken.
        first = max(0, acknowledged - 2)
        process = context.Process(target=work, args=(place.folder, place.url, kind, first, theirs))
        process.start()
        theirs.close()
        more = draws.randrange(0, 6) if kills < KILLS else VALUES.size
        while True:
            try:
                told = ours.recv()
            except EOFError:
                break
            if told is None:
                done = True
                break
            if isinstance(told, list):
                assert told[0] == told[1]  # no kill has torn a row
                continue
            number, start, count = told
            place_of_request = number * REQUEST if KINDS[kind] is None else None
            assert (start, count) == (place_of_request, REQUEST)
            acknowledged = max(acknowledged, number)
            if number > first + 2 + more or (kills < KILLS and more == 0):
                time.sleep(draws.random() * 0.004)  # somewhere in the next request
                os.kill(process.pid or 0, signal.SIGKILL)
                kills += 1
                break
        process.join()
        ours.close()
    assert kills >= KILLS


def released_rows(service: Service, name: str = "meters") -> list[RowBlock]:
    rows = list(rows_between(service.gate.database, name, 0, 10**9))
    ends = np.cumsum([piece.values.size for piece in rows])
    assert [piece.first for piece in rows] == [0, *ends[:-1]]  # no gap, nothing twice
    return rows


def test_kills_leave_no_trace(place: Place) -> None:
    service = place.opened(KEY)
    service.gate.call(lambda: service.gate.streams.create("meters", PIPELINE)).result()
    # What an undisturbed release gives: the same noise, on the same values.
    pipelines = {name: tg.adaptive(epsilon=one, bound=100) for name, one in COLUMNS.items()}
    service.gate.call(lambda: service.gate.streams.create_columns("trips", pipelines)).result()
    copied = {
        name: service.gate.ask(name, lambda run: run.pipeline.resume(run._release.snapshot()))
        for name in ("meters", *(f"trips.{one}" for one in COLUMNS))
    }
    service.gate.close()
    killed_again_and_again(place, "readings")
    service = place.opened(KEY)
    for name, whole in copied.items():
        released = np.concatenate([piece.values for piece in released_rows(service, name)])
        assert released.tobytes() == whole.push(VALUES).tobytes(), name
    for source in ("meters", "trips"):
        assert service.gate.streams.ledger.total(source).epsilon == 1
    whole = copied["meters"]
    assert service.gate.ask("meters", lambda run: run.query(100, 1100)) == whole.query(100, 1100)
    service.gate.close()


def test_kills_leave_no_trace_in_any_key(place: Place) -> None:
    service = place.opened(KEY)
    create = service.gate.streams.create
    service.gate.call(lambda: create("meters", PIPELINE, keys=KINDS["keys"])).result()
    run = service.gate.ask("meters", lambda run: run)
    whole = resumed_keys(run.specification, sealed_keys(run.release, None, brief=False), None)
    service.gate.close()
    killed_again_and_again(place, "keys")
    service = place.opened(KEY)
    rows = released_rows(service)
    keys = [key for number in range(VALUES.size // REQUEST) for key in keys_of(number)]
    expected = whole.push(keys, VALUES[: len(keys)])
    for name in ("codes", "positions", "values", "levels"):
        found = np.concatenate([getattr(piece, name) for piece in rows])
        assert found.tobytes() == getattr(expected, name).tobytes(), name
    assert service.gate.streams.ledger.total("meters").epsilon == 1
    service.gate.close()
