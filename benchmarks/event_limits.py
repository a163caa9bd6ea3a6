"""What event sums could reach: an oracle that is told the mean week and how the rest moves.

`python -m benchmarks.event_limits --log fare --epsilon 1`. For each way of measuring, the best
linear estimate of all sums over ranges of hours, with the covariance of the log itself: mean week
by the hour, spectrum of what is left (smoothed over a fifth of each frequency), scale by the root
of the level. θ is the bound from the first tick on, and costs nothing. The tree and its shares of ε
are the best ones in hindsight. So no estimator that must learn any of this, and no choice of trees
among these, does better on average; other trees and estimators that are not linear are not
excluded. Errors are exact expectations over Gaussian noise of the variance of Laplace noise.

- events: sums per tick; their number is not known.
- readings: the same rows with public times, so all numbers are known; trees over rows.
- numbers known: events whose exact number in every hour is told; trees over time.
- numbers bought: a part of ε is spent on a second tree, of numbers.
"""

from __future__ import annotations

import argparse
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.events import Log, made_up, taxi

Floats = NDArray[np.float64]
_BLOCKS, _HOUR, _WEEK = 16, 3600 * 10**9, 168
SHAPES = ((1,), (4,), (1, 4), (1, 8), (1, 16), (2, 16), (1, 4, 16), (1, 8, 64))
_SHARES = {
    1: ((1.0,),),
    2: ((0.3, 0.7), (0.5, 0.5), (0.7, 0.3), (0.85, 0.15)),
    3: ((1 / 3, 1 / 3, 1 / 3), (0.5, 0.25, 0.25), (0.25, 0.5, 0.25)),
}
_NUMBERS, _PARTS = ((4,), (16,), (1, 16), (1, 64)), (0.05, 0.1, 0.2)


class Tree(NamedTuple):
    """Which hours each node covers, and the variance of its noise."""

    nodes: Floats
    variance: Floats


def tree(shape: tuple[int, ...], shares: tuple[float, ...], unit: float, edges: Floats) -> Tree:
    """A tree on each sixteenth; `edges`: what lies before the hours, in ticks or rows."""
    low, high = edges[:-1], edges[1:]
    rows, variances = [], []
    for nodes, share in zip(shape, shares, strict=True):
        ends = np.linspace(0, edges[-1], _BLOCKS * nodes + 1)
        for start, end in pairwise(ends.tolist()):
            inside = np.minimum(high, end) - np.maximum(low, start)
            rows.append(np.clip(inside / np.maximum(high - low, 1e-9), 0, 1))
            variances.append(2 * (unit / share) ** 2)
    return Tree(np.array(rows), np.array(variances))


def weekly(hours: Floats) -> Floats:
    """The mean of each hour of the week."""
    place = np.arange(hours.size) % _WEEK
    return (np.bincount(place, hours) / np.bincount(place))[place]


