"""Where does the adaptive release lose to ToPS? `python -m benchmarks.robustness`.

The measure of `accuracy_adaptive` (mean squared error over all ranges, ToPS / adaptive, online) on
the made-up streams of `kinds`, at several sizes and ε. Cells below 0.95 are listed at the end.
`--form default` releases the hold-out too, in whole numbers, and is scored on the same values.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path

import numpy as np

import tidegate as tg
from benchmarks.kinds import KINDS, Values

# (hold-out, horizon, ε): the sizes of the paper, and smaller ones at ε that make sense for them.
SIZES = [
    *((65_536, 2**20, epsilon) for epsilon in (0.01, 0.02, 0.05, 0.1, 1.0)),
    *((8192, 2**16, epsilon) for epsilon in (0.1, 1.0)),
    *((1024, 2**13, epsilon) for epsilon in (0.3, 2.0)),
]
Task = tuple[str, str, int, int, float, int]


@lru_cache(maxsize=4)
def _stream(kind: str, count: int) -> tuple[Values, int]:
    return KINDS[kind](count)


def run(task: Task) -> tuple[float, float]:
    """Error of ToPS, error of the adaptive release."""
    form, kind, holdout, horizon, epsilon, seed = task
    values, bound = _stream(kind, holdout + horizon)
    pipelines = [
        build(epsilon, bound, horizon=horizon, holdout=holdout) for build in (tg.tops, tg.adaptive)
    ]
    if form == "default":
        pipelines[1] = tg.adaptive(epsilon, bound, horizon=holdout + horizon, resolution=1)
    outs = [pipeline.start(tg.seeded(seed)).push(values)[-horizon:] for pipeline in pipelines]
    tops, mine = (2 * float(np.cumsum(out - values[holdout:]).var()) for out in outs)
    return tops, mine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--form", choices=("paper", "default"), default="paper")
    parser.add_argument("--only", nargs="*", help="kinds of stream")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    names = options.only or list(KINDS)
    tasks = [
        (options.form, name, *size, seed)
        for name in names
        for size in SIZES
        for seed in range(options.runs)
    ]
    table: dict[str, list[float]] = {}
    print("ToPS / adaptive, online; columns: " + ", ".join(f"r={r:,} ε={e:g}" for _, r, e in SIZES))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.workers, mp_context=context) as pool:
        done = pool.map(run, tasks, chunksize=options.runs)
        for name in names:
            for holdout, horizon, epsilon in SIZES:
                both = np.array([next(done) for _ in range(options.runs)])
                tops, mine = both.mean(axis=0)
                spread = np.hypot(*(both.std(axis=0) / both.mean(axis=0))) / options.runs**0.5
                ratio = tops / mine if mine else 1.0
                table[f"{name}, m={holdout}, r={horizon}, ε={epsilon:g}"] = [ratio, spread]
            cells = list(table.values())[-len(SIZES) :]
            print(f"{name:24s} " + " ".join(f"{ratio:8.2f}" for ratio, _ in cells), flush=True)
    mean = sum(math.log(ratio) for ratio, _ in table.values()) / len(table)
    print(f"geometric mean {math.exp(mean):.2f} over {len(table)} cells; below 0.95:")
    for cell, (ratio, spread) in table.items():
        if ratio < 0.95:
            print(f"  {cell}: {ratio:.2f} ± {ratio * spread:.2f}")
    if options.json:
        options.json.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
