"""Made-up streams for demos, tests and experiments. They contain nobody's data.

The random numbers here shape example data; they are no noise and protect nothing.
"""

from __future__ import annotations

import numpy as np

from tidegate.lattice import IntArray


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
