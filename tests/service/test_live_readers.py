"""Live readers: no row is missed over epochs and broken connections; a revoked token ends them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidegate as tg
from tests.service.conftest import PLAIN, Place, served
from tidegate.service import live_readers
from tidegate.service.live_readers import first_live_position
from tidegate.service.service_process import Service
from tidegate.service.stored_stream import StoredStream
from tidegate.service.stored_tokens import make_token_in

httpx = pytest.importorskip("httpx", reason="tests of the service need the extra [test]")

PATH = "/v1/streams/meters"


class Gate:
    """A served gate with the stream `meters`."""

    def __init__(self, service: Service, client: Any) -> None:
        self.service, self.client = service, client
        self.tokens = {role: self.token(role, role) for role in ("admin", "producer", "reader")}
        new = {"name": "meters", "epsilon": "1", "bound": 100, "settings": {"horizon": 600}}
        self("admin", "POST", "/v1/streams", new)

    def token(self, role: str, label: str) -> str:
        return make_token_in(self.service.gate, self.service.tokens, role, label).result()

    def __call__(self, role: str, method: str, path: str, content: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self.tokens[role]}"}
        answer = self.client.request(method, path, headers=headers, json=content)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def push(self, count: int) -> None:
        self("producer", "POST", f"{PATH}/values", [7] * count)

    def live(self, last_id: str | None = None, token: str = "", name: str = "meters") -> Any:
        headers = {"Authorization": f"Bearer {token or self.tokens['reader']}"}
        if last_id is not None:
            headers["Last-Event-ID"] = last_id
        return self.client.stream("GET", f"/v1/streams/{name}/live", headers=headers)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    service = Place(tmp_path / "gate", None).opened()
    with (
        served(service) as address,
        httpx.Client(base_url=address, timeout=60, verify=PLAIN) as client,
    ):
        yield Gate(service, client)


def told(lines: Iterator[str]) -> tuple[str, range | None]:
    """The id of the next event, and the positions of its rows."""
    name, rows = "", None
    for line in lines:
        if line.startswith("id: "):
            name = line.removeprefix("id: ")
        elif line.startswith("data: "):
            block = json.loads(line.removeprefix("data: "))
            rows = range(block["first"], block["first"] + len(block["values"]))
        elif not line:
            break
    return name, rows


def test_a_new_epoch_ends_a_live_answer_and_the_id_resumes_at_its_first_row(gate: Gate) -> None:
    gate.push(5)
    with gate.live() as live:
        lines = live.iter_lines()
        assert told(lines) == ("5", None)  # who loses the connection now resumes from here
        gate.push(3)
        assert told(lines) == ("8", range(5, 8))
        gate("admin", "POST", f"{PATH}/epochs")
        gate.push(4)
        assert not list(lines)  # it ends: its rows begin at 0 again
    with gate.live("8") as live:
        lines = live.iter_lines()
        assert told(lines) == ("0@2", None)
        assert told(lines) == ("4@2", range(4))
    with gate.live("2@2") as live:
        lines = live.iter_lines()
        assert told(lines) == ("2@2", None)
        assert told(lines) == ("4@2", range(2, 4))
    with gate.live("6", name="meters@1") as live:  # an epoch that was asked for by its number
        lines = live.iter_lines()
        assert told(lines) == ("6", None)
        assert told(lines) == ("8", range(6, 8))


def test_a_live_answer_ends_when_its_token_is_revoked(gate: Gate, monkeypatch: Any) -> None:
    monkeypatch.setattr(live_readers, "_ASKED_AGAIN", 0.0)
    token = gate("admin", "POST", "/v1/tokens", {"role": "reader", "label": "leaked"})["token"]
    with gate.live(token=token) as live:
        lines = live.iter_lines()
        told(lines)
        gate.push(1)
        assert told(lines) == ("1", range(1))
        gate("admin", "DELETE", "/v1/tokens/leaked")
        gate.push(1)
        assert not list(lines)


@pytest.mark.parametrize("last_id", ["", "abc", "-1", "1.5", "3,4", "٣", "9" * 400, "5@", "@2"])
def test_an_id_that_is_none_counts_as_none(last_id: str) -> None:
    stream = StoredStream("meters", {}, "meters", "")
    assert first_live_position(stream, last_id, None, 96) == 96
    assert first_live_position(stream, last_id, 7, 96) == 7


def test_an_id_beyond_the_end_waits_for_the_next_row() -> None:
    stream = StoredStream("meters", {}, "meters", "")
    assert first_live_position(stream, "99999999", None, 96) == 96
    assert first_live_position(stream, " 95 ", 3, 96) == 95


def test_a_reader_shares_no_reading_that_began_before_the_news(
    gate: Gate, monkeypatch: Any
) -> None:
    """A slow reading that saw nothing must not make others wait for the next row."""
    live, begun, go = gate.service.live, threading.Event(), threading.Event()
    real = live._page

    def slow(*place: Any) -> Any:
        found = real(*place)
        if not begun.is_set():
            begun.set()
            go.wait(60)
        return found

    monkeypatch.setattr(live, "_page", slow)
    with gate.live() as first:
        told(first.iter_lines())
        assert begun.wait(60)
        gate.push(1)
        with gate.live("0") as second:
            lines = second.iter_lines()
            assert told(lines) == ("0", None)
            ended = threading.Timer(5, go.set)
            ended.start()
            assert told(lines) == ("1", range(1))
            assert not go.is_set()  # it did not wait for the other one
            ended.cancel()
            go.set()


def test_live_readers_end_when_the_service_stops(gate: Gate) -> None:
    with gate.live() as live:
        lines = live.iter_lines()
        told(lines)
        loop = gate.service.live._loop
        assert loop is not None
        loop.call_soon_threadsafe(gate.service.live.end)
        assert not list(lines)


def test_the_python_client_follows_over_epochs(gate: Gate) -> None:
    address = str(gate.client.base_url)
    with tg.connect(address, gate.tokens["reader"]) as connected:
        gate.push(5)
        pages = connected["meters"].follow(3)
        first = next(pages)
        assert (first.first, first.values.size) == (3, 2)
        gate("admin", "POST", f"{PATH}/epochs")
        gate.push(4)
        second = next(pages)
        assert (second.first, second.values.size) == (0, 4)
        pages.close()
