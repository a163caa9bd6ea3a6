"""`python -m benchmarks.local_drift`: choosing the threshold once, or again in every horizon.

Baskets whose sizes change over four horizons of 131,072 values, 8,192 asked before. The error is
the root mean square over 200 random ranges of 20,000 values, relative to the true sum, in the
horizons after the first; the median over seeded runs. See docs/research/local-accuracy.md.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from statistics import median

import numpy as np

import tidegate as tg
from benchmarks.timing import progress
from tidegate.lattice import FloatArray, IntArray
from tidegate.local.topl import Topl
from tidegate.local.topl_simulation import run_simulation

_HORIZON, _HOLDOUT, _BOUND, _LENGTH = 1 << 17, 1 << 13, 3000, 20_000
_EPSILONS = (0.5, 1.0, 2.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="seeds of each cell (default 5)")
    runs = parser.parse_args().runs
    print("| stream | ε | once | again |\n|---|---|---|---|")
    for name, values in _streams().items():
        for epsilon in _EPSILONS:
            progress(f"{name}, e={epsilon:g}")
            topl = tg.topl(epsilon, _BOUND, holdout=_HOLDOUT, horizon=_HORIZON)
            cells = []
            for again in (False, True):
                errors = [
                    _error(values, _released(topl, values, seed, again), seed)
                    for seed in range(runs)
                ]
                cells.append(f"{100 * median(errors):.1f} %")
            print(f"| {name} | {epsilon:g} | " + " | ".join(cells) + " |", flush=True)


def _streams() -> dict[str, IntArray]:
    sizes = tg.synthetic.baskets(_HOLDOUT + 4 * _HORIZON)
    horizons = np.maximum(0, np.arange(sizes.size) - _HOLDOUT) / _HORIZON
    factors = {
        "the same all the time": np.ones(sizes.size),
        "doubles in every horizon": 2.0**horizons,
        "halves in every horizon": 4 * 2.0**-horizons,
        "five times as large after the first": np.where(horizons < 1, 1.0, 5.0),
    }
    return {name: np.rint(sizes * factor).astype(np.int64) for name, factor in factors.items()}


def _released(topl: Topl, values: IntArray, seed: int, again: bool) -> FloatArray:
    collection = topl.collection()
    if not again:
        collection.schedule = replace(collection.schedule, again=None)
    return run_simulation(collection, values, tg.seeded(seed).new_epoch().keystream("drift", b""))


def _error(values: IntArray, released: FloatArray, seed: int) -> float:
    truth = np.concatenate(([0], np.cumsum(values[_HOLDOUT:])))
    sums = np.concatenate(([0], np.cumsum(released)))
    random = np.random.default_rng(seed)
    start = random.integers(_HORIZON, 4 * _HORIZON - _LENGTH, 200)
    apart = (sums[start + _LENGTH] - sums[start]) / (truth[start + _LENGTH] - truth[start]) - 1
    return float(np.sqrt(np.mean(apart**2)))


if __name__ == "__main__":
    main()
