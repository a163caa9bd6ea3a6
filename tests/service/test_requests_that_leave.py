"""A request whose connection was cancelled, or a reader that fails, stops nobody else."""

from __future__ import annotations

import socket
import time
from concurrent.futures import CancelledError
from functools import partial
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.service.conftest import Place, sender, served
from tests.service.test_devices import Fleet, Time
from tidegate.errors import TidegateError
from tidegate.service.devices.device_requests import DeviceQuestion
from tidegate.service.pending_requests import PendingPush
from tidegate.service.request_limits import RequestLimits

PIPELINE = tg.tops(epsilon=1, bound=100, resolution=1, holdout=5, horizon=16)


@pytest.fixture
def service(tmp_path: Any) -> Any:
    service = Place(tmp_path / "gate", None).opened()
    gate = service.gate
    gate.call(lambda: gate.streams.create("meters", PIPELINE)).result(60)
    yield service
    gate.close()


def test_a_producer_that_leaves_does_not_stop_the_gate(service: Any) -> None:
    # Catches: `set_result` of a cancelled answer, which raised in the gate's only thread.
    with service.gate.lock:  # so that they form one group
        gone, other = (
            PendingPush("meters", np.array([1.0]), key="a"),
            PendingPush("meters", np.ones(2)),
        )
        for one in (gone, other):
            service.gate.submit(one)
        assert gone.answer.cancel()
    assert other.answer.result(60).start == 1
    assert sender(service, "meters")(1.0, key="a").repeated  # it was taken, and says so
    assert sender(service, "meters")(3.0).start == 3


def test_nor_one_that_is_refused(service: Any) -> None:
    with service.gate.lock:
        gone = PendingPush("nowhere", np.array([1.0]))
        service.gate.submit(gone)
        assert gone.answer.cancel()
    with pytest.raises(CancelledError):
        gone.answer.result(60)
    assert sender(service, "meters")(3.0).start == 0


@pytest.mark.parametrize("fails", [False, True])
def test_nor_a_call_that_nobody_waits_for(service: Any, fails: bool) -> None:
    def work() -> None:
        if fails:
            raise TidegateError("no")

    with service.gate.lock:
        assert service.gate.call(work).cancel()
    assert sender(service, "meters")(3.0).start == 0


def test_nor_a_listener_that_fails(service: Any, caplog: pytest.LogCaptureFixture) -> None:
    def listener(group: Any) -> None:
        raise RuntimeError("the loop is closed")

    service.gate.listener = listener
    for at in range(3):
        assert sender(service, "meters")(3.0).start == at
    assert "RuntimeError" in caplog.text
    assert "closed" not in caplog.text  # its words may quote what is secret


def test_nor_a_device_that_leaves(tmp_path: Any) -> None:
    # Catches: a queue that was busy for ever, so that no device was answered any more.
    fleet = Fleet(Place(tmp_path / "gate", None), Time())
    fleet.queue.listener = lambda working: 1 / 0
    gone = DeviceQuestion(fleet.id, fleet.round, "one")
    with fleet.service.gate.lock:
        fleet.queue.submit(gone)
        assert gone.answer.cancel()
    other = DeviceQuestion(fleet.id, fleet.round, "two")
    fleet.queue.submit(other)
    assert other.answer.result(60)
    fleet.service.gate.close()


def test_a_body_that_does_not_come_is_waited_for_and_not_for_ever(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of it is here at once, the next one comes late, the last one never."""
    limits = partial(RequestLimits, patience=1.0)
    monkeypatch.setattr("tidegate.service.service_process.RequestLimits", limits)
    service = Place(tmp_path / "gate", None).opened()
    token = service.make_token("producer", "slow")
    pipeline = tg.adaptive(epsilon=1, bound=100, horizon=400)
    service.gate.call(lambda: service.gate.streams.create("meters", pipeline)).result()
    head = (
        "POST /v1/streams/meters/values HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {token}\r\nContent-Length: 7\r\n\r\n"
    ).encode()
    with served(service) as address:
        port = int(address.rpartition(":")[2])
        for pieces, status in (([b"[1,", b"2,", b"3]"], b"202"), ([b"[1,", b"2,"], b"408")):
            with socket.create_connection(("127.0.0.1", port), timeout=240) as connection:
                connection.sendall(head + pieces[0])
                for piece in pieces[1:]:
                    time.sleep(0.2)
                    connection.sendall(piece)
                assert connection.recv(4096).split(b" ")[1] == status
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(head + b"[1,")  # and leaves
        assert service.gate.ask("meters", lambda run: run.seen) == 3
