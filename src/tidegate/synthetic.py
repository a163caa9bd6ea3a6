"""Made-up streams for demos, tests and experiments. They contain nobody's data.

The random numbers here shape example data; they are no noise and protect nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidegate.lattice import FloatArray, IntArray

__all__ = ["baskets", "meter", "traffic", "user_series"]


def __dir__() -> list[str]:
    """The public names, and not whatever modules were imported on the way."""
    return list(__all__)


_FLATS = 20


def baskets(count: int, seed: int = 0) -> IntArray:
    """Basket sizes: independent, at least 1, skewed, about 7 items on average, rarely over 100."""
    random = np.random.default_rng(seed)
    return np.minimum(1 + random.gamma(0.9, 7.2, size=count).astype(np.int64), 500)


def traffic(count: int, seed: int = 0, day: int = 86_400) -> IntArray:
    """Requests per second: a daily cycle, slow drift, bursts, and the odd outage."""
    random = np.random.default_rng(seed)
    seconds = np.arange(count)
    phase = 2 * np.pi * seconds / day
    cycle = 60 + 45 * np.sin(phase - 0.6 * np.pi) + 8 * np.sin(2 * phase)
    knots = np.cumsum(random.normal(0, 4, size=32))
    drift = np.interp(seconds, np.linspace(0, count, 32), knots)
    burst = np.zeros(count)
    for start in random.integers(0, max(1, count), size=1 + count // 50_000):
        length = int(random.integers(60, 1200))
        burst[start : start + length] += random.uniform(30, 150)
    counts = random.poisson(np.maximum(cycle + drift + burst, 1.0))
    for start in random.integers(0, max(1, count), size=count // 400_000):
        counts[start : start + int(random.integers(300, 1800))] = 0
    return np.asarray(counts, dtype=np.int64)


def meter(days: int = 30, seed: int = 0) -> tuple[NDArray[np.datetime64], FloatArray]:
    """The electricity meter of a house with 20 flats, once a minute: times (UTC), and watts.

    Base load, nights and evenings, appliances that come and go, and a reading that is missing now
    and then (NaN).

    >>> times, watts = meter(days=2)
    >>> str(times[-1]), watts.size
    ('2024-01-02T23:59:00', 2880)
    """
    random = np.random.default_rng(seed)
    minutes = np.arange(days * 1440)
    hour = minutes / 60 % 24
    awake = 1 / (1 + np.exp(-3 * (hour - 6.5))) - 1 / (1 + np.exp(-3 * (hour - 23)))
    evening = np.exp(-(((hour - 19.5) / 2) ** 2))
    watts = _FLATS * (70 + 110 * awake + 180 * evening)
    for most, length, daily in ((2000, 4, 6), (900, 45, 2), (2600, 25, 1.2)):  # kettle, oven, …
        used = random.choice(minutes, size=int(_FLATS * daily * days), p=awake / awake.sum())
        for start in used.tolist():
            watts[start : start + max(1, round(random.gamma(4, length / 4)))] += most
    watts = np.rint(watts * random.gamma(400, 1 / 400, size=watts.size))
    watts[random.random(watts.size) < 1 / 500] = np.nan
    times = np.datetime64("2024-01-01T00:00:00") + minutes.astype("timedelta64[m]")
    return times, watts


def user_series(users: int, steps: int, changes: int = 4, seed: int = 0) -> NDArray[np.bool_]:
    """A yes or no of every user at every step: a row for each step, a column for each user.

    Nobody changes more than `changes` times, a first yes included; in the middle of the time a
    quarter of the users turn to yes together.

    >>> series = user_series(users=1000, steps=32)
    >>> int((np.diff(series.astype(int), axis=0, prepend=0) != 0).sum(axis=0).max())
    4
    """
    random = np.random.default_rng(seed)
    flips = np.zeros((steps, users), dtype=np.int64)
    for _ in range(changes - 1):
        moved = np.flatnonzero(random.random(users) < 0.7)
        flips[random.integers(0, steps, size=moved.size), moved] += 1
    together = np.flatnonzero(random.random(users) < 0.25)
    before = flips[: steps // 2].sum(axis=0) % 2 == 0
    flips[steps // 2, together[before[together]]] += 1
    return np.asarray(flips.cumsum(axis=0) % 2 == 1)
