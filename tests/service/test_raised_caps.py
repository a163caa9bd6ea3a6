"""Streams whose number of rows is protected are charged when a cap is raised, not by a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sqlalchemy import update

import tidegate as tg
from tests.service.conftest import Place
from tidegate.ledger import CapExceeded
from tidegate.service import database_schema
from tidegate.service.pending_requests import PendingPush
from tidegate.service.service_process import Service
from tidegate.timestamps import read_times

READINGS = tg.adaptive(epsilon=1, bound=9, horizon=64)
EVENTS = tg.events(epsilon=1, bound=9, horizon=64, every="1h", start="2024-01-01T00:00Z")
TIMES = ["2024-01-01T00:10Z"]
KINDS: dict[str, tuple[tg.Pipeline, dict[str, Any], dict[str, Any]]] = {
    "events": (EVENTS, {}, {"times": read_times(TIMES, by_order=False)}),
    "declared keys": (READINGS, {"keys": {"names": ["a"]}}, {"keys": ["not declared"]}),
}


def made(place: Place, kind: str, cap: str = "0.5") -> tuple[Service, Any]:
    pipeline, keys, row = KINDS[kind]
    service = place.opened()
    streams = service.gate.streams
    service.gate.call(lambda: streams.ledger.set_cap(cap, source="ward")).result()
    service.gate.call(lambda: streams.create("ward", pipeline, **keys)).result()

    def push(to: Service, key: str | None = None) -> Any:
        pending = PendingPush("ward", np.array([1.0]), key=key, sender="label clinic", **row)
        to.gate.submit(pending)
        return pending.answer.result(timeout=240)

    return service, push


def charges(service: Service) -> int:
    return service.gate.spent(lambda ledger: len(ledger.charges("ward")))


@pytest.mark.parametrize("kind", KINDS)
def test_a_raised_cap_charges_at_once(place: Place, kind: str) -> None:
    """Caught: the ledger, whose lines have times, was charged with the first row after it."""
    service, push = made(place, kind)
    with pytest.raises(CapExceeded):
        push(service)
    assert charges(service) == 0
    service.gate.call(lambda: service.gate.streams.set_cap("0.7", "ward")).result()
    assert charges(service) == 0
    service.gate.call(lambda: service.gate.streams.set_cap("1", "ward")).result()
    assert charges(service) == 1
    push(service)
    service.gate.close()
    again = place.opened()
    again.gate.ask("ward", lambda run: run.seen)
    push(again)
    assert charges(again) == 1
    again.gate.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_cap_that_was_raised_elsewhere_charges_at_the_next_start(place: Place, kind: str) -> None:
    service, _ = made(place, kind)
    service.gate.call(lambda: service.gate.streams.ledger.set_cap("1", source="ward")).result()
    assert charges(service) == 0
    service.gate.close()
    again = place.opened()
    again.gate.ask("ward", lambda run: run.seen)  # as `AnswersAhead` does, of every stream
    assert charges(again) == 1
    again.gate.close()


@pytest.mark.parametrize("kind", KINDS)
def test_whoever_looks_at_a_retired_stream_pays_nothing(place: Place, kind: str) -> None:
    service, _ = made(place, kind)
    service.gate.call(lambda: service.gate.streams.retire("ward")).result()
    service.gate.call(lambda: service.gate.streams.set_cap("1", "ward")).result()
    service.gate.close()
    again = place.opened()
    again.gate.ask("ward", lambda run: run.seen)
    assert charges(again) == 0
    again.gate.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_retry_across_the_upgrade_is_recognised(place: Place, kind: str) -> None:
    """Idempotency keys were stored as plain digests before decision 0128: what had been taken under
    one of them was taken again by a retry."""
    service, push = made(place, kind, cap="2")
    assert not push(service, "k").repeated
    pending = PendingPush("ward", np.array([1.0]), key="k", sender="label clinic")
    database = service.gate.database

    def as_before() -> None:
        plain = update(database_schema.requests).values(key=pending.request_id)
        database.connection.execute(plain)

    service.gate.call(as_before).result()
    assert push(service, "k").repeated
    service.gate.close()
