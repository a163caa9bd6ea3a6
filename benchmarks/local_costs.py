"""What the local model costs in accuracy: range sums by ToPL beside ToPS and the adaptive release.

    python -m benchmarks.local_costs [--runs 5] [--quick]

The same values, the same ε per value, 65,536 of them held out for the threshold in each. The error
is the root mean square over random ranges of a length, against the true sum (so truncation counts),
as a share of the mean true sum; the median over seeded runs. Prints the table of
docs/research/local-accuracy.md. Uses pos_length of TIDEGATE_DATA, or else synthetic baskets.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

import tidegate as tg

HOLDOUT, BOUND, RANGES = 65_536, 1657, 200
LENGTHS = (1_000, 10_000, 100_000, 400_000)
Release = Callable[[float, NDArray[np.int64], int], NDArray[np.float64]]


def central(preset: Callable[..., tg.Pipeline]) -> Release:
    def released(epsilon: float, values: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
        release = preset(epsilon=epsilon, bound=BOUND, holdout=HOLDOUT, horizon=2**20)
        run = release.start(tg.seeded(seed))
        return np.asarray(run.push(values))

    return released


def local(epsilon: float, values: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
    topl = tg.topl(epsilon=epsilon, bound=BOUND, holdout=HOLDOUT, horizon=2**20)
    return topl.simulate(values, tg.seeded(seed)).released


METHODS: dict[str, Release] = {
    "local: `topl`": local,
    "central: `tops`": central(tg.tops),
    "central: `adaptive`": central(tg.adaptive),
}


def errors(truth: NDArray[np.int64], released: NDArray[np.float64]) -> list[float]:
    """Per length: the relative error of the sums over random ranges."""
    offsets = np.concatenate(([0.0], np.cumsum(released - truth)))
    sums = np.concatenate(([0], np.cumsum(truth)))
    found = []
    for length in LENGTHS:
        starts = np.random.default_rng(length).integers(0, truth.size - length + 1, RANGES)
        wrong = offsets[starts + length] - offsets[starts]
        right = sums[starts + length] - sums[starts]
        found.append(float(np.sqrt(np.mean(wrong**2)) / right.mean()))
    return found


def stream() -> tuple[str, NDArray[np.int64]]:
    folder = os.environ.get("TIDEGATE_DATA")
    if folder and (Path(folder) / "pos_length.parquet").exists():
        import pyarrow.parquet as parquet

        table = parquet.read_table(Path(folder) / "pos_length.parquet")
        return "pos_length", table.column(0).to_numpy().astype(np.int64)
    return "synthetic baskets", tg.synthetic.baskets(HOLDOUT + 450_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one run, epsilon 1 only")
    given = parser.parse_args()
    runs, epsilons = (1, [1.0]) if given.quick else (given.runs, [0.2, 0.5, 1.0, 2.0])
    name, values = stream()
    truth = values[HOLDOUT:]
    print(
        f"{name}: {truth.size:,} values after the hold-out, mean {truth.mean():.2f}; {runs} runs\n"
    )
    print("| ε | method |", *(f"{length:,} |" for length in LENGTHS))
    print("|---|---|", *("---|" for _ in LENGTHS))
    for epsilon in epsilons:
        for method, release in METHODS.items():
            found = [errors(truth, release(epsilon, values, seed)) for seed in range(runs)]
            cells = [f"{100 * median(column):.2g} % |" for column in zip(*found, strict=True)]
            print(f"| {epsilon:g} | {method} |", *cells, flush=True)


if __name__ == "__main__":
    main()
