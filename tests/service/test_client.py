"""The Python client: notebook code runs against a release here and against a service alike."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.service.conftest import Place, served
from tidegate.service.client.http import ServiceError
from tidegate.service.service_process import Service

VALUES = tg.synthetic.baskets(1_500)
START = np.datetime64("2024-01-01T00:00", "ns")
TIMES = START + np.arange(1_500) * np.timedelta64(15, "m")
SETTINGS: dict[str, Any] = {"epsilon": "1", "bound": 500, "horizon": 2_048}


def tokens(service: Service, *roles: str) -> list[str]:
    made = [
        service.gate.call(lambda role=role: service.tokens.make(role, role)).result()
        for role in roles
    ]
    service.tokens.changed()
    return made


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[Service, str]]:
    service = Place(tmp_path / "gate", None).opened()
    with served(service) as address:
        yield service, address


def notebook(release: Any) -> tuple[Any, ...]:
    """What an analyst would write, whatever `release` is."""
    released = release.push(VALUES[:700], times=TIMES[:700])
    more = release.push(VALUES[700:], times=TIMES[700:])
    week = release.query("2024-01-08", "2024-01-15")
    tables = release.table("1d"), release.table(500)
    many = release.queries(["2024-01-02", "2024-01-08"], ["2024-01-03", "2024-01-15"])
    sliding = release.moving("1d", "6h"), release.moving(200, start=100, end=900)
    return released, more, week, release.query(10, 900), *tables, many, *sliding


def test_a_notebook_runs_against_either(running: tuple[Service, str]) -> None:
    service, address = running
    stream = tg.connect(address, *tokens(service, "admin", "producer", "reader")).create(
        "meters", **SETTINGS
    )
    here = tg.adaptive(**SETTINGS).start()
    for one in (stream, here):
        released, more, week, ranged, days, parts, many, sliding, places = notebook(one)
        assert many[1].estimate == week.estimate
        assert many.start.tolist() == [96, 672]
        assert list(sliding.to_pandas().columns)[:4] == ["from", "to", "rows", "sum"]
        assert sliding.rows.tolist() == [96] * len(sliding)
        again = one.queries(*sliding.spans.astype("datetime64[ns]"))
        np.testing.assert_array_equal(sliding.answers.high, again.high)
        assert places.answers.end.tolist() == [*range(300, 901, 50)]
        assert repr(places).startswith("13 moving sums with 95% intervals")
        assert (released.size, more.size) == (700, 800)
        assert (week.start, week.end) == (672, 1344)
        assert week.low < VALUES[672:1344].sum() < week.high
        assert " over [10, 900): " in str(ranged)
        assert (len(days), len(parts), one.position) == (16, 3, 1_500)
        assert set(days.to_pandas().columns) >= {"time", "rows", "sum", "mean_low", "rate_high"}
    assert str(stream.guarantee) == str(here.guarantee)


def test_answers_are_those_of_the_service(running: tuple[Service, str]) -> None:
    service, address = running
    stream = tg.connect(address, *tokens(service, "admin", "producer", "reader")).create(
        "meters", **SETTINGS
    )
    released, more, *_ = notebook(stream)
    # What is not finite is handed over as itself: NaN is missing, infinity lies above the bound.
    stream.push([np.nan, np.inf], times=TIMES[-2:] + np.timedelta64(1, "h"))

    def inside(run: Any) -> tuple[Any, ...]:
        many = run.queries([0, 100], [700, 900], 0.9)
        moved = [run.moving("1d", "6h", from_="2024-01-04"), run.moving(100)]
        since = run.query(from_="2024-01-03")
        return many, run.query(3, 800), since, run.table("1d"), moved, run.seen

    many, ranged, since, days, moved, seen = service.gate.ask("meters", inside)
    there = [stream.moving("1d", "6h", from_="2024-01-04"), stream.moving(100)]
    for one, other in zip(there, moved, strict=True):
        assert repr(one) == repr(other)
        for name, column in other.columns().items():
            np.testing.assert_array_equal(one.columns()[name], column)
    assert seen == 1_502
    found = stream.queries([0, 100], [700, 900], 0.9)
    assert [found[at] for at in range(2)] == [many[at] for at in range(2)]
    assert stream.query(3, 800) == ranged
    assert stream.query(from_="2024-01-03") == since
    assert repr(stream.table("1d")) == repr(days)
    np.testing.assert_array_equal(stream.table("1d").edges, days.edges)
    rows = stream.rows(0, 1_500)
    np.testing.assert_array_equal(rows.values, np.concatenate((released, more)))
    np.testing.assert_array_equal(rows.times, TIMES.astype(np.int64))
    page = next(stream.follow(1_490))  # as far as the push went that it was released by
    assert (page.first, page.values.tolist()) == (1_490, more[-10:].tolist())


def test_numbers_that_json_does_not_hold_survive() -> None:
    from tidegate.service.answers_json import decoded_answer, decoded_answers, encoded_answers

    release = tg.flat(epsilon=1, bound=10, holdout=0).start()
    release.push([1, 2, 3])
    many = release.queries([0, 1], [2, 3])
    many.high[0] = np.inf
    assert decoded_answers(encoded_answers(many))[0] == many[0]
    assert decoded_answer(encoded_answers(many[0])) == many[0]
    assert decoded_answer({**encoded_answers(many[0]), "added later": 1}) == many[0]


def test_errors_are_those_of_the_library(running: tuple[Service, str]) -> None:
    service, address = running
    gate = tg.connect(address, *tokens(service, "admin", "reader"))
    stream = gate.create("meters", **SETTINGS)
    with pytest.raises(tg.RefusedError, match="there is a stream 'meters' already"):
        gate.create("meters", **SETTINGS)
    with pytest.raises(tg.SettingError, match="epsilon: must be greater than 0") as wrong:
        gate.create("other", epsilon=-1, bound=500)
    assert wrong.value.setting == "epsilon"
    with pytest.raises(tg.QueryError, match="nothing is measured yet"):
        stream.query(5, 1)
    with pytest.raises(tg.TidegateError, match="there is no stream 'nowhere'"):
        _ = gate["nowhere"].position
    with pytest.raises(tg.RefusedError, match="that may write"):
        stream.push([1.0])
    with pytest.raises(tg.RefusedError, match="does not know these tokens"):
        tg.connect(address, "tg_unknown")
    with pytest.raises(tg.SettingError, match="url: must begin with http"):
        tg.connect("localhost:8000")
    producer = tg.connect(address, *tokens(service, "producer"))
    assert producer["meters"].push([1.0, 2.0]) is None  # it may not read
    gate.retire("meters")
    with pytest.raises(tg.RefusedError, match="was retired"):
        producer["meters"].push(3.0)


class Breaking:
    """Stands between client and service, and loses the answers to the first `losses` pushes."""

    def __init__(self, port: int, losses: int) -> None:
        self._target, self._losses = port, losses
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.pushes = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        service = socket.create_connection(("127.0.0.1", self._target))
        with suppress(OSError), client, service:  # either side may hang up
            threading.Thread(target=self._back, args=(service, client), daemon=True).start()
            while asked := client.recv(1 << 20):
                service.sendall(asked)

    def _back(self, service: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while answer := service.recv(1 << 20):
                if b'"repeated"' in answer:
                    self.pushes += 1
                    if self.pushes <= self._losses:
                        client.shutdown(socket.SHUT_RDWR)
                        return
                client.sendall(answer)

    def close(self) -> None:
        self._listening.close()


def test_a_lost_answer_releases_nothing_twice(running: tuple[Service, str]) -> None:
    service, address = running
    made = tokens(service, "admin", "producer", "reader")
    tg.connect(address, *made).create("meters", **SETTINGS)
    between = Breaking(int(address.rpartition(":")[2]), losses=2)
    try:
        stream = tg.connect(f"http://127.0.0.1:{between.port}", *made)["meters"]
        assert stream.push([1, 2, 3]).size == 3
        assert between.pushes == 3  # taken once, and answered three times
        assert isinstance(stream.push(4), float)
        assert service.gate.ask("meters", lambda run: run.seen) == 4
    finally:
        between.close()


def test_a_service_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.service.client.http._FIRST_WAIT", 1e-4)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(ServiceError, match=rf"http://127.0.0.1:{port} cannot be reached"):
        tg.connect(f"http://127.0.0.1:{port}")
