"""Which rule should choose θ? Candidates, compared without releasing anything.

`python -m benchmarks.threshold_rules`. For every stream and ε the error of a release with threshold
θ is put at bias(θ) + T·(θ/ε)²: bias is exact (2·Var over t of what truncation took from the prefix
sum, less the allowance for it), T = 57 the noise of a middling tree. A rule is judged by its
expected error over that of the best θ, which no private rule can know. 1 is perfect; the table
shows the geometric mean over streams, and the worst stream.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from benchmarks import accuracy_adaptive as real
from benchmarks.kinds import KINDS, Values

HOLDOUT, HORIZON = 65_536, 2**20
_TREE = 57.0
_DRAWS = 400
Floats = NDArray[np.float64]
Rule = Callable[[Values, int, float, np.random.Generator], Floats]


def _grid(bound: int, ratio: float) -> Floats:
    count = int(math.log(bound) / math.log(ratio)) + 1
    return np.unique(np.rint(bound ** (np.arange(count + 1) / count)))


def _noisy_best(scores: Floats, epsilon: float, random: np.random.Generator) -> NDArray[np.intp]:
    """Permute-and-flip has the law of the best score after exponential noise is added."""
    noise = random.exponential(1 / epsilon, size=(_DRAWS, scores.shape[-1]))
    return np.argmax(scores + noise, axis=1)


def logarithmic(price: float, ratio: float, near: float = 0.0) -> Rule:
    """−#{above θ} − price/ε·ln θ; values less than `near`·θ above it count in part.

    `ScaleFree` is (7, 1.25, 1/16), if its hold-out is not long.
    """

    def rule(held: Values, bound: int, epsilon: float, random: np.random.Generator) -> Floats:
        grid = _grid(bound, ratio)
        above = [_counted(held[held > theta] / theta - 1, near) for theta in grid]
        scores = -np.array(above) - price / epsilon * np.log(grid)
        return grid[_noisy_best(scores, epsilon, random)]

    return rule


def _counted(excess: Floats, near: float) -> float:
    return float(np.minimum(excess / near, 1.0).sum()) if near else float(excess.size)


def in_two_steps(price: float, slope: float, ratio: float) -> Rule:
    """The first half of the hold-out finds the scale by (7, 1.25); the second chooses θ near it.

    Disjoint values, so each step has all of ε. The second price is slope/ε·θ/scale: linear, so that
    far too large thresholds are much less likely.
    """

    def rule(held: Values, bound: int, epsilon: float, random: np.random.Generator) -> Floats:
        half = held.size // 2
        scales = logarithmic(price, 1.25)(held[:half], bound, epsilon, random)
        grid = _grid(bound, ratio)
        above = half - np.searchsorted(np.sort(held[half:]), grid, side="right")
        scores = -above - slope / epsilon * grid / scales[:, np.newaxis]
        return grid[_noisy_best(scores, epsilon, random)]

    return rule


def reselected(price: float, ratio: float, share: float) -> Rule:
    """A sliver of the stream's ε chooses again from 16 times as many values; the noise grows."""

    def rule(held: Values, bound: int, epsilon: float, random: np.random.Generator) -> Floats:
        grid = _grid(bound, ratio)
        above = held.size - np.searchsorted(np.sort(held), grid, side="right")
        sliver = share * epsilon
        scores = -16.0 * above - 16 * price / epsilon * np.log(grid)
        return grid[_noisy_best(scores, sliver, random)] / (1 - share)

    return rule


def counted(price: float, ratio: float, share: float) -> Rule:
    """A sliver of the stream's ε buys a histogram of every block; θ follows from its tail.

    A value lies in one bin of one block, so every bin gets Laplace noise 1/(share·ε), 16 times.
    """

    def rule(held: Values, bound: int, epsilon: float, random: np.random.Generator) -> Floats:
        grid = _grid(bound, ratio)
        above = held.size - np.searchsorted(np.sort(held), grid, side="right")
        noise = random.laplace(0, 1 / (share * epsilon), size=(_DRAWS, 16, grid.size)).sum(axis=1)
        tails = 16.0 * above + noise[:, ::-1].cumsum(axis=1)[:, ::-1]
        chosen = grid[np.argmax(-tails - 16 * price / epsilon * np.log(grid), axis=1)]
        return chosen / (1 - share)

    return rule


