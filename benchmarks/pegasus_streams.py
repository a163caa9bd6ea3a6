"""Counts of people at many places, every five minutes: made up, and real ones of a bike scheme.

Made up: people come by day and stay for an hour. Real: trips under way, by the station where they
began (`tables/bike_trips.parquet` in TIDEGATE_DATA: a year, 74 stations). A trip is in as many
counts as it lasts steps; what is protected is that it is in one of them, as in the paper.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

PEOPLE = {"low": 0.05, "medium": 2.0, "high": 40.0}  # made up, on average
BIKES = {"bikes, a quiet station": 50, "bikes, the busiest": 0, "bikes, all": -1}  # by rank
STEPS = 1 << 15
_STEP, _DAY, _STAY = 300, 288, 12  # seconds; steps of five minutes
_LONGEST = 86_400  # seconds of a trip; a few last for months


def people(average: float, seed: int, steps: int = STEPS) -> Ints:
    """How many are there, step by step: nobody comes by night, and one in twelve leaves a step."""
    random, present, found = np.random.default_rng(seed), 0, []
    day = np.maximum(0, np.sin(np.arange(steps) * (2 * np.pi / _DAY))) ** 2
    for coming in random.poisson(day * average / _STAY / day.mean()):
        present += int(coming) - int(random.binomial(present, 1 / _STAY))
        found.append(present)
    return np.array(found)


def names() -> list[str]:
    """The streams that are at hand."""
    return [*PEOPLE, *(BIKES if _path().is_file() else ())]


def stream(name: str, seed: int) -> Ints:
    """One stream: made up with this seed, or a part of the year that begins elsewhere for it."""
    if name in PEOPLE:
        return people(PEOPLE[name], seed)
    rows = _stations()
    rank = BIKES[name]
    return part(rows.sum(axis=0) if rank < 0 else rows[rank], seed, STEPS)


def part(counts: Ints, seed: int, steps: int) -> Ints:
    """So many steps, from another place for every seed, in whole days."""
    days = (counts.shape[-1] - steps) // _DAY
    start = seed * 37 % days * _DAY
    return counts[..., start : start + steps]


def places(made_up: bool, count: int, seed: int, steps: int) -> Ints:
    """Counts of many places: of 0.01 to 20 people on average, or the busiest stations."""
    random = np.random.default_rng((seed, count))
    if made_up:
        averages = random.permutation(np.geomspace(0.01, 20, count))
        return np.array([people(a, 1000 * seed + at, steps) for at, a in enumerate(averages)])
    return part(random.permutation(_stations()[:count]), seed, steps)


def _path() -> Path:
    return Path(os.environ.get("TIDEGATE_DATA", "")) / "tables" / "bike_trips.parquet"


@cache
def _stations() -> Ints:
    """Trips under way at the beginning of every step, a row a station, the busiest first."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(_path(), columns=["start", "station", "duration_s"])
    seconds = table.column("start").to_numpy().astype("datetime64[s]").astype(np.int64)
    seconds -= seconds.min() // _LONGEST * _LONGEST
    lasts = np.minimum(table.column("duration_s").to_numpy().astype(np.int64), _LONGEST)
    stations = table.column("station").combine_chunks().indices.to_numpy()
    begin, end = -(-seconds // _STEP), -(-(seconds + lasts) // _STEP)
    changes = np.zeros((stations.max() + 1, end.max() + 1), dtype=np.int64)
    np.add.at(changes, (stations, begin), 1)
    np.add.at(changes, (stations, end), -1)
    found: Ints = np.cumsum(changes, axis=1)
    return found[np.argsort(-found.sum(axis=1), kind="stable")]
