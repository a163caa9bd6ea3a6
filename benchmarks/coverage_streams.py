"""The streams of `benchmarks.coverage`: those that constants are chosen on, and those that are not.

Made-up streams here have values below 0, second scales, cycles that begin low and tails that grow.
Streams of tables (TIDEGATE_DATA/tables) are events in order, or counts per interval of time.
"""

# ruff: noqa: ARG005  # all draws have one signature

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.kinds import Values

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int, Floats], NDArray[Any]]


class Stream(NamedTuple):
    """A made-up stream: its values by a generator, their number and their time from 0 to 1."""

    draw: Draw
    bound: int
    lower: int = 0

    def values(self, name: str, count: int, seed: int) -> Values:
        """Whole numbers within the bounds; others for every seed."""
        random = np.random.default_rng([seed, *name.encode()])
        values = np.rint(self.draw(random, count, np.arange(count) / count))
        return np.clip(values, self.lower, self.bound).astype(np.int64)


def _cycle(time: Floats, times: float) -> Floats:
    return np.sin(2 * np.pi * times * time)


CHOOSE = {
    "rare large values": Stream(
        lambda r, n, t: r.gamma(2, 20, n) * np.where(r.random(n) < 0.02, 50, 1), 100_000
    ),
    "sparse": Stream(
        lambda r, n, t: np.where(r.random(n) < 0.03, r.lognormal(6, 1, n), 0), 100_000
    ),
    "lognormal, growing tail": Stream(
        lambda r, n, t: 50 * r.lognormal(-((0.5 + 1.2 * t) ** 2) / 2, 0.5 + 1.2 * t, n), 100_000
    ),
    "cycle that begins low": Stream(
        lambda r, n, t: r.poisson(40 * (1 - 0.9 * np.cos(8 * np.pi * t))), 5000
    ),
    "gamma, begins low": Stream(
        lambda r, n, t: r.gamma(1.5, 30 * (1 - 0.8 * np.cos(12 * np.pi * t)), n), 5000
    ),
    "temperatures": Stream(
        lambda r, n, t: 50 + 80 * _cycle(t, 3) + 20 * r.normal(size=n), 1000, -1000
    ),
    "refunds": Stream(
        lambda r, n, t: np.where(r.random(n) < 0.02, -1, 1) * r.lognormal(3, 0.8, n),
        10_000,
        -10_000,
    ),
    "drift through 0": Stream(lambda r, n, t: -60 + 240 * t + 30 * r.standard_t(4, n), 5000, -5000),
    "constant": Stream(lambda r, n, t: np.full(n, 37.0), 1000),
    "gamma": Stream(lambda r, n, t: r.gamma(2, 25, n), 5000),
    "rare ones": Stream(lambda r, n, t: r.random(n) < 0.03, 1),
    "uniform": Stream(lambda r, n, t: r.integers(0, 251, n), 250),
    "counts below 8": Stream(lambda r, n, t: r.poisson(0.5, n), 8),
}
UNSEEN = {
    "Weibull 0.6": Stream(lambda r, n, t: 80 * r.weibull(0.6, n), 50_000),
    "log-logistic 3": Stream(lambda r, n, t: 60 * (1 / r.random(n) - 1) ** (1 / 3), 50_000),
    "inverse gamma 2.5": Stream(lambda r, n, t: 100 / r.gamma(2.5, 1, n), 100_000),
    "binomial": Stream(lambda r, n, t: r.binomial(200, 0.3, n), 1000),
    "Poisson, days": Stream(
        lambda r, n, t: r.poisson(60 * (1.1 + _cycle(t, 7)) * (1 + 0.5 * t)), 2000
    ),
    "negative binomial, weeks": Stream(
        lambda r, n, t: r.poisson(r.gamma(2, 20 * (1 + 0.7 * _cycle(t, 2)))), 3000
    ),
    "half zeros": Stream(
        lambda r, n, t: np.where(r.random(n) < 0.5, 0, r.gamma(1.5, 50, n)), 20_000
    ),
    "three steps": Stream(
        lambda r, n, t: r.gamma(1.2, np.array([20.0, 70.0, 35.0])[(3 * t).astype(int)]), 20_000
    ),
    "large orders, 1 in 200": Stream(
        lambda r, n, t: r.lognormal(3, 0.6, n) * np.where(r.random(n) < 0.005, 30, 1), 100_000
    ),
    "winter and summer": Stream(
        lambda r, n, t: -20 + 120 * _cycle(t, 1.5) + 25 * r.normal(size=n), 2000, -1000
    ),
    "gains and losses": Stream(lambda r, n, t: 5 + 40 * r.standard_t(3, n), 20_000, -20_000),
    "net flow, growing": Stream(
        lambda r, n, t: (1 + 3 * t) * r.laplace(15, 25, n), 10_000, -10_000
    ),
}
# Made up after everything of decision 0080 was fixed, and run once.
FRESH = {
    "Lomax 3": Stream(lambda r, n, t: 90 * r.pareto(3, n), 100_000),
    "shop, open by day": Stream(
        lambda r, n, t: r.poisson(50 * np.maximum(_cycle(t, 14), 0) * (1 + 0.4 * _cycle(t, 2))),
        1000,
    ),
    "one in 20 is eight times as large": Stream(
        lambda r, n, t: r.triangular(0, 30, 60, n) * np.where(r.random(n) < 0.05, 8, 1), 20_000
    ),
    "gamma, falls to a third": Stream(
        lambda r, n, t: r.gamma(1.5, np.where(t < 0.6, 60, 20), n), 10_000
    ),
    "seven in ten are 0": Stream(
        lambda r, n, t: np.where(r.random(n) < 0.7, 0, r.lognormal(4, 0.7, n)), 50_000
    ),
    "level that wanders": Stream(
        lambda r, n, t: r.gamma(2, 20 * np.exp(0.6 * np.cumsum(r.normal(0, n**-0.5, n)))), 10_000
    ),
    "lognormal 1.5": Stream(lambda r, n, t: r.lognormal(3, 1.5, n), 200_000),
    "balances": Stream(
        lambda r, n, t: 30 * _cycle(t, 5) + 15 * r.standard_t(5, n) - 10, 3000, -3000
    ),
}


