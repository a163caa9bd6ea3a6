"""A made-up city: electricity meters by zone, taxi trips, and phones.

Nobody's data: everything is drawn from a seeded generator, as in `tidegate.synthetic`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

ZONES = {"harbour": 1.0, "hill": 0.6, "market": 1.7, "station": 1.2}
TICK = timedelta(minutes=15)
DAY = timedelta(days=1)
FARE_BOUND = 120  # dollars
METER_BOUND = 400  # kilowatts of a zone
_TRIPS = 40  # a tick, on average


@dataclass(frozen=True)
class Tick:
    """What happens in a quarter of an hour.

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


def ticks(start: datetime, seed: int = 0) -> Iterator[Tick]:
    """The city from `start` on, for ever."""
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
        yield Tick(
            now, load, [now + timedelta(seconds=float(at)) for at in seconds], fares.tolist()
        )
        now += TICK


def minutes_on_the_way(phones: int, seed: int = 1) -> Iterator[list[float]]:
    """How long the owner of each phone travelled, day by day; now and then the trains are late."""
    generator = np.random.default_rng(seed)
    while True:
        late = 1.5 if generator.random() < 0.2 else 1.0
        yield (late * generator.gamma(3, 9, phones)).tolist()
