"""How accurate the local model is: `python -m benchmarks local-accuracy`.

Protocol: 65,536 held-out values, then 2^20 reports, ε on both; the error of a run is the mean
squared error over *all* ranges, which is 2·Var over t of the error of the prefix sum at t. Shown
are the median over seeded runs, which is held against the note, and the mean. Streams are the
folder that TIDEGATE_DATA names, with the bounds of its README; short ones are extended by mirrored
copies (records recur, so no privacy claim describes such a stream). Without the folder there is
nothing to hold against: no rows.

Published ToPL on POS follows NOTES.md instead: stream ε = 1, 200 random ranges, median of runs.
"""

from __future__ import annotations

import math
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import mean, median

import numpy as np

import tidegate as tg
from benchmarks.accuracy_adaptive import HOLDOUT, HORIZON, bounds, stream
from benchmarks.local_table import EPSILONS, PUBLISHED_ON_POS, TABLE
from benchmarks.table import Row, at_least, at_most, within_factor_two
from benchmarks.timing import again, best_in_turns, progress

_SCHEMES = ("adaptive", "published", "published-authors")
_POS = "pos_length"
_RANGES = 200


@dataclass(frozen=True)
class Task:
    """One run; everything that decides what comes out."""

    name: str
    scheme: str
    threshold_epsilon: float
    epsilon: float
    seed: int


@dataclass(frozen=True)
class Run:
    """What came out of one run."""

    error: float  # over all ranges
    sampled: float  # over the 200 random ranges of NOTES.md
    threshold: float


def run(task: Task) -> Run:
    values, _ = stream(task.name)
    topl = tg.topl(
        task.epsilon,
        bounds()[task.name],
        threshold_epsilon=task.threshold_epsilon,
        holdout=HOLDOUT,
        horizon=HORIZON,
        scheme=task.scheme,
    )
    simulation = topl.simulate(values, tg.seeded(task.seed))
    errors = np.concatenate(([0.0], np.cumsum(simulation.released - values[HOLDOUT:])))
    ends = np.random.default_rng(task.seed).integers(0, HORIZON + 1, size=(2, _RANGES))
    sampled = float(np.mean(np.square(errors[ends[0]] - errors[ends[1]])))
    return Run(2 * float(errors.var()), sampled, simulation.threshold or math.nan)


def measure(quick: bool) -> list[Row]:
    names = [name for name in TABLE if name in bounds()]
    if not names:
        print("\nLocal accuracy: TIDEGATE_DATA names no folder with the streams of the table.")
        return []
    runs = {"adaptive": 4 if quick else 12, "published": 3 if quick else 6}
    runs["published-authors"] = runs["published"]
    for name in names:
        real = stream(name)[1]
        if real < HOLDOUT + HORIZON:
            print(f"{name}: {real:,} values, mirrored to {HOLDOUT + HORIZON:,}")
    cells = [
        (name, scheme, epsilon, epsilon)
        for name in names
        for epsilon in EPSILONS
        for scheme in _SCHEMES
    ]
    if _POS in names:
        cells += [(_POS, "published", one, 1.0) for one in PUBLISHED_ON_POS]
    found = dict(_results(cells, runs))
    rows = [_cell(name, epsilon, found) for name in names for epsilon in EPSILONS]
    return rows + _summary(names, found) + _published_on_pos(found) + _speed(names[0])


Cell = tuple[str, str, float, float]


def _results(cells: list[Cell], runs: dict[str, int]) -> Iterator[tuple[Cell, list[Run]]]:
    tasks = [Task(*cell, seed) for cell in cells for seed in range(runs[cell[1]])]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        done = pool.map(run, tasks, chunksize=4)
        for cell in cells:
            progress(f"local accuracy, {cell[0]}, {cell[1]}, e={cell[3]:g}")
            yield cell, [next(done) for _ in range(runs[cell[1]])]


def _medians(name: str, epsilon: float, found: dict[Cell, list[Run]]) -> list[float]:
    """Of the default, of published ToPL with the corrected and with the authors' objective."""
    return [
        median(one.error for one in found[name, scheme, epsilon, epsilon]) for scheme in _SCHEMES
    ]


def _cell(name: str, epsilon: float, found: dict[Cell, list[Run]]) -> Row:
    noted, index = TABLE[name], EPSILONS.index(epsilon)
    mine, corrected, authors = _medians(name, epsilon, found)
    results = found[name, "adaptive", epsilon, epsilon]
    note = (
        f"mean {mean(one.error for one in results):.1e}, "
        f"theta {median(one.threshold for one in results):,.0f}, "
        f"corrected {corrected:.1e}, authors {authors:.1e}, oracle {noted.oracle[index]:.1e}"
    )
    return at_most(f"{name}, e={epsilon:g}", mine, 1.5 * noted.scheme[index], note=note)


def _summary(names: list[str], found: dict[Cell, list[Run]]) -> list[Row]:
    logs, worse = [], []
    for name in names:
        for epsilon in EPSILONS:
            mine, corrected, authors = _medians(name, epsilon, found)
            logs.append(math.log(authors / mine))
            if mine > min(corrected, authors):
                worse.append(f"{name} e={epsilon:g} ({mine / min(corrected, authors):.1f}x)")
    gain = math.exp(mean(logs))
    return [
        at_least("times better than the authors' objective, geometric mean", gain, 5, "x"),
        at_most("cells worse than a published variant", len(worse), 1, note="; ".join(worse)),
    ]


def _published_on_pos(found: dict[Cell, list[Run]]) -> list[Row]:
    rows = []
    for epsilon, target in PUBLISHED_ON_POS.items():
        cell = (_POS, "published", epsilon, 1.0)
        if cell in found:
            error = median(one.sampled for one in found[cell])
            theta = median(one.threshold for one in found[cell])
            name = f"published ToPL on POS, threshold e={epsilon:g}, stream e=1"
            rows.append(within_factor_two(name, error, target, f"theta {theta:,.0f}"))
    return rows


def _speed(name: str) -> list[Row]:
    """Both sides at once, tables made before: the whole survey, and the stream alone."""
    values, _ = stream(name)
    topl = tg.topl(1.0, bounds()[name], holdout=HOLDOUT, horizon=HORIZON)
    asked = HOLDOUT + HORIZON // 8
    given = tg.topl(1.0, bounds()[name], threshold=topl.resolution * 40)
    survey, reports = best_in_turns(
        [
            again(lambda: topl.simulate(values[:asked], tg.seeded(1))),
            again(lambda: given.simulate(values[HOLDOUT:], tg.seeded(1))),
        ],
        repeats=5,
    )
    return [
        at_most("hold-out and first eighth: choose the threshold", survey, 2.0, "s"),
        at_least("reports of the stream, both sides", HORIZON / reports / 1e6, 5.0, "M/s"),
    ]
