"""What a period is worth: `python -m benchmarks.cycles`.

The mean squared error over all ranges of an adaptive release without a period, over that with one:
a sixteenth of the values held out, the rest released, seeded runs with the same noise in both (the
period is left out of the digest that keys noise, in this simulation only). First made-up streams
and, if TIDEGATE_DATA names their folder, real ones with a daily cycle; then streams without a
cycle, whose period is wrong.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

import tidegate as tg
from tidegate.estimate import Mixture
from tidegate.settings import Spec

_COUNT, _DAY = 2**20 + 65_536, 86_400
Values = NDArray[np.int64]


class Stream(NamedTuple):
    make: Callable[[], Values]
    bound: int
    period: int | list[int]


def _drawn(course: NDArray[np.float64] | float, tail: bool = True) -> Values:
    random = np.random.default_rng(1)
    return random.poisson(30 * course * (random.gamma(1.0, size=_COUNT) if tail else 1.0))


def _daily(strength: float) -> NDArray[np.float64]:
    course: NDArray[np.float64] = 1 + strength * np.sin(2 * np.pi * np.arange(_COUNT) / _DAY)
    return course


def _weekend() -> NDArray[np.float64]:
    return np.where(np.arange(_COUNT) // _DAY % 7 >= 5, 0.5, 1.0)


MADE_UP = {
    "cycle of 0.8 means": Stream(lambda: _drawn(_daily(0.8)), 1000, _DAY),
    "cycle of 0.2 means": Stream(lambda: _drawn(_daily(0.2)), 1000, _DAY),
    "cycle without a tail": Stream(lambda: _drawn(_daily(0.8), tail=False), 1000, _DAY),
    "cycle, weekends": Stream(lambda: _drawn(_daily(0.6) * _weekend()), 1000, _DAY),
    "no cycle": Stream(lambda: _drawn(1.0), 1000, _DAY),
}


def _column(name: str) -> Values:
    import pyarrow.parquet

    path = Path(os.environ["TIDEGATE_DATA"]) / f"{name}.parquet"
    values: Values = pyarrow.parquet.read_table(path).column("value").to_numpy().astype(np.int64)
    return values[:_COUNT]


def _per_tick(table: str, time: str, value: str | None, minutes: int) -> Values:
    import pyarrow.parquet

    path = Path(os.environ["TIDEGATE_DATA"]) / "tables" / f"{table}.parquet"
    read = pyarrow.parquet.read_table(path)
    times = np.array(read.column(time).to_pylist(), dtype="datetime64[s]")
    each = None
    if value is not None:
        each = np.maximum(np.nan_to_num(np.array(read.column(value).to_pylist(), dtype=float)), 0)
    ticks = (times - times.min()).astype(np.int64) // (60 * minutes)
    return np.rint(np.bincount(ticks, weights=each)).astype(np.int64)


REAL = {
    "twitter_per_sec": Stream(lambda: _column("twitter_per_sec"), 2000, _DAY),
    "taxi fares a minute": Stream(
        lambda: _per_tick("taxi_trips", "pickup", "fare", 1)[:129_600], 2000, 1440
    ),
    "taxi trips in 5 minutes": Stream(
        lambda: _per_tick("taxi_trips", "pickup", None, 5)[:25_920], 200, 288
    ),
    "bike trips in 10 minutes": Stream(
        lambda: _per_tick("bike_trips", "start", None, 10), 200, [144, 1008]
    ),
    "smart_meter_wh": Stream(lambda: _column("smart_meter_wh"), 10_000, 480),
    "taxi_green_hail_fare_cents, wrong": Stream(
        lambda: _column("taxi_green_hail_fare_cents"), 100_000, _DAY
    ),
    "dns_google_per_sec, wrong": Stream(lambda: _column("dns_google_per_sec"), 500, 20_000),
}


def _settings(stage: Mixture) -> dict[str, Any]:
    found = Spec.settings(stage)
    del found["period"]
    return found


def error(values: Values, stream: Stream, epsilon: float, seed: int, *, with_period: bool) -> float:
    """Mean squared error over all ranges: twice the variance of the error of running sums."""
    held = values.size // 16
    pipeline = tg.adaptive(
        epsilon,
        stream.bound,
        horizon=values.size - held,
        holdout=held,
        resolution=1,
        period=stream.period if with_period else None,
    )
    with patch.object(Mixture, "settings", _settings):
        out = pipeline.start(tg.seeded(seed)).push(values)
    return 2 * float(np.cumsum(out - values[held:]).var())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--epsilons", type=float, nargs="*", default=[0.01, 0.1, 1.0])
    parser.add_argument("--only", nargs="*")
    options = parser.parse_args()
    streams = {**MADE_UP, **(REAL if os.environ.get("TIDEGATE_DATA") else {})}
    for name in options.only or streams:
        stream = streams[name]
        values = np.minimum(stream.make(), stream.bound)
        for epsilon in options.epsilons:
            each = np.array(
                [
                    [error(values, stream, epsilon, seed, with_period=with_period)
                     for with_period in (False, True)]
                    for seed in range(options.runs)
                ]
            )  # fmt: skip
            without, with_period = each.mean(axis=0)
            logs = np.log(each[:, 0] / each[:, 1])
            spread = logs.std() / np.sqrt(options.runs)
            print(
                f"{name:34s} e={epsilon:g}: {without / with_period:5.2f}"
                f"  (geometric mean {np.exp(logs.mean()):.2f}, standard error {spread:.2f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