def _back(random: np.random.Generator, count: int, share: float, times: float = 1.0) -> Floats:
    """1, and now and then −`times`: money that goes back."""
    return np.where(random.random(count) < share, -times, 1.0)


# Ends of signed values were chosen on these (decision 0091), and upper ends of heavy tails too.
SIGNED = {
    "till with refunds": Stream(
        lambda r, n, t: _back(r, n, 0.03) * r.lognormal(6.92, 0.8, n), 50_000, -50_000
    ),
    "a year outside": Stream(
        lambda r, n, t: (
            100 + 120 * _cycle(t - 0.25, 1) + 50 * _cycle(t, n / 24) + 25 * r.normal(size=n)
        ),
        600,
        -400,
    ),
    "battery": Stream(lambda r, n, t: 220 * _cycle(t, n / 96) + 90 * r.normal(size=n), 500, -500),
    "level far from 0": Stream(lambda r, n, t: 200 + 15 * r.normal(size=n), 1000, -1000),
    "mostly losses": Stream(lambda r, n, t: -_back(r, n, 0.05) * r.gamma(2, 30, n), 5000, -5000),
    "Laplace around 0": Stream(lambda r, n, t: r.laplace(0, 40, n), 10_000, -10_000),
    "heavy around a level": Stream(
        lambda r, n, t: 30 + 20 * r.standard_t(2.5, n), 100_000, -100_000
    ),
    "signed Pareto 1.6": Stream(
        lambda r, n, t: _back(r, n, 0.3) * 10 * (1 + r.pareto(1.6, n)), 1_000_000, -1_000_000
    ),
    "lognormal 1.5, a tenth back": Stream(
        lambda r, n, t: _back(r, n, 0.1) * r.lognormal(4, 1.5, n), 200_000, -200_000
    ),
}
HEAVY = {
    "Pareto 1.4": Stream(lambda r, n, t: 10 * (1 + r.pareto(1.4, n)), 1_000_000),
    "lognormal 1.8": Stream(lambda r, n, t: r.lognormal(4, 1.8, n), 500_000),
    "Weibull 0.4": Stream(lambda r, n, t: 50 * r.weibull(0.4, n), 500_000),
    "Burr 1.5": Stream(lambda r, n, t: 60 * (1 / r.random(n) - 1) ** (1 / 1.5), 500_000),
    "1 in 100 is 25 times": Stream(
        lambda r, n, t: r.gamma(2, 20, n) * np.where(r.random(n) < 0.01, 25, 1), 100_000
    ),
}
# Run once, after that.
SIGNED_FRESH = {
    "shop with dear returns": Stream(
        lambda r, n, t: _back(r, n, 0.06, 1.5) * r.lognormal(3.2, 0.7, n), 20_000, -20_000
    ),
    "a room": Stream(lambda r, n, t: 210 + 15 * _cycle(t, 4) + 8 * r.normal(size=n), 500, -300),
    "sun and load": Stream(
        lambda r, n, t: 400 * np.maximum(_cycle(t, n / 96), 0) - r.gamma(2, 60, n), 2000, -2000
    ),
    "transfers": Stream(
        lambda r, n, t: _back(r, n, 0.4) * r.lognormal(4, 1.2, n), 200_000, -200_000
    ),
    "tide": Stream(lambda r, n, t: 100 * _cycle(t, n / 150) + 20 * r.normal(size=n), 500, -500),
    "delays": Stream(lambda r, n, t: r.gamma(1.2, 60, n) - 30, 6000, -300),
    "answers from -3 to 3": Stream(lambda r, n, t: r.integers(-3, 4, n), 3, -3),
    "profit, heavy": Stream(lambda r, n, t: 10 + 30 * r.standard_t(2.2, n), 50_000, -50_000),
}
HEAVY_FRESH = {
    "Pareto 1.3": Stream(lambda r, n, t: 20 * (1 + r.pareto(1.3, n)), 1_000_000),
    "lognormal 2.2": Stream(lambda r, n, t: r.lognormal(3, 2.2, n), 1_000_000),
    "log-logistic 1.4": Stream(lambda r, n, t: 40 * (1 / r.random(n) - 1) ** (1 / 1.4), 500_000),
    "inverse gamma 1.5": Stream(lambda r, n, t: 50 / r.gamma(1.5, 1, n), 500_000),
    "1 in 300 is 40 times": Stream(
        lambda r, n, t: r.lognormal(3, 0.5, n) * np.where(r.random(n) < 1 / 300, 40, 1), 100_000
    ),
    "Weibull 0.35": Stream(lambda r, n, t: 30 * r.weibull(0.35, n), 500_000),
}
# Light and heavy tails below near and far bounds. The last one changed how near bounds count
# (decision 0094); those of BOUNDS_LAST were made up after that, and run once.
BOUNDS_FRESH = {
    "invoices": Stream(lambda r, n, t: r.lognormal(4, 1.3, n), 20_000),
    "salaries, far bound": Stream(lambda r, n, t: r.lognormal(8, 0.5, n), 1_000_000),
    "calls, 1 in 300 is 20 times": Stream(
        lambda r, n, t: r.gamma(1.5, 120, n) * np.where(r.random(n) < 1 / 300, 20, 1), 86_400
    ),
    "files, Pareto 1.3": Stream(lambda r, n, t: 20 * (1 + r.pareto(1.3, n)), 1_000_000),
    "rain": Stream(lambda r, n, t: np.where(r.random(n) < 0.7, 0, r.gamma(0.6, 80, n)), 3000),
    "parcels, near bound": Stream(lambda r, n, t: r.triangular(0, 100, 300, n), 350),
    "steps": Stream(
        lambda r, n, t: (
            np.where(r.random(n) < 0.5, 0, r.gamma(2, 300, n)) * (1 + 0.5 * _cycle(t, 9))
        ),
        20_000,
    ),
    "outages, 1 in 50 is 30 times": Stream(
        lambda r, n, t: r.exponential(10, n) * np.where(r.random(n) < 0.02, 30, 1), 5000
    ),
    "requests, far bound": Stream(lambda r, n, t: r.poisson(200 * (1.2 + _cycle(t, 5))), 100_000),
    "log-logistic 1.8, near bound": Stream(
        lambda r, n, t: 40 * (1 / r.random(n) - 1) ** (1 / 1.8), 2000
    ),
}
BOUNDS_LAST = {
    "tips, near bound": Stream(lambda r, n, t: r.lognormal(5.3, 1, n), 5000),
    "claims, far bound": Stream(lambda r, n, t: r.lognormal(6, 1.6, n), 5_000_000),
    "Lomax 1.6, near bound": Stream(lambda r, n, t: 50 * r.pareto(1.6, n), 3000),
    "1 in 500 is 60 times": Stream(
        lambda r, n, t: r.gamma(3, 10, n) * np.where(r.random(n) < 1 / 500, 60, 1), 200_000
    ),
    "counts, far bound": Stream(lambda r, n, t: r.poisson(r.gamma(2, 10, n)), 1_000_000),
    "Weibull 0.5, rising": Stream(lambda r, n, t: 40 * (1 + t) * r.weibull(0.5, n), 50_000),
    "Gumbel": Stream(lambda r, n, t: r.gumbel(100, 30, n), 2000),
    "three scales": Stream(
        lambda r, n, t: r.gamma(2, 15, n) * r.choice([1, 5, 25], n, p=[0.89, 0.1, 0.01]), 20_000
    ),
}
MADE = CHOOSE | UNSEEN | FRESH | SIGNED | HEAVY | SIGNED_FRESH | HEAVY_FRESH
MADE |= BOUNDS_FRESH | BOUNDS_LAST
# Of tables: file, column (or "" to count rows per interval, in seconds), factor, bound, lower.
TABLES = {
    "taxi fares, refunds": ("taxi_trips", "fare", 100, 50_000, -50_000),
    "taxi tips": ("taxi_trips", "tip", 100, 50_000, 0),
    "taxi miles": ("taxi_trips", "distance_mi", 100, 50_000, 0),
    "taxi trips in 5 minutes": ("taxi_trips", "", 300, 1000, 0),
    "bike trips in 10 minutes": ("bike_trips", "", 600, 1000, 0),
}
_TIMES = {"taxi_trips": "pickup", "bike_trips": "start"}


@lru_cache(maxsize=8)
def of_table(name: str) -> tuple[Values, int, int]:
    """All values of a stream of the tables, and its bounds."""
    import pyarrow.parquet

    file, column, factor, bound, lower = TABLES[name]
    path = Path(os.environ["TIDEGATE_DATA"]) / "tables" / f"{file}.parquet"
    chosen = column or _TIMES[file]
    found = pyarrow.parquet.read_table(path, columns=[chosen]).column(chosen)
    if column:
        numbers = np.nan_to_num(found.to_numpy(zero_copy_only=False).astype(np.float64))
        return np.clip(np.rint(numbers * factor), lower, bound).astype(np.int64), bound, lower
    seconds = found.to_numpy(zero_copy_only=False).astype("datetime64[s]").astype(np.int64)
    return np.bincount((seconds - seconds.min()) // factor), bound, lower
