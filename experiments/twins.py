"""Synthetic twins: streams made from the quantiles that the paper prints, and from nothing else.

A twin has exactly the table's length, quantiles, largest value and (rounded) mean. Between the
printed quantiles it is geometric in the tail probability; below the 85th percentile it is a power
law whose exponent is the one that gives the mean. The order of values is our guess: independent,
or a daily cycle. No value of a twin is anybody's.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from experiments.errors import ExperimentError
from experiments.registry import Dataset, Table

_SEED = 20_200_903
_CYCLE = 0.6  # how much of the ranks' spread the daily cycle explains
_DRIFT = 0.3  # and a slow random course


def twin(dataset: Dataset) -> NDArray[np.int64]:
    """The twin of one of the paper's streams: the same at every call."""
    if dataset.table is None:
        raise ExperimentError(f"{dataset.name} has no published quantiles, so it has no twin")
    ordered = _ordered(dataset.table, dataset.least)
    random = np.random.default_rng(_SEED)
    if dataset.course == "independent":
        return random.permutation(ordered)
    if dataset.course != "daily" or dataset.period is None:
        raise ExperimentError(f"datasets.toml, [{dataset.name}]: unknown course {dataset.course!r}")
    values = np.empty_like(ordered)
    values[np.argsort(_daily(ordered.size, dataset.period, random), kind="stable")] = ordered
    return values


def _ordered(table: Table, least: int) -> NDArray[np.int64]:
    """The twin's values in ascending order (but for a few whose rank was set by hand)."""
    above = 1 - (np.arange(table.n) + 0.5) / table.n  # tail probability of each value
    knots = [(0.15, table.p85), (0.05, table.p95), (0.005, table.p995), (above[-1], table.p100)]
    tail_at, tail_value = np.log([knot[0] for knot in knots]), np.log([knot[1] for knot in knots])
    tail = above < knots[0][0]
    # np.interp wants ascending abscissae; the logarithm of a tail probability falls.
    drawn = np.exp(np.interp(np.log(above[tail]), tail_at[::-1], tail_value[::-1]))
    body = (1 - above[~tail]) / (1 - knots[0][0])
    wanted = (table.mean * table.n - np.rint(drawn).sum()) / body.size
    some = body[:: max(1, body.size // 50_000)]  # enough for the exponent

    def power(places: NDArray[np.float64], exponent: float) -> NDArray[np.float64]:
        return np.rint(least + (table.p85 - least) * places**exponent)

    try:
        exponent = brentq(lambda trial: power(some, trial).mean() - wanted, 0.05, 20, xtol=1e-6)
    except ValueError:
        raise ExperimentError("no body of values gives the mean that the table prints") from None
    ordered = np.concatenate((power(body, exponent), np.rint(drawn))).astype(np.int64)
    # The quantiles of the table sit at their ranks exactly, whatever rounding did around them.
    for quantile, value in ((0.85, table.p85), (0.95, table.p95), (0.995, table.p995)):
        ordered[int(np.ceil(quantile * table.n)) - 1] = value
    ordered[-1] = table.p100
    return ordered


def _daily(count: int, period: int, random: np.random.Generator) -> NDArray[np.float64]:
    """A latent course whose ranks become values: a cycle, a slow drift, and independent noise."""
    seconds = np.arange(count)
    cycle = np.sqrt(2) * np.sin(2 * np.pi * seconds / period)
    knots = random.normal(size=max(4, 6 * count // period))
    drift = np.interp(seconds, np.linspace(0, count, knots.size), knots)
    rest = random.normal(size=count)
    own = 1 - _CYCLE - _DRIFT
    course: NDArray[np.float64] = (
        np.sqrt(_CYCLE) * cycle + np.sqrt(_DRIFT) * drift + np.sqrt(own) * rest
    )
    return course
