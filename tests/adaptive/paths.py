"""The noise that a forecaster reckons with, as a dense covariance matrix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidegate.forecast.noise_path import Leaf


def covariance_of(path: Sequence[Leaf]) -> np.ndarray:
    """Leaves, and the noise left in the open nodes, as linear maps of independent unit draws."""
    draws = 3 * len(path)
    outer, inner = np.zeros(draws), np.zeros(draws)
    rows = []
    for index, leaf in enumerate(path):
        fresh = np.eye(draws)[3 * index : 3 * index + 3]
        if leaf.inner is not None:
            if leaf.outer is not None:
                outer = fresh[0] * leaf.outer**0.5
            inner = leaf.inner_share * outer + fresh[1] * leaf.inner**0.5
            outer = outer - inner if leaf.inner_share else outer
        noise = leaf.share * inner + fresh[2] * leaf.variance**0.5
        inner = inner - noise
        rows.append(noise)
    return np.array(rows) @ np.array(rows).T