RULES: dict[str, Rule] = {
    "7 ln θ, ratio 1.25, in part to 1/16 (ScaleFree)": logarithmic(7, 1.25, 1 / 16),
    "the same, in part to 1/8": logarithmic(7, 1.25, 1 / 8),
    "the same, in part to 1/5": logarithmic(7, 1.25, 1 / 5),
    "7 ln θ, ratio 1.25, all in full": logarithmic(7, 1.25),
    "7 ln θ, ratio 1.1": logarithmic(7, 1.1),
    "7 ln θ, ratio 1.05": logarithmic(7, 1.05),
    "5 ln θ, ratio 1.1": logarithmic(5, 1.1),
    "9 ln θ, ratio 1.1": logarithmic(9, 1.1),
    "12 ln θ, ratio 1.1": logarithmic(12, 1.1),
    "two halves, 7 θ/scale": in_two_steps(7, 7, 1.1),
    "two halves, 12 θ/scale": in_two_steps(7, 12, 1.1),
    "chosen again from 16x, 5 % of ε": reselected(7, 1.1, 0.05),
    "chosen again from 16x, 10 % of ε": reselected(7, 1.1, 0.1),
    "histograms of 16 blocks, 5 % of ε": counted(7, 1.25, 0.05),
    "histograms of 16 blocks, 10 % of ε": counted(7, 1.25, 0.1),
}


def errors(values: Values, epsilon: float, grid: Floats) -> Floats:
    """The expected error of a release with each θ of the grid."""
    stream = values[HOLDOUT:].astype(np.float64)
    found = []
    for theta in grid:
        taken = np.cumsum(np.maximum(stream - theta, 0) - 0.2 * theta / (epsilon * HOLDOUT))
        found.append(2 * taken.var() + _TREE * (theta / epsilon) ** 2)
    return np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilons", type=float, nargs="*", default=[0.01, 0.1, 1.0])
    options = parser.parse_args()
    streams = {name: kind(HOLDOUT + HORIZON) for name, kind in KINDS.items()}
    if os.environ.get("TIDEGATE_DATA"):
        streams |= {name: (real.stream(name)[0], bound) for name, bound in real.bounds().items()}
    # What the hold-out does not show, no rule can know: these would drown the others.
    unknowable = (
        "calm hold-out", "growing tail", "late tail", "long zeros", "all zero", "steep ramp",
        "walk", "level up twofold", "level up tenfold", "ramp", "bursts", "short bursts",
        "slow swings",
    )  # fmt: skip
    streams = {name: stream for name, stream in streams.items() if name not in unknowable}
    found: dict[tuple[str, float], dict[str, float]] = {}
    for name, (values, bound) in streams.items():
        fine = _grid(bound, 1.05)
        for epsilon in options.epsilons:
            cost = np.log(errors(values, epsilon, fine))
            best = cost.min()
            for label, rule in RULES.items():
                random = np.random.default_rng(1)
                chosen = np.clip(rule(values[:HOLDOUT], bound, epsilon, random), 1, bound)
                spent = np.exp(np.interp(np.log(chosen), np.log(fine), cost) - best)
                found.setdefault((label, epsilon), {})[name] = float(spent.mean())
    print("Expected error over that of the best θ: geometric mean, and the worst stream.")
    for label in RULES:
        cells = []
        for epsilon in options.epsilons:
            ratios = found[label, epsilon]
            mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
            worst = max(ratios, key=lambda name: ratios[name])
            cells.append(f"ε={epsilon:g}: {mean:5.2f}  {ratios[worst]:6.1f} {worst:24s}")
        print(f"{label:47s} " + " ".join(cells))


if __name__ == "__main__":
    main()
