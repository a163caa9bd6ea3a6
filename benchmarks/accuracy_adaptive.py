"""How much more accurate the adaptive release is than ToPS: `make bench-accuracy`.

Protocol: 65,536 held-out values, then 2^20 released ones; the error of a run is the mean squared
error over *all* ranges, which is 2·Var over t of the error of the prefix sum at t; the mean of that
over seeded runs. Streams are the folder that TIDEGATE_DATA names, with the bounds that its README
gives (larger values count as the bound, in the truth too); short ones are extended by mirrored
copies, as the paper's authors do (records recur, so no privacy claim describes such a stream).
Without the folder: synthetic streams of many kinds.

The retrospective column is `query(0, t)` once everything was released, at 4,096 positions. The
default column is `adaptive` without a hold-out, told only ε, the bound and how many values come: it
releases the 65,536 values too, and is scored on the same 2^20.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import tidegate as tg
from benchmarks.timing import progress

HOLDOUT, HORIZON = 65_536, 2**20
EPSILONS = (0.01, 0.02, 0.05, 0.1)
_POSITIONS = 4096
Values = NDArray[np.int64]
Task = tuple[str, str, float, int]


def bounds() -> dict[str, int]:
    """The public bound of every stream, from the table in the folder's README."""
    folder = os.environ.get("TIDEGATE_DATA")
    if not folder:
        return {f"synthetic {kind}": 1000 for kind in _SYNTHETIC}
    found = {}
    for line in (Path(folder) / "README.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 9 and (Path(folder) / f"{cells[1]}.parquet").is_file():
            found[cells[1]] = int(cells[8])
    return found


@lru_cache(maxsize=2)
def stream(name: str) -> tuple[Values, int]:
    """Hold-out and stream, and how many values of it are real."""
    needed = HOLDOUT + HORIZON
    if name.startswith("synthetic "):
        return _SYNTHETIC[name.removeprefix("synthetic ")](needed), needed
    import pyarrow.parquet

    path = Path(os.environ["TIDEGATE_DATA"]) / f"{name}.parquet"
    column = pyarrow.parquet.read_table(path).column("value").to_numpy().astype(np.int64)
    copies = -(-needed // column.size)
    mirrored = [column if copy % 2 == 0 else column[::-1] for copy in range(copies)]
    extended = np.minimum(np.concatenate(mirrored)[:needed], bounds()[name])
    return extended, min(column.size, needed)


def _drawn(shape: NDArray[np.float64] | float, count: int) -> Values:
    """Skewed values around a course."""
    random = np.random.default_rng(1)
    return random.poisson(30 * np.maximum(shape, 0) * random.gamma(1.0, size=count))


_SYNTHETIC = {
    "i.i.d.": lambda count: _drawn(1.0, count),
    "daily cycle": lambda count: _drawn(1 + 0.8 * np.sin(np.arange(count) / 13_750), count),
    "level shift": lambda count: _drawn(np.where(np.arange(count) < count // 2, 1.0, 2.0), count),
    "ramp": lambda count: _drawn(np.linspace(0.5, 2.0, count), count),
    "bursts": lambda count: _drawn(np.where(np.arange(count) % 100_000 < 5_000, 8.0, 0.5), count),
    "long zeros": lambda count: _drawn((np.arange(count) // 150_000) % 2, count),
}


def run(task: Task) -> tuple[float, float, float]:
    """Online error, retrospective error, threshold."""
    method, name, epsilon, seed = task
    values, _ = stream(name)
    if method == "default":
        pipeline = tg.adaptive(epsilon, bounds()[name], horizon=HOLDOUT + HORIZON)
        release = pipeline.start(tg.seeded(seed))
        errors = np.cumsum((release.push(values) - values)[HOLDOUT:])
        return 2 * float(errors.var()), math.nan, release.threshold or 0.0
    build = tg.adaptive if method == "adaptive" else tg.tops
    pipeline = build(epsilon, bounds()[name], horizon=HORIZON, holdout=HOLDOUT)
    release = pipeline.start(tg.seeded(seed))
    errors = np.cumsum(release.push(values) - values[HOLDOUT:])
    online = 2 * float(errors.var())
    if method != "adaptive":
        return online, math.nan, release.threshold or 0.0
    ends = np.linspace(0, HORIZON, _POSITIONS + 1).astype(np.int64)[1:]
    answers = release.queries(np.zeros_like(ends), ends).estimate
    past = answers - np.cumsum(values[HOLDOUT:])[ends - 1]
    return online, 2 * float(past.var()), release.threshold or 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--only", nargs="*", help="names of streams")
    parser.add_argument("--epsilons", type=float, nargs="*", default=list(EPSILONS))
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    names = [name for name in bounds() if not options.only or name in options.only]
    tasks = [
        (method, name, epsilon, seed)
        for name in names
        for epsilon in options.epsilons
        for method in ("tops", "adaptive", "default")
        for seed in range(options.runs)
    ]
    print(f"Mean over {options.runs} runs of the MSE over all ranges, ToPS / adaptive.")
    shown_epsilons = " ".join(f"{epsilon:g}" for epsilon in options.epsilons)
    print(f"{'stream':28s} online (e {shown_epsilons}) | retrospective | default, online")
    logs: list[list[float]] = [[], [], []]
    table = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.workers, mp_context=context) as pool:
        done = pool.map(run, tasks, chunksize=options.runs)
        for name in names:
            progress(name)
            rows = []
            for epsilon in options.epsilons:
                tops = [next(done) for _ in range(options.runs)]
                mine = np.array([next(done) for _ in range(options.runs)])
                released = [next(done) for _ in range(options.runs)]
                base = float(np.mean([one[0] for one in tops]))
                new = float(np.mean([one[0] for one in released]))
                online, past, theta = mine.mean(axis=0).tolist()
                rows.append((base / online, base / past, base / new))
                spread = mine[:, 0].std() / online / math.sqrt(options.runs)
                table[f"{name} {epsilon}"] = [base, online, past, theta, float(spread), new]
            for log, column in zip(logs, zip(*rows, strict=True), strict=True):
                log.extend(math.log(ratio) for ratio in column)
            shown = [" ".join(f"{ratio:7.2f}" for ratio in one) for one in zip(*rows, strict=True)]
            real = stream(name)[1]
            mirrored = "" if real == HOLDOUT + HORIZON else f"  ({real:,} values, mirrored)"
            print(f"{name:28s} {'  | '.join(shown)}{mirrored}", flush=True)
    means = [math.exp(sum(log) / len(log)) for log in logs]
    print(f"geometric mean {means[0]:.2f} online, {means[1]:.2f} retrospective")
    print(f"worst online cell {math.exp(min(logs[0])):.2f}")
    print(f"default: geometric mean {means[2]:.2f}, worst cell {math.exp(min(logs[2])):.2f}")
    if options.json:
        options.json.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
