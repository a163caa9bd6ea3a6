"""The made-up city of `tidegate demo --serve` goes through a real service."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from pathlib import Path

import tidegate as tg
from tests.service.conftest import Place, served
from tidegate.demo.city_and_phones import ZONES, Phones, city_ticks
from tidegate.demo.serve import create_streams_to_serve, push_ticks_to_serve

START = datetime(2024, 1, 1, tzinfo=UTC)


def test_a_city_behind_a_service(tmp_path: Path) -> None:
    service = Place(tmp_path / "gate", None).opened()
    made = [
        service.gate.call(lambda role=role: service.tokens.make(role, role)).result()
        for role in ("admin", "producer")
    ]
    with served(service, public_reading=True) as address, tg.connect(address, *made) as gate:
        create_streams_to_serve(gate, START)
        city = city_ticks(START)
        days = [list(itertools.islice(city, 96)) for _ in range(2)]
        for day in days:
            push_ticks_to_serve(gate, day)
        load = sum(tick.load["hill"] for day in days for tick in day)
        trips = sum(len(tick.trips) for day in days for tick in day)
        hill = gate["load-by-zone"].query("2024-01-01", "2024-01-03", key="hill")
        assert hill.low < load < hill.high
        counted = gate["trips"].query("2024-01-01T00:00Z", "2024-01-03T00:00Z")
        assert counted.low < trips < counted.high
        assert gate["load-by-zone"].facts()["keys"] == len(ZONES)
        assert set(gate.ledger()["sources"]) == {"load-by-zone", "trips"}
        assert gate["fares"].position == 192
        phones = Phones(gate, address, count=12)
        taken = phones.report()
        assert taken >= 12 - 2  # a round may end in between
        task = phones.url.rpartition("/")[2]
        rows = gate.call("GET", f"/v1/tasks/{task}/collection", "read")["rows"]
        assert sum(row["reports"] for row in rows) == taken
