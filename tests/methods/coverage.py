"""How often the interval of an answer holds the true sum."""

import numpy as np

import tidegate as tg


def coverage(
    pipeline: tg.Pipeline, values: np.ndarray, starts: np.ndarray, ends: np.ndarray, releases: int
) -> float:
    """The share of the ranges [start, end) whose interval holds, over that many releases."""
    truth = np.concatenate(([0], np.cumsum(values)))
    exact = truth[ends] - truth[starts]
    hits = []
    for seed in range(releases):
        release = pipeline.start(tg.seeded(seed))
        release.push(values)
        found = release.queries(starts, ends)
        hits.append(((found.low <= exact) & (exact <= found.high)).mean())
    return float(np.mean(hits))
