"""**Delayed**: OptStream publishes a window when it is over; until then there is nothing.

Fioretto and Van Hentenryck, *OptStream: Releasing Time Series Privately*, JAIR 2019. Windows of w
values lie side by side. Of each, k values are sampled (evenly: by position), measured, and joined
by lines; the window's sum is measured too; then the lines are moved until they agree with the sum
as well as both deserve by their noise.

Any w consecutive values, all replaced at once, lie in two windows at most. Samples are at the same
places of every window, so exactly k of any w consecutive values are sampled: they move by kθ in the
1-norm, and noise of scale 2kθ/ε costs ε/2. With a of the values in one window and w − a in the
next, the two sums move by aθ and (w − a)θ, wθ together: noise of scale 2wθ/ε costs ε/2. The rest is
post-processing. Computed in floats.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def optstream(
    values: Floats, epsilon: float, theta: float, seed: int, window: int = 60, kept: int = 4
) -> Floats:
    """What is published, with the delay left out: every value at its own place."""
    random = np.random.default_rng(seed)
    count = -(-values.size // window)
    padded = np.zeros(count * window)
    padded[: values.size] = np.clip(values, 0, theta)
    blocks = padded.reshape(count, window)
    kept = min(kept, window)
    places = sampled_places(window, kept)
    scale, sum_scale = sample_scale(epsilon, theta, kept), sum_noise(epsilon, theta, window)
    samples = blocks[:, places] + random.laplace(scale=scale, size=(count, kept))
    sums = blocks.sum(axis=1) + random.laplace(scale=sum_scale, size=count)
    lines = lines_through(places, window)
    joined = samples @ lines
    # Least squares: of the difference of both sums, the lines take as much as they are worse.
    variance = 2 * scale**2 * np.square(lines.sum(axis=1)).sum()
    share = variance / (variance + 2 * sum_scale**2)
    joined += (share * (sums - joined.sum(axis=1)) / window)[:, None]
    return joined.ravel()[: values.size]


def sampled_places(window: int, kept: int) -> NDArray[np.int64]:
    """Which values of every window are sampled."""
    return np.linspace(0, window - 1, kept).round().astype(np.int64)


def sample_scale(epsilon: float, theta: float, kept: int) -> float:
    """Of the noise of a sample: half of ε for the `kept` samples of any window of values."""
    return 2 * kept * theta / epsilon


def sum_noise(epsilon: float, theta: float, window: int) -> float:
    """The scale of the noise of a window's sum: half of ε for the two that values can lie in."""
    return 2 * window * theta / epsilon


def lines_through(places: NDArray[np.int64], window: int) -> Floats:
    """How much each sample counts at each place of the window: a row a sample.

    >>> lines_through(np.array([0, 2]), 3)
    array([[1. , 0.5, 0. ],
           [0. , 0.5, 1. ]])
    """
    each = np.eye(places.size)
    return np.array([np.interp(np.arange(window), places, row) for row in each])
