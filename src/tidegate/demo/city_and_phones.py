"""A synthetic city: meters by zone, taxi trips, and phones that perturb their own numbers.

Nobody's data: everything is drawn from a seeded generator, as in `tidegate.synthetic`.

Every minute of the clock is a round, in which each phone reports once how long its owner was on the
way.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from tidegate.errors import TidegateError
from tidegate.local.client import Client
from tidegate.local.topl import Topl
from tidegate.service.client import Gate

ZONES = {"harbour": 1.0, "hill": 0.6, "market": 1.7, "station": 1.2}
TICK = timedelta(minutes=15)
DAY = timedelta(days=1)
FARE_BOUND = 120  # dollars
METER_BOUND = 400  # kilowatts of a zone
_TRIPS = 40  # a tick, on average


@dataclass(frozen=True)
class CityTick:
    """The events of a quarter of an hour.

    Attributes:
        start: when it begins.
        load: the reading of every zone.
        trips: when each trip began.
        fares: what each cost.
    """

    start: datetime
    load: dict[str, float]
    trips: list[datetime]
    fares: list[float]


def city_ticks(start: datetime, seed: int = 0) -> Iterator[CityTick]:
    """The city from `start` on, without end."""
    generator = np.random.default_rng(seed)
    now = start.astimezone(UTC)
    while True:
        hour = now.hour + now.minute / 60
        day = 1.0 - 0.6 * np.cos(2 * np.pi * (hour - 4) / 24)  # calm at four in the morning
        weekend = 0.75 if now.weekday() >= 5 else 1.0  # Saturday and Sunday
        load = {
            zone: round(float(size * weekend * (40 * day + generator.gamma(4, 8))), 1)
            for zone, size in ZONES.items()
        }
        count = int(generator.poisson(_TRIPS * day * weekend))
        seconds = np.sort(generator.uniform(0, TICK.total_seconds(), count))
        fares = np.round(5 + generator.gamma(1.6, 9, count), 2)
        yield CityTick(
            now, load, [now + timedelta(seconds=float(at)) for at in seconds], fares.tolist()
        )
        now += TICK


def minutes_of_phones(phones: int, seed: int = 1) -> Iterator[list[float]]:
    """How long the owner of each phone travelled, day by day; sometimes trains are late."""
    generator = np.random.default_rng(seed)
    while True:
        late = 1.5 if generator.random() < 0.2 else 1.0
        yield (late * generator.gamma(3, 9, phones)).tolist()


PHONES = 240
_ROUND = 60.0  # seconds
_BOUND, _MOST = 180, 90  # minutes that count, and those that few exceed


class Phones:
    """A fleet of phones, and the task that they answer.

    Args:
        gate: with an administrator's token.
        address: of the service.
    """

    def __init__(self, gate: Gate, address: str, count: int = PHONES) -> None:
        topl = Topl(epsilon=2, bound=_BOUND, threshold=_MOST)
        new = {"name": "minutes-on-the-way", "epsilon": "2", "bound": _BOUND, "every": "1min"}
        new |= {"population": count, "settings": {"threshold": _MOST}}
        task = gate.call("POST", "/v1/tasks", "manage", content=new)
        made = {"role": "device", "label": "phones of the demo"}
        self._token = gate.call("POST", "/v1/tokens", "manage", content=made)["token"]
        self.url = f"{address}/v1/tasks/{task['task_id']}"
        self._clients: list[Client] = [topl.client() for _ in range(count)]
        self._days = minutes_of_phones(count)

    def report(self, pause: float = 0.0) -> int:
        """Let every phone report once; return how many reports were accepted."""
        taken = 0
        for client, minutes in zip(self._clients, next(self._days), strict=True):
            with suppress(TidegateError):  # a round that is full, or just over: the next one comes
                taken += client.report(self.url, minutes, token=self._token).taken
            time.sleep(pause)
        return taken

    def run(self) -> None:
        """Run one round after another, without end."""
        while True:
            self.report(_ROUND / len(self._clients))
