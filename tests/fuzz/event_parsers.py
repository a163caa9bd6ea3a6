"""Targets: times, settings of columns, and releases of events."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

import numpy as np

import tidegate as tg
from tests.entropy import beginning_with
from tests.fuzz.mutation import atom, mutated, number_text, refused, scrambled
from tests.fuzz.state_parsers import sealed_again
from tidegate.clock import Clock
from tidegate.run.column_budgets import checked_column_names, per_column, shares_of
from tidegate.sealing import unseal
from tidegate.timestamps import read_times

ZONES = [None, "UTC", "Europe/Berlin", "+02:00", "-1", "+99:99", "", "../x", "\0", "Z", "UTC+1"]
TIMES = [
    "2024-02-01", "2024-02-01T00:00:00Z", "2024-03-31 02:30", "2024-10-27T02:30:00.123456789",
    "2024-02-30", "9999-12-31T23:59:59+23:59", "1706745600", "1706745600.5", "1e12", "-5", "",
]  # fmt: skip


def _time(rng: random.Random) -> Any:
    kind = rng.random()
    if kind < 0.5:
        return rng.choice(TIMES)
    if kind < 0.7:
        text = rng.choice(TIMES).encode()
        return scrambled(rng, text).decode("utf-8", "replace")
    return rng.choice([atom(rng), rng.randint(-(2**62), 2**62), rng.random() * 1e12])


def times(rng: random.Random) -> None:
    """Times of any kind, clocks and zones: what was read is written, and read again alike."""
    values = [_time(rng)] * rng.randint(0, 2) + [_time(rng)]
    zone = rng.choice(ZONES) if rng.random() < 0.9 else number_text(rng)
    with refused():
        found = read_times(values, zone=zone)
        again = read_times(found.clock.texts(found.ticks), clock=found.clock)
        assert again.ticks.tolist() == found.ticks.tolist()
        assert Clock.from_plain(json.loads(json.dumps(found.clock.plain()))) == found.clock


def columns(rng: random.Random) -> None:
    """Names, shares and bounds of several columns."""
    names = [rng.choice(["fare", "tip", "Tip", "a b", "a_b", "", "é", "x" * 300]) for _ in range(3)]
    with refused():
        names = checked_column_names(names[: rng.randint(1, 3)])
        given = {rng.choice([*names, "no"]): rng.choice([number_text(rng), atom(rng)])}
        shares = shares_of(names, given)
        assert sum(shares.values()) == 1
        assert list(per_column("bound", names, given)) == names


@cache
def event_pipelines() -> tuple[Any, ...]:
    clock = {"every": "1min", "start": "2024-02-01"}
    return (
        tg.events(epsilon=8, bound=100, horizon=64, **clock),
        tg.events(epsilon=8, bound=9, lower=-9, fixed=True, horizon=64, **clock),
        tg.events(epsilon=1, horizon=64, zone="Europe/Berlin", **clock),
    )


@cache
def event_snapshots() -> tuple[tuple[Any, dict[str, Any], dict[str, Any]], ...]:
    made = []
    start = np.datetime64("2024-02-01")
    for pipeline in event_pipelines():
        for minutes in (3, 140):
            with beginning_with("fuzz, events"):
                release = pipeline.start()
                ticks = start + np.arange(minutes) * np.timedelta64(1, "m")
                values = None if pipeline.threshold.bound == 1 else np.arange(minutes) % 9
                release.push(ticks, values)
            made.append((pipeline, *unseal(release.snapshot(), None)))
    return tuple(made)


def event_settings(rng: random.Random) -> None:
    """Settings of a pipeline of events: refused, or said again alike."""
    changed = mutated(rng, rng.choice(event_pipelines()).settings())
    with refused():
        pipeline = tg.Pipeline.from_settings(changed)
        again = tg.Pipeline.from_settings(json.loads(json.dumps(pipeline.settings())))
        assert again == pipeline


def event_snapshot(rng: random.Random) -> None:
    """A snapshot of a release of events."""
    pipeline, header, body = rng.choice(event_snapshots())
    data = sealed_again(rng, header, body)
    if data is not None:
        with refused():
            pipeline.resume(data)


TARGETS = {
    "times": times,
    "columns": columns,
    "event-settings": event_settings,
    "event-snapshot": event_snapshot,
}
