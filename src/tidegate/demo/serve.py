"""`tidegate demo --serve`: a service, a synthetic city that feeds it, and a live page."""

from __future__ import annotations

import itertools
import tempfile
import threading
import time
import webbrowser
from datetime import UTC, datetime
from pathlib import Path

from tidegate.demo.city_and_phones import (
    DAY,
    FARE_BOUND,
    METER_BOUND,
    PHONES,
    TICK,
    ZONES,
    CityTick,
    Phones,
    city_ticks,
)
from tidegate.errors import TidegateError
from tidegate.randomness import random_bytes
from tidegate.service.client import Gate, connect
from tidegate.service.service_process import Service

_HISTORY = 21 * DAY // TICK  # released before the page opens
_PAUSE = 1.0  # seconds that a quarter of an hour of the city takes
_BATCH = 96
_CAP = 2  # of ε, for each source: the page shows what is left


def serve(port: int, *, browser: bool = True) -> None:
    """Serve until interrupted. Everything is in a temporary folder and is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="tidegate-demo-") as folder:
        service = Service.opened(Path(folder) / "gate", key=random_bytes(32), cap=_CAP)
        tokens = [
            service.gate.call(lambda role=role: service.tokens.make(role, "demo")).result()  # type: ignore[misc]
            for role in ("admin", "producer")
        ]
        address = f"http://127.0.0.1:{port}"
        feeder = threading.Thread(
            target=_feed_served_demo, args=(address, tokens, browser), name="city", daemon=True
        )
        feeder.start()
        print(f"The live page is at {address}/  (Ctrl-C ends the demo)")
        print(f"To create streams, sign in with {tokens[0]}")
        service.run("127.0.0.1", port, public_reading=True)


def _feed_served_demo(address: str, tokens: list[str], browser: bool) -> None:
    try:
        gate = connect(address, *tokens)
        start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - _HISTORY * TICK
        create_streams_to_serve(gate, start)
        city = city_ticks(start)
        for _ in range(_HISTORY // _BATCH):
            push_ticks_to_serve(gate, list(itertools.islice(city, _BATCH)))
        print(f"{_HISTORY:,} quarters of an hour were released; now one comes every second.")
        phones = Phones(gate, address)
        threading.Thread(target=phones.run, name="phones", daemon=True).start()
        print(f"{PHONES} phones report once a minute, each perturbs its own number.")
        if browser:
            webbrowser.open(address)
        for tick in city:
            push_ticks_to_serve(gate, [tick])
            time.sleep(_PAUSE)
    except TidegateError as error:
        print(f"The city stopped: {error}")


def create_streams_to_serve(gate: Gate, start: datetime) -> None:
    """Create a stream with keys, and two of events from one source."""
    gate.create("load-by-zone", epsilon="1", bound=METER_BOUND, keys=list(ZONES))
    clock = {"every": "15min", "start": start.isoformat()}
    gate.create("fares", epsilon="1", bound=FARE_BOUND, events=clock, source="trips")
    gate.create("trips", epsilon="0.5", events={**clock, "count": True}, source="trips")


def push_ticks_to_serve(gate: Gate, some: list[CityTick]) -> None:
    """Send the events of these ticks."""
    load = [(tick.start, zone, value) for tick in some for zone, value in tick.load.items()]
    times, zones, values = zip(*load, strict=True)
    gate["load-by-zone"].push(zones, values, times)
    until = (some[-1].start + TICK).isoformat()
    when = [moment for tick in some for moment in tick.trips]
    fares = [fare for tick in some for fare in tick.fares]
    for name, given in (("fares", fares), ("trips", None)):
        gate[name].push(when, given)
        gate[name].advance(until)