def covariance(left: Floats, scale: Floats) -> Floats:
    """Of a stationary process times `scale`, from the smoothed periodogram of this one."""
    size = left.size
    power = np.abs(np.fft.rfft(left / scale, 2 * size)) ** 2
    total = np.concatenate(([0.0], np.cumsum(power)))
    at = np.arange(power.size)
    width = np.maximum(3, at // 5)
    low, high = np.maximum(0, at - width), np.minimum(power.size, at + width + 1)
    lagged = np.fft.irfft((total[high] - total[low]) / (high - low))[:size]
    lagged *= np.mean(np.square(left / scale)) / lagged[0]
    lags = np.abs(at[:size, np.newaxis] - at[np.newaxis, :size])
    return lagged[lags] * scale[:, np.newaxis] * scale


def error(gain: Floats, left: Floats, variance: Floats) -> float:
    """Mean squared error over all ranges: of what the estimate leaves of the log, and of noise."""
    prefix = np.cumsum(gain, axis=0)
    noise = (prefix**2 @ variance).mean() - np.square(prefix.mean(axis=0)) @ variance
    return float(2 * (np.var(np.cumsum(left)) + noise))


def of_sums(moves: Floats, left: Floats, by: Tree) -> float:
    """The error where sums are measured by a tree."""
    across = moves @ by.nodes.T
    gain = np.linalg.solve(by.nodes @ across + np.diag(by.variance), across.T).T
    return error(gain, left - gain @ (by.nodes @ left), by.variance)


class Hours:
    """A log by the hour."""

    def __init__(self, log: Log) -> None:
        place = log.times // _HOUR
        size = log.span * 10**9 // _HOUR
        inside = place < size
        self.sums: Floats = np.bincount(place[inside], log.values[inside], size)
        self.numbers: Floats = np.bincount(place[inside], minlength=size).astype(np.float64)
        self.theta, self.mean = float(log.bound), float(self.sums.sum() / self.numbers.sum())
        self.ticks: Floats = np.arange(size + 1, dtype=np.float64)
        self.rows: Floats = np.concatenate(([0.0], np.cumsum(self.numbers)))

    def best(self, epsilon: float, left: Floats, scale: Floats, edges: Floats) -> tuple[float, str]:
        """The least error of all trees and shares."""
        moves = covariance(left, scale)
        found = [
            (of_sums(moves, left, tree(shape, shares, self.theta / epsilon, edges)), str(shape))
            for shape in SHAPES
            for shares in _SHARES[len(shape)]
        ]
        return min(found)

    def bought(self, epsilon: float) -> tuple[float, str]:
        """The least error where a part of ε measures numbers."""
        numbers = self.numbers - weekly(self.numbers)
        rest = self.sums - self.mean * self.numbers
        rest -= weekly(rest)
        of_numbers = covariance(numbers, _scale(weekly(self.numbers)))
        of_rest, mean = covariance(rest, _scale(self.numbers)), self.mean
        found = []
        for part, shape, other in product(_PARTS, ((1,), (1, 4), (1, 8)), _NUMBERS):
            shares, even = _SHARES[len(shape)][-2 % len(_SHARES[len(shape)])], len(other)
            first = tree(shape, shares, self.theta / (epsilon * (1 - part)), self.ticks)
            second = tree(other, (1 / even,) * even, 1 / (epsilon * part), self.ticks)
            # What is measured, as multiples of numbers and of the rest.
            by_number = np.concatenate((mean * first.nodes, second.nodes))
            by_rest = np.concatenate((first.nodes, np.zeros_like(second.nodes)))
            number, other_rest = of_numbers @ by_number.T, of_rest @ by_rest.T
            variance = np.concatenate((first.variance, second.variance))
            inner = by_number @ number + by_rest @ other_rest + np.diag(variance)
            gain = np.linalg.solve(inner, (mean * number + other_rest).T).T
            measured = by_number @ numbers + by_rest @ rest
            left = mean * numbers + rest - gain @ measured
            found.append((error(gain, left, variance), f"{shape}, {part:g} for {other}"))
        return min(found)


def _scale(level: Floats) -> Floats:
    return np.sqrt(np.maximum(level, level.mean() / 20))


def limits(log: Log, epsilon: float) -> list[tuple[str, float, str]]:
    """Each way of measuring: the least error of ranges, and the tree that has it."""
    hours = Hours(log)
    week = weekly(hours.sums)
    rest, scale = hours.sums - hours.mean * hours.numbers, _scale(hours.numbers)
    return [
        ("events", *hours.best(epsilon, hours.sums - week, _scale(week), hours.ticks)),
        ("readings", *hours.best(epsilon, rest, scale, hours.rows)),
        ("numbers known", *hours.best(epsilon, rest, scale, hours.ticks)),
        ("numbers bought", *hours.bought(epsilon)),
    ]


if __name__ == "__main__":
    logs = {"fare": taxi, "made-up": made_up}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", choices=logs, default="fare")
    parser.add_argument("--epsilon", type=float, default=1.0)
    given = parser.parse_args()
    found = limits(logs[given.log](), given.epsilon)
    against = next(value for name, value, _ in found if name == "readings")
    for name, value, which in found:
        times = value / against
        print(f"{name:>15}: RMSE {value**0.5:9,.0f}, {times:.2f} of readings, tree {which}")
