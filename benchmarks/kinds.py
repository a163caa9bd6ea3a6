"""Made-up streams of many kinds, each with a public bound: where does a method win, where not?

None of them was taken from, or fitted to, a real stream; none was used to set a constant of the
central model. (The local model's priors were chosen among some with an eye on those without drift.)
`KINDS[name](count)` gives the values and the bound; the same every time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.int64]
Kind = Callable[[int], tuple[Values, int]]


def _time(count: int) -> NDArray[np.float64]:
    return np.arange(count, dtype=np.float64)


def skewed(shape: Callable[[int], NDArray[Any]], bound: int = 2000) -> Kind:
    """Poisson counts with an exponential rate around a course, 30 on average where it is 1."""

    def made(count: int) -> tuple[Values, int]:
        random = np.random.default_rng(1)
        rate = 30 * np.maximum(shape(count), 0) * random.gamma(1.0, size=count)
        return np.minimum(random.poisson(rate), bound), bound

    return made


def drawn(draw: Callable[[np.random.Generator, int], NDArray[Any]], bound: int) -> Kind:
    """Values of a law, clamped to the bound."""

    def made(count: int) -> tuple[Values, int]:
        values = draw(np.random.default_rng(2), count)
        return np.minimum(np.maximum(values, 0), bound).astype(np.int64), bound

    return made


def _walk(count: int, step: float) -> NDArray[np.float64]:
    """exp of a random walk with `step` in the log over the whole stream."""
    jumps = np.random.default_rng(3).normal(0, step / 32, size=1024)
    return np.exp(np.interp(_time(count), np.linspace(0, count, 1024), np.cumsum(jumps)))


def _swings(count: int, relaxation: int) -> NDArray[np.float64]:
    """exp of an Ornstein-Uhlenbeck path, half a unit in the log."""
    points = count * 8 // relaxation + 2
    keep = np.exp(-1 / 8)
    path = np.empty(points)
    fresh = np.random.default_rng(4).normal(size=points)
    path[0] = fresh[0]
    for at in range(1, points):
        path[at] = keep * path[at - 1] + np.sqrt(1 - keep**2) * fresh[at]
    return np.exp(0.5 * np.interp(_time(count), np.arange(points) * relaxation / 8, path))


def _growing(random: np.random.Generator, count: int) -> NDArray[np.float64]:
    return 20 * np.exp(np.linspace(0.3, 1.6, count) * random.normal(size=count))


def _late_tail(random: np.random.Generator, count: int) -> NDArray[np.float64]:
    values = random.gamma(2.0, 10.0, size=count)
    late = (_time(count) > count / 8) & (random.random(count) < 0.01)
    return np.where(late, 30 * values, values)


def _calm_holdout(count: int) -> NDArray[np.float64]:
    return np.where(_time(count) < count / 16, 0.2, 2.0)


KINDS: dict[str, Kind] = {
    # independent values: light tails, heavy tails, few values, extreme bounds
    "geometric": drawn(lambda random, n: random.geometric(0.1, size=n), 1000),
    "Poisson 30": drawn(lambda random, n: random.poisson(30, size=n), 500),
    "normal 100 ± 10": drawn(lambda random, n: random.normal(100, 10, size=n), 1000),
    "uniform to the bound": drawn(lambda random, n: random.integers(0, 101, size=n), 100),
    "all at the bound": drawn(lambda _, n: np.full(n, 100.0), 100),
    "all zero": drawn(lambda _, n: np.zeros(n), 100),
    "coin": drawn(lambda random, n: random.random(n) < 0.5, 1),
    "rare event": drawn(lambda random, n: random.random(n) < 0.01, 1),
    "small counts": drawn(lambda random, n: random.poisson(0.2, size=n), 5),
    "lognormal 1": drawn(lambda random, n: random.lognormal(4, 1, size=n), 10**5),
    "lognormal 2": drawn(lambda random, n: random.lognormal(4, 2, size=n), 10**6),
    "Pareto 1.2": drawn(lambda random, n: 10 * (1 + random.pareto(1.2, size=n)), 10**6),
    "Pareto 2.5": drawn(lambda random, n: 10 * (1 + random.pareto(2.5, size=n)), 10**6),
    "Pareto 2, huge bound": drawn(lambda random, n: 10 * (1 + random.pareto(2, size=n)), 10**10),
    "tiny values": drawn(lambda random, n: random.poisson(3, size=n), 10**9),
    "two scales, 1 %": drawn(
        lambda random, n: random.gamma(2, np.where(random.random(n) < 0.01, 500, 5)), 10**5
    ),
    "two scales, half": drawn(
        lambda random, n: random.gamma(2, np.where(random.random(n) < 0.5, 500, 5)), 10**5
    ),
    "sparse": drawn(lambda random, n: np.where(random.random(n) < 1e-3, 1000, 0), 10**4),
    # drift
    "daily cycle": skewed(lambda n: 1 + 0.8 * np.sin(_time(n) / 13_750)),
    "short cycle": skewed(lambda n: 1 + 0.8 * np.sin(_time(n) / 500)),
    "daily cycle, Poisson": drawn(
        lambda random, n: random.poisson(60 + 50 * np.sin(_time(n) / 13_750)), 2000
    ),
    "level up twofold": skewed(lambda n: np.where(_time(n) < n / 2, 1.0, 2.0)),
    "level up tenfold": skewed(lambda n: np.where(_time(n) < n / 2, 0.3, 3.0)),
    "level down tenfold": skewed(lambda n: np.where(_time(n) < n / 2, 3.0, 0.3)),
    "ramp": skewed(lambda n: np.linspace(0.5, 2.0, n)),
    "steep ramp": skewed(lambda n: np.linspace(0.1, 5.0, n)),
    "bursts": skewed(lambda n: np.where(_time(n) % 100_000 < 5_000, 8.0, 0.5)),
    "short bursts": skewed(lambda n: np.where(_time(n) % 50_000 < 500, 20.0, 0.5)),
    "long zeros": skewed(lambda n: (_time(n) // 150_000) % 2),
    "walk": skewed(lambda n: _walk(n, 2.0)),
    "swings": skewed(lambda n: _swings(n, 2000)),
    "slow swings": skewed(lambda n: _swings(n, 30_000)),
    # what the hold-out did not show
    "calm hold-out": skewed(_calm_holdout),
    "growing tail": drawn(_growing, 10**5),
    "late tail": drawn(_late_tail, 10**5),
}
