"""How accurate the local model is: `python -m benchmarks local-accuracy`.

Protocol: 65,536 held-out values, then 2^20 reports, ε on both. The error of a run is the mean
squared error over *all* ranges, which is 2·Var over t of the error of the prefix sum at t; it is
averaged exactly over the noise of the stream's reports (their variances are known), so that runs
differ by the chosen thresholds only. That this is what the reports measure is a row of its own.
Shown are the median over seeded runs, which is held against the note, and the mean.

Streams are the folder that TIDEGATE_DATA names, with the bounds of its README; short ones are
extended by mirrored copies (records recur, so no privacy claim describes such a stream). Without
the folder there is nothing to hold against: no rows.

Published ToPL is held against twice: as the note has it, and as it is measured here, where it is
better than in the note for ε ≥ 1. On POS it follows NOTES.md: stream ε = 1, 200 random ranges of
the reports as drawn, median of runs.
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
from numpy.typing import NDArray

import tidegate as tg
from benchmarks.accuracy_adaptive import HOLDOUT, HORIZON, bounds, stream
from benchmarks.local_table import EPSILONS, PUBLISHED_ON_POS, TABLE
from benchmarks.table import Row, at_least, at_most, within_factor_two
from benchmarks.timing import again, best_in_turns, progress
from tidegate.local.topl import Topl
from tidegate.local.topl_simulation import Simulation

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

    error: float  # over all ranges, expected given the thresholds
    measured: float  # over all ranges, of the reports as drawn
    sampled: float  # over the 200 random ranges of NOTES.md, of the reports as drawn
    threshold: float


def run(task: Task) -> Run:
    # One less than a horizon: with its last report the server would begin to ask anew, and forget.
    values = stream(task.name)[0][:-1]
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
    ends = np.random.default_rng(task.seed).integers(0, errors.size, size=(2, _RANGES))
    return Run(
        error=_expected(topl, simulation, values[HOLDOUT:]),
        measured=2 * float(errors.var()),
        sampled=float(np.mean(np.square(errors[ends[0]] - errors[ends[1]]))),
        threshold=simulation.threshold or math.nan,
    )


def _expected(topl: Topl, simulation: Simulation, values: NDArray[np.int64]) -> float:
    """The error over all ranges, averaged over the noise of the reports.

    Noise of variance s at a share τ of the stream adds s·2τ(1 − τ); what truncation, offsets and
    represented neighbours do is not random.
    """
    tallies, starts = simulation.collection.tallies, simulation.collection.collected.thresholds
    share = (np.arange(values.size) + 0.5) / values.size
    weight = 2 * share * (1 - share)
    missed, noise = np.empty(values.size), 0.0
    stops = [start for start, *_ in starts[1:]] + [values.size]
    for index, ((start, theta, _), stop) in enumerate(zip(starts, stops, strict=True)):
        decision = topl.survey.decide(tallies[: len(tallies) - len(starts) + 1 + index])
        part, last = slice(start, stop), index == len(starts) - 1
        kept = np.minimum(values[part], theta)
        variance = topl.question(round(theta)).variance(2 * kept / theta - 1) * theta**2 / 4
        if not last:  # every second device was asked otherwise
            kept, variance[::2], variance[1::2] = np.repeat(kept[::2], 2), 4 * variance[::2], 0.0
        missed[part] = kept + decision.offset - values[part]
        noise += float(variance @ weight[part])
    return noise + 2 * float(np.cumsum(missed).var())


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
        f"here corrected {corrected:.1e}, authors {authors:.1e}; oracle {noted.oracle[index]:.1e}"
    )
    return at_most(f"{name}, e={epsilon:g}", mine, 1.5 * noted.scheme[index], note=note)


def _summary(names: list[str], found: dict[Cell, list[Run]]) -> list[Row]:
    rows = []
    for where in ("of the note", "measured here"):
        logs, worse = [], []
        for name in names:
            for index, epsilon in enumerate(EPSILONS):
                mine, corrected, authors = _medians(name, epsilon, found)
                if where == "of the note":
                    corrected, authors = TABLE[name].corrected[index], TABLE[name].authors[index]
                logs.append(math.log(authors / mine))
                best = min(corrected, authors)
                if mine > best:
                    worse.append(f"{name} e={epsilon:g} ({mine / best:.1f}x)")
        gain, note = math.exp(mean(logs)), "; ".join(worse)
        better = f"times better than the authors' objective {where}, geometric mean"
        rows += [
            at_least(better, gain, 5, "x"),
            at_most(f"cells worse than ToPL {where}", len(worse), 1, note=note),
        ]
    ratios = [one.measured / one.error for runs in found.values() for one in runs]
    return [*rows, Row("error of the reports as drawn over the expected one, mean", mean(ratios))]


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
