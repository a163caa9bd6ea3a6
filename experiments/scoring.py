"""How wrong range sums are: 200 random ranges, from sums at their ends only.

A range sum is a difference of two prefix sums, and 200 ranges need prefix sums at 400 places: the
values between neighbouring places are added once (`np.add.reduceat`), and the few sums that come
out are accumulated. On 2^20 values this takes a fraction of what a whole running sum takes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
METRICS = ("mse", "mae", "mmse", "mmae")


@dataclass(frozen=True)
class Ranges:
    """Half-open ranges [start, end) with uniform random ends."""

    starts: Ints
    ends: Ints

    @classmethod
    def drawn(cls, count: int, length: int, seed: tuple[int, ...]) -> Ranges:
        """`count` ranges within a stream of `length` values: any two positions are as likely."""
        draws = np.random.default_rng(seed).integers(0, length, size=(2, count))
        return cls(draws.min(axis=0), draws.max(axis=0) + 1)

    def sums(self, values: NDArray[np.number]) -> Floats:
        """The sum of `values` over every range."""
        places, index = np.unique(np.concatenate((self.starts, self.ends)), return_inverse=True)
        between = np.add.reduceat(values[: places[-1]], places[:-1], dtype=np.float64)
        prefix = np.concatenate(([0.0], np.cumsum(between)))
        return prefix[index[self.starts.size :]] - prefix[index[: self.starts.size]]


def score(released: NDArray[np.number], truth: Floats, ranges: Ranges) -> dict[str, float]:
    """MSE and MAE over the ranges, and both for means instead of sums (the paper's MMSE, MMAE)."""
    errors = ranges.sums(released) - truth
    means = errors / (ranges.ends - ranges.starts)
    return {
        "mse": float(np.mean(np.square(errors))),
        "mae": float(np.mean(np.abs(errors))),
        "mmse": float(np.mean(np.square(means))),
        "mmae": float(np.mean(np.abs(means))),
    }
