"""How good the first answers of a fleet are: `python -m benchmarks.local_fleets [--runs 12]`.

A fleet of N devices reports once each; `topl` is told ε, the bound and the fleet's size, nothing
else. The error of a run is the mean squared error over all ranges of all N devices, averaged
exactly over the noise of the value reports, divided by that of the best fixed threshold known in
hindsight, at which every device reports: shown is the geometric mean over streams of the median of
seeded runs, the worst stream, and the relative error of the total. A day of a stream is N values
from its middle on.

Streams: those of TIDEGATE_DATA. The sizes in `tail.rounds` were chosen on made-up streams
(`--made-up`); that questions are spread over the stream, with two of these in sight.
"""

from __future__ import annotations

import argparse
import math
from statistics import geometric_mean, median

import numpy as np
from numpy.typing import NDArray

import tidegate as tg
from benchmarks.accuracy_adaptive import bounds
from benchmarks.kinds import KINDS
from tidegate.local.server_collection import ServerCollection
from tidegate.local.topl import Topl

FLEETS = (1_000, 10_000, 100_000)
EPSILONS = (0.5, 1.0, 2.0, 4.0)
_MADE_UP = (
    "geometric",
    "Poisson 30",
    "normal 100 ± 10",
    "uniform to the bound",
    "small counts",
    "lognormal 1",
    "lognormal 2",
    "Pareto 2.5",
    "tiny values",
    "two scales, half",
    "daily cycle",
    "walk",
)
Values = NDArray[np.int64]
Floats = NDArray[np.float64]


def day(name: str, fleet: int) -> tuple[Values, int]:
    """The values of a fleet's devices, and their bound."""
    if name in KINDS:
        return KINDS[name](fleet)
    import os
    from pathlib import Path

    import pyarrow.parquet

    path = Path(os.environ["TIDEGATE_DATA"]) / f"{name}.parquet"
    column = pyarrow.parquet.read_table(path).column("value").to_numpy().astype(np.int64)
    start = max(0, (column.size - fleet) // 2)
    values = np.resize(column[start:], fleet)
    return np.minimum(values, bounds()[name]), bounds()[name]


def played(topl: Topl, values: Values, seed: int) -> tuple[Floats, Floats]:
    """Of every position: the expected error of what is published, and the variance it adds."""
    steps = topl.lattice.units(values)
    words = tg.seeded(seed).new_epoch().keystream("benchmark", b"").at()
    collection = topl.collection()
    missed, noise = np.zeros(values.size), np.zeros(values.size)
    published = device = 0
    while device < values.size:
        left = collection.left
        count = values.size - device if left is None else min(left, values.size - device)
        slots = (np.arange(count) + collection.taken) % len(collection.slots)
        mine = steps[device : device + count]
        expected, variance = _expected(collection, slots, mine)
        reports = np.zeros(count, dtype=np.int64)
        for index, slot in enumerate(collection.slots):
            asked = slots == index
            reports[asked] = slot.question.answers(mine[asked], words)
        released = collection.receive(slots, reports).size
        span = slice(published, published + released)
        missed[span], noise[span] = expected, variance
        published += released
        device += count
    missed[:published] -= values[:published]
    return missed[:published], noise[:published]


def _expected(collection: ServerCollection, slots: Values, mine: Values) -> tuple[Floats, Floats]:
    question = collection._value
    if question is None:
        return np.zeros(0), np.zeros(0)
    step = collection._step
    decision = collection.decision
    assert decision is not None
    cut = np.clip(mine, 0, question.threshold)
    variance = question.variance(2 * cut / question.threshold - 1) * question.threshold**2 / 4
    weight = np.ones(mine.size, dtype=np.int64) * collection.copies
    if len(collection.slots) > 1:
        values = np.flatnonzero(collection._is_value[slots])
        weight = np.zeros(mine.size, dtype=np.int64)
        weight[values] = np.diff(np.append(values, mine.size))
    worth = np.repeat(cut + decision.offset, weight) * step
    spread = np.repeat(variance * weight, weight) * step**2
    return worth, spread


def over_ranges(missed: Floats, noise: Floats) -> float:
    """The mean squared error over all ranges."""
    share = (np.arange(missed.size) + 0.5) / missed.size
    return float(noise @ (2 * share * (1 - share))) + 2 * float(np.cumsum(missed).var())


def best(topl: Topl, values: Values) -> float:
    """Of the best fixed threshold, if every device reports."""
    found = math.inf
    steps = topl.lattice.units(values).astype(float)
    step = float(topl.resolution)
    top = topl.lattice.top
    for theta in np.unique(np.geomspace(1, top, 6 * math.ceil(math.log2(top)) + 1).round()):
        cut = np.minimum(steps, theta)
        variance = topl.question(int(theta)).variance(2 * cut / theta - 1) * theta**2 / 4
        found = min(found, over_ranges((cut - steps) * step, variance * step**2))
    return found


def cell(
    name: str, fleet: int, epsilon: float, runs: int, told: bool
) -> tuple[float, float, float]:
    """(ratio to the best threshold, error of the total, that of the best), medians of runs."""
    values, bound = day(name, fleet)
    topl = tg.topl(epsilon, bound, fleet=fleet if told else None)
    least = best(topl, values)
    total = float(values.sum()) or 1.0
    ratios, totals = [], []
    for seed in range(runs):
        missed, noise = played(topl, values, seed)
        if missed.size < values.size - 1:
            ratios.append(math.inf)
            totals.append(math.inf)
            continue
        ratios.append(over_ranges(missed, noise) / least)
        totals.append(math.sqrt(missed.sum() ** 2 + noise.sum()) / total)
    return median(ratios), median(totals), max(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--made-up", action="store_true")
    parser.add_argument("--untold", action="store_true", help="the fleet's size is not given")
    parser.add_argument("--fleets", type=int, nargs="*", default=FLEETS)
    parser.add_argument("--epsilons", type=float, nargs="*", default=EPSILONS)
    options = parser.parse_args()
    names = list(_MADE_UP) if options.made_up else list(bounds())
    print("| fleet | ε | over the best θ | worst stream | total, relative error |")
    print("|---|---|---|---|---|")
    for fleet in options.fleets:
        for epsilon in options.epsilons:
            found = {
                name: cell(name, fleet, epsilon, options.runs, not options.untold) for name in names
            }
            ratio = geometric_mean(max(one[0], 1e-9) for one in found.values())
            worst = max(found, key=lambda name: found[name][0])
            total = median(one[1] for one in found.values())
            print(
                f"| {fleet:,} | {epsilon:g} | {ratio:.2f} | {worst} {found[worst][0]:.1f} "
                f"| {total:.1%} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
