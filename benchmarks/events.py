"""How accurate event streams are: against the same log as readings, and counts against PeGaSus.

The error of a run is the mean squared error over *all* ranges of ticks, 2·Var over t of the error
of the prefix at t, of `query(0, t)` once all is released; the mean over seeded runs. Readings get
every event's time for nothing: positions of events at the ends of ticks are taken as known.
Values count up to the public bound, in the truth too. Logs are the tables of the folder that
TIDEGATE_DATA names; without it, a made-up log with a daily cycle.

The constants of `EventMixture` come from arguments (independent events, a mean of a tenth of the
unit) and were not tuned; that days and weeks are expected by default was decided on these logs.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tidegate as tg
from benchmarks.table import Row, at_least, at_most, show
from benchmarks.timing import progress

_POSITIONS = 2000
_SECONDS = {"1s": 1, "1min": 60, "15min": 900}
_NANO = 10**9
_PEGASUS = 0.8  # of ε, for the noise of every tick
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Log:
    """Events in order: nanoseconds from the start, and values up to the bound."""

    times: NDArray[np.int64]
    values: Floats
    bound: int
    span: int  # seconds


def taxi() -> Log:
    """Fares of green taxis, January to March 2023."""
    return _table("taxi_trips", "pickup", "fare", 200, "2023-01-01", 90)


def bikes() -> Log:
    """Seconds of bike trips of a year."""
    return _table("bike_trips", "start", "duration_s", 86_400, "2014-01-01", 366)


def queries() -> Log:
    """DNS queries: per second in the data, spread over it here."""
    import pyarrow.parquet

    path = Path(os.environ["TIDEGATE_DATA"]) / "dns_google_per_sec.parquet"
    counts = pyarrow.parquet.read_table(path)["value"].to_numpy().astype(np.int64)
    times = np.repeat(np.arange(counts.size) * _NANO, counts)
    return Log(times, np.ones(times.size), 1, counts.size)


def made_up() -> Log:
    """60 days with a daily cycle; about as many events as the taxis have."""
    rng, days = np.random.default_rng(1), 60
    hours = np.arange(24 * days)
    rate = 100 * (1.1 + np.sin(2 * np.pi * hours / 24)) * np.exp(rng.normal(0, 0.1, hours.size))
    counts = rng.poisson(rate)
    times = np.repeat(hours, counts) * 3600 + rng.uniform(0, 3600, int(counts.sum()))
    values = np.minimum(rng.lognormal(2.5, 0.8, times.size), 200.0)
    return Log(np.sort((times * _NANO).astype(np.int64)), values, 200, days * 86_400)


def _table(name: str, time: str, value: str, bound: int, start: str, days: int) -> Log:
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(
        Path(os.environ["TIDEGATE_DATA"]) / "tables" / f"{name}.parquet"
    )
    times = table[time].to_numpy().astype("datetime64[ns]").astype(np.int64)
    times -= np.datetime64(start, "ns").astype(np.int64)
    order = np.argsort(times, kind="stable")
    values = np.clip(np.nan_to_num(table[value].to_numpy().astype(np.float64)), 0, bound)
    return Log(times[order], values[order], bound, days * 86_400)


class Ticks:
    """A log in ticks: the true prefix sums, and where they are asked."""

    def __init__(self, log: Log, every: str, *, count: bool) -> None:
        self.log, self.every = log, every
        self.values = np.ones(log.values.size) if count else log.values
        length = _SECONDS[every] * _NANO
        self.ticks = log.span * _NANO // length
        places = log.times // length
        self.sums: Floats = np.bincount(places, weights=self.values, minlength=self.ticks)
        self.truth = np.cumsum(self.sums)
        self.asked = np.unique(np.linspace(1, self.ticks, _POSITIONS).astype(np.int64))
        self.ends = np.searchsorted(log.times, np.arange(1, self.ticks + 1) * length)

    def error(self, found: Floats) -> float:
        """The mean squared error over all ranges, from prefix sums at the positions asked."""
        return 2 * float(np.var(np.concatenate(([0.0], found - self.truth[self.asked - 1]))))

    def events(self, epsilon: float, seed: int, *, count: bool) -> tuple[float, float]:
        """The error of an event stream, and how many of its 95 % intervals hold."""
        bound = None if count else self.log.bound
        clock: dict[str, Any] = {"every": self.every, "start": "1970-01-01", "horizon": self.ticks}
        release = tg.events(epsilon=epsilon, bound=bound, **clock).start(tg.seeded(seed))
        values = None if count else self.values
        release.push(self.log.times.astype("datetime64[ns]"), values)
        release.close_ticks(self.ticks)
        answers = release.queries(np.zeros_like(self.asked), self.asked)
        truth = self.truth[self.asked - 1]
        holds = float(np.mean((answers.low <= truth) & (truth <= answers.high)))
        return self.error(answers.estimate), holds

    def readings(self, epsilon: float, seed: int) -> float:
        """The same log, one row for each event: its times are public."""
        pipeline = tg.adaptive(epsilon=epsilon, bound=self.log.bound, horizon=self.values.size)
        release = pipeline.start(tg.seeded(seed))
        release.push(self.values)
        at = self.ends[self.asked - 1]
        return self.error(release.queries(np.zeros_like(at), at).estimate)

    def per_tick(self, preset: Callable[..., tg.Pipeline], epsilon: float, seed: int) -> float:
        """The numbers of events per tick as readings: one tick is protected, all its events."""
        bound = 1 << int(self.sums.max()).bit_length()
        pipeline = preset(epsilon=epsilon, bound=bound, horizon=self.ticks, **_without(preset))
        release = pipeline.start(tg.seeded(seed))
        out = release.push(self.sums)
        return self.error(np.cumsum(out)[self.asked - 1])

    def pegasus_noise(self, epsilon: float, seed: int) -> float:
        """PeGaSus with sensitivity 1: the sum of a group has the noise of its ticks, however
        groups are found."""
        noise = np.random.default_rng(seed).laplace(scale=1 / (_PEGASUS * epsilon), size=self.ticks)
        return self.error((self.truth + np.cumsum(noise))[self.asked - 1])


def _without(preset: Callable[..., tg.Pipeline]) -> dict[str, int]:
    return {} if preset is tg.adaptive else {"holdout": 0}


def measure(quick: bool) -> list[Row]:
    """All ratios, in one run."""
    seeds = range(2 if quick else 8)
    if "TIDEGATE_DATA" not in os.environ:
        logs, counted = {"made up": (made_up(), ("15min",))}, {"made up": (made_up(), "1min")}
    else:
        logs = {"taxi": (taxi(), ("15min", "1min", "1s")), "bikes": (bikes(), ("15min", "1min"))}
        counted = {"taxi": (taxi(), "1min"), "bikes": (bikes(), "15min"), "dns": (queries(), "1s")}
    rows = []
    for name, (log, lengths) in logs.items():
        for every in lengths:
            ticks = Ticks(log, every, count=False)
            for epsilon in (0.1, 1.0):
                progress(f"{name} {every} ε = {epsilon}")
                rows.append(_against_readings(name, ticks, epsilon, seeds))
    for name, (log, every) in counted.items():
        ticks = Ticks(log, every, count=True)
        for epsilon in (0.1, 1.0):
            progress(f"counting {name} {every} ε = {epsilon}")
            rows += _counting(name, ticks, epsilon, seeds)
    return rows


def _against_readings(name: str, ticks: Ticks, epsilon: float, seeds: range) -> Row:
    found = [ticks.events(epsilon, seed, count=False) for seed in seeds]
    ours = float(np.mean([error for error, _ in found]))
    theirs = float(np.mean([ticks.readings(epsilon, seed) for seed in seeds]))
    holds = float(np.mean([part for _, part in found]))
    note = f"RMSE {ours**0.5:.3g} and {theirs**0.5:.3g}; {holds:.0%} of intervals hold"
    what = f"{name} {ticks.every} ε={epsilon:g}: squared error over that of readings"
    return at_most(what, ours / theirs, 1.3, "x", note)


def _counting(name: str, ticks: Ticks, epsilon: float, seeds: range) -> list[Row]:
    found = [ticks.events(epsilon, seed, count=True) for seed in seeds]
    ours = float(np.mean([error for error, _ in found]))
    holds = float(np.mean([part for _, part in found]))
    rivals = {
        "counts per tick as readings (adaptive)": [
            ticks.per_tick(tg.adaptive, epsilon, seed) for seed in seeds
        ],
        "PeGaSus on counts as readings": [
            ticks.per_tick(tg.pegasus, epsilon, seed) for seed in seeds[:2]
        ],
        "PeGaSus's noise at sensitivity 1": [
            ticks.pegasus_noise(epsilon, seed) for seed in range(32)
        ],
    }
    rows = []
    for rival, errors in rivals.items():
        times = (float(np.mean(errors)) / ours) ** 0.5
        note = f"our RMSE {ours**0.5:.3g}; {holds:.0%} of intervals hold"
        what = f"counting {name} {ticks.every} ε={epsilon:g}: as accurate as {rival}"
        rows.append(at_least(what, times, 2.0, "x", note))
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    show("events", measure(parser.parse_args().quick))
