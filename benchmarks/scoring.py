"""How fast the experiments score: 200 ranges over 2^20 released values."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

import tidegate as tg
from benchmarks.table import Row, at_most
from benchmarks.timing import again, best_in_turns
from experiments.scoring import Ranges, score

_LENGTH, _RANGES, _MILLI = 1 << 20, 200, 1e3


def measure(quick: bool) -> list[Row]:
    values = tg.synthetic.baskets(_LENGTH)
    released = values + np.random.default_rng(1).laplace(scale=100, size=_LENGTH)
    ranges = Ranges.drawn(_RANGES, _LENGTH, (1,))
    truth = ranges.sums(values)
    jobs = [
        again(partial(score, released, truth, ranges)),
        again(partial(_by_running_sum, released, truth, ranges)),
    ]
    ours, plain = best_in_turns(jobs, 10 if quick else 50)
    note = f"a whole running sum: {plain * _MILLI:.2f} ms"
    return [
        at_most("200 ranges on 2^20 values", ours * _MILLI, 5.0, "ms", note),
        at_most("against a whole running sum", ours / plain, 1.0, "x"),
    ]


def _by_running_sum(
    released: NDArray[np.float64], truth: NDArray[np.float64], ranges: Ranges
) -> float:
    prefix = np.concatenate(([0.0], np.cumsum(released)))
    return float(np.mean(np.square(prefix[ranges.ends] - prefix[ranges.starts] - truth)))
