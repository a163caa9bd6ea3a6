"""How accurate: the authors' results on POS, reproduced (the table at the end of NOTES.md).

Protocol: 65,536 held-out values, then 2^20 released ones; 200 ranges with uniform random ends; the
mean squared error over the ranges of one run, and the median of that over seeded runs. End-to-end
methods are compared with the true sum, those with a fixed threshold with the truncated sum.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

import tidegate as tg
from benchmarks.methods import HOLDOUT, HORIZON, METHODS, THRESHOLD, Method
from benchmarks.table import Row, within_factor_two
from benchmarks.timing import progress

_RANGES = 200
_POS_LENGTH = "pos_length.parquet"


@dataclass(frozen=True)
class Run:
    """One seeded run of one method: what came out, and what it is made of."""

    error: float  # mean squared error over the ranges
    threshold: float
    noise: float  # the part of it that the noise law predicts
    truncation: float  # the part of it that truncation alone makes


def measure(quick: bool) -> list[Row]:
    runs = 12 if quick else 24
    epsilons = (0.02, 0.1) if quick else (0.01, 0.02, 0.05, 0.1)
    values, real = stream()
    _announce(values, real, runs)
    rows = []
    for method, epsilon, results in _results(epsilons, runs):
        error = median(run.error for run in results)
        name = f"{method.name}, e={epsilon:g}" if method.build else method.name
        note = _note(method, epsilon, results)
        target = method.targets.get(epsilon)
        if real and target is not None:
            rows.append(within_factor_two(name, error, target, note))
        else:
            rows.append(Row(name, error, note=note))
    return rows


def _announce(values: NDArray[np.int64], real: bool, runs: int) -> None:
    print()
    if real:
        print(
            "Accuracy on pos_length: 515,597 values, extended by mirrored copies as the authors do"
            f"\n(records recur, so no privacy claim describes this stream); used: {values.size:,}."
        )
    else:
        print(
            "Accuracy on a synthetic stand-in (tidegate.synthetic.baskets): no targets."
            f"\nFor the paper's POS set TIDEGATE_DATA to a folder that holds {_POS_LENGTH}."
        )
    print(f"Median over {runs} runs of the mean squared error over {_RANGES} ranges.")


def _results(epsilons: tuple[float, ...], runs: int) -> Iterator[tuple[Method, float, list[Run]]]:
    cells = [
        (method, epsilon)
        for method in METHODS.values()
        for epsilon in (epsilons if method.build else epsilons[:1])
    ]
    tasks = [(method.name, epsilon, seed) for method, epsilon in cells for seed in range(runs)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        done = pool.map(_run_task, tasks, chunksize=4)
        for method, epsilon in cells:
            progress(f"accuracy, {method.name}, e={epsilon:g}")
            yield method, epsilon, [next(done) for _ in range(runs)]


def _run_task(task: tuple[str, float, int]) -> Run:
    name, epsilon, seed = task
    return run(METHODS[name], epsilon, seed)


def run(method: Method, epsilon: float, seed: int) -> Run:
    values, _ = stream()
    released = values[HOLDOUT:]
    truth = _running(np.minimum(released, THRESHOLD) if method.truncated else released)
    draws = np.random.default_rng(seed).integers(0, HORIZON, size=(2, _RANGES))
    starts, ends = draws.min(axis=0), draws.max(axis=0) + 1
    true_sums = truth[ends] - truth[starts]
    if method.build is None:  # publish zeros
        return Run(_mean_square(true_sums), 0.0, 0.0, _mean_square(true_sums))
    pipeline = method.build(epsilon)
    release = pipeline.start(tg.seeded(seed))
    out = release.push(values[HOLDOUT - pipeline.threshold.holdout :])
    published = np.concatenate(([0.0], np.cumsum(out)))
    threshold, step = release.threshold or 0.0, pipeline.lattice.step
    kept = _running(np.minimum(released, round(threshold)))
    law, block = pipeline.perturber.noise_law(round(threshold / step)), pipeline.perturber.block
    return Run(
        error=_mean_square(published[ends] - published[starts] - true_sums),
        threshold=threshold,
        noise=float(law.range_variance(starts // block, ends // block).mean()) * step**2,
        truncation=_mean_square(kept[ends] - kept[starts] - true_sums),
    )


def _note(method: Method, epsilon: float, results: list[Run]) -> str:
    if method.build is None:
        return "all zeros published; the same at every e"
    pipeline = method.build(epsilon)
    threshold = median(run.threshold for run in results)
    noise = median(run.noise for run in results)
    truncation = median(run.truncation for run in results)
    note = f"threshold {threshold:,.0f}, noise by law {noise:.2e}"
    if truncation:
        note += f", truncation {truncation:.1e}"
    if pipeline.perturber.block > 1:
        note += f", blocks of {pipeline.perturber.block}"
    if pipeline.resolution != 1:
        note += f", resolution {pipeline.resolution}: finer is refused"
    return note


def _running(values: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(values)))


def _mean_square(errors: NDArray[np.float64] | NDArray[np.int64]) -> float:
    return float(np.mean(np.square(errors.astype(np.float64))))


@lru_cache(maxsize=1)
def stream() -> tuple[NDArray[np.int64], bool]:
    """Hold-out and stream, and whether they are the paper's POS."""
    needed = HOLDOUT + HORIZON
    path = Path(os.environ.get("TIDEGATE_DATA", "")) / _POS_LENGTH
    if not path.is_file():
        return tg.synthetic.baskets(needed), False
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path, columns=["value"])
    column = table.column("value").to_numpy().astype(np.int64)
    copies = -(-needed // column.size)
    mirrored = [column if copy % 2 == 0 else column[::-1] for copy in range(copies)]
    return np.concatenate(mirrored)[:needed], True
