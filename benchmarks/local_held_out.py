"""The local default against published ToPL (SW-W chooses θ) on streams that nothing was chosen on.

`python -m benchmarks.local_held_out [--runs 5]`. Fares, tips and distances of green taxis in 2023
(`tables/taxi_trips.parquet` in TIDEGATE_DATA), and two made-up kinds: purchase amounts of two
scales, and waiting times with a cliff. A tenth is held out; the error of a run is that of
`benchmarks.local_accuracy`: over all ranges, averaged over the noise of reports. Cells are medians
of the published scheme (the better of its two objectives) over those of the default: above 1 the
default is better. A cell counts as worse only if the quartiles of the runs are apart.
"""

from __future__ import annotations

import argparse
import os
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import tidegate as tg
from benchmarks.local_accuracy import _expected
from benchmarks.timing import progress
from tidegate.local.mechanisms import hybrid, optimal

EPSILONS = (0.5, 1.0, 2.0)
_SCHEMES = ("adaptive", "published", "published-authors")
_COUNT = 200_000


def streams() -> dict[str, tuple[NDArray[np.int64], int]]:
    """Values and public bounds."""
    random = np.random.default_rng(20_261_117)
    small, large = random.lognormal(3, 0.8, _COUNT), random.lognormal(6, 0.6, _COUNT)
    amounts = np.where(random.random(_COUNT) < 0.02, large, small)
    waits = np.minimum(random.gamma(1.5, 120, _COUNT), 900)
    found = {
        "purchases of two scales (made up)": (amounts, 50_000),
        "waits with a cliff (made up)": (waits, 3600),
    }
    path = Path(os.environ.get("TIDEGATE_DATA", "")) / "tables" / "taxi_trips.parquet"
    if path.is_file():
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(path, columns=["fare", "tip", "distance_mi"])
        for name, bound in (("fare", 50_000), ("tip", 10_000), ("distance_mi", 10_000)):
            column = table.column(name).to_numpy().astype(np.float64) * 100
            found[f"taxi 2023, {name} × 100"] = (np.nan_to_num(column), bound)
    return {
        name: (np.rint(np.clip(values, 0, bound)).astype(np.int64), bound)
        for name, (values, bound) in found.items()
    }


def errors(
    values: NDArray[np.int64], bound: int, scheme: str, epsilon: float, runs: int
) -> tuple[NDArray[np.float64], float]:
    """Over all ranges, one for each run; and the median threshold."""
    holdout = values.size // 10
    made = tg.topl(epsilon, bound, holdout=holdout, horizon=values.size - holdout, scheme=scheme)
    found, thresholds = [], []
    for seed in range(runs):
        simulation = made.simulate(values[:-1], tg.seeded(seed))
        found.append(_expected(made, simulation, values[holdout:-1]))
        thresholds.append(simulation.threshold or np.nan)
    return np.array(found), float(np.median(thresholds))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    print("| stream | ε | default: error, θ | published over default | θ of published | worse |")
    print("|---|---|---|---|---|---|")
    for name, (values, bound) in streams().items():
        for epsilon in EPSILONS:
            progress(f"{name}, ε = {epsilon:g}")
            found = {
                scheme: errors(values, bound, scheme, epsilon, options.runs) for scheme in _SCHEMES
            }
            best = min(_SCHEMES[1:], key=lambda scheme: float(np.median(found[scheme][0])))
            (mine, own), (theirs, other) = found["adaptive"], found[best]
            apart = np.quantile(mine, 0.25) > np.quantile(theirs, 0.75)
            ratio = float(np.median(theirs) / np.median(mine))
            error = f"{np.sqrt(np.median(mine)):,.0f}, {own:,.0f}"
            cells = (name, f"{epsilon:g}", error, f"{ratio:.2f}", f"{other:,.0f}")
            print(f"| {' | '.join(cells)} | {'yes' if apart else 'no'} |", flush=True)
    print("\nVariance of a report by the default's table over the Hybrid Mechanism's, at its θ:\n")
    print("| stream | θ | ε = 2: mean, worst | ε = 3 | ε = 4 |\n|---|---|---|---|---|")
    for name, (values, bound) in streams().items():
        _, theta = errors(values, bound, "adaptive", 2.0, 1)
        cells = [_reports(values, round(theta), Fraction(epsilon)) for epsilon in (2, 3, 4)]
        print(f"| {name} | {theta:,.0f} | {' | '.join(cells)} |", flush=True)


def _reports(values: NDArray[np.int64], theta: int, epsilon: Fraction) -> str:
    """Over the values of the stream, and at the worst value there could be."""
    places = (2 * np.minimum(values, theta) / theta - 1, np.linspace(-1, 1, 401))
    mine, theirs = (make(theta, epsilon) for make in (optimal, hybrid))
    mean = mine.variance(places[0]).mean() / theirs.variance(places[0]).mean()
    worst = mine.variance(places[1]).max() / theirs.variance(places[1]).max()
    return f"{mean:.2f}, {worst:.2f}"


if __name__ == "__main__":
    main()
