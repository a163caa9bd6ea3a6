"""How good are the thresholds that the default chooses one after the other? Without its noise.

Errors of single runs hardly tell two rules for θ apart: with the same thresholds two runs differ
tenfold. Here θ of every phase is drawn by the law of its choice (permute-and-flip takes the
candidate whose score plus exponential noise is largest), thousands of times a second. Truncation
is what these thresholds cut from the values, noise is T·θ²/ε² with more where a window pays; there
are no restarts, no climbs and no windows that open late. All rules are those of the source, so two
trees are compared by running this in both with the same seed (decision 0102).

    TIDEGATE_DATA=… python -m benchmarks.threshold_chains --runs 200

prints by stream and ε the error over that of the best fixed θ, and median thresholds.
"""

from __future__ import annotations

import argparse
import math
import zlib
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import tidegate as tg
from benchmarks.accuracy_adaptive import EPSILONS, HOLDOUT, HORIZON, bounds, stream
from tidegate.estimate.mixture.rescaled_run import LATE_TAKEN
from tidegate.lattice import Lattice
from tidegate.methods.adaptive import WARM_UP_TRUNCATED
from tidegate.perturb.adaptive.refinement_trees import refinement_block_length
from tidegate.run.refinement_schedule import WARM_SHARE, Refinement
from tidegate.run.selection_counts import facts_of_selection, stage_of_selection
from tidegate.stages import late_from
from tidegate.threshold import TailQuantile
from tidegate.threshold.least_threshold import least_threshold

TREE = 40.0  # T: 11 to 166 on the ten real streams
_PLACES = 1024  # at which the error of the running sum is computed
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Phases(NamedTuple):
    """Chains of thresholds: where phases begin, θ of each chain, the part of ε for sums."""

    starts: list[int]
    thresholds: list[Ints]
    parts: list[float]


def drawn(
    random: np.random.Generator, runs: int, stage: TailQuantile, above: Ints, lattice: Lattice,
    *facts: int | Fraction | None,
) -> Ints:  # fmt: skip
    """θ of so many choices from the same counts."""
    grid, scores, denominator = stage.scores(above, lattice, *facts)
    chances = scores * float(stage.epsilon / denominator)
    best = np.argmax(chances + random.exponential(size=(runs, grid.size)), axis=1)
    return np.array([stage.outcome(step, lattice) for step in grid])[best]


def chains(pipeline: tg.Pipeline, units: Ints, runs: int, random: np.random.Generator) -> Phases:
    """The thresholds of so many releases of these values, in lattice units."""
    refinement, lattice, horizon = pipeline.reselect, pipeline.lattice, pipeline.perturber.horizon
    assert isinstance(refinement, Refinement)
    epsilon, first = float(pipeline.perturber.epsilon), pipeline.warm_up
    stage, _ = stage_of_selection(pipeline, refinement, first, WARM_SHARE, age=first)
    least = least_threshold(stage, lattice)
    theta = drawn(
        random,
        runs,
        stage,
        stage.above(units[:first], lattice),
        lattice,
        least,
        None,
        1,
        None,
        True,
    )
    starts, thresholds, parts = [0], [theta], []
    at, evidence = first, int(16 * WARM_SHARE * first)
    while due := refinement.window(horizon, at=at, first=first, warm_up_start=0, evidence=evidence):
        values, share = due
        end, last = at, 0
        while end < at + values:
            last = refinement_block_length(horizon, end, end)
            end += last
        stage, _ = stage_of_selection(pipeline, refinement, values, share, age=end)
        above, block = stage.above(units[at:end], lattice), units[end - last : end]
        doubt = math.sqrt(2) / (float(1 - share) * epsilon * last)  # of the block's mean, in θ
        chosen, late = np.empty_like(theta), end > late_from(horizon)
        for before in np.unique(theta).tolist():
            same = theta == before
            surely = max(0.0, float(np.minimum(block, before).mean()) - 2 * doubt * before)
            known = math.floor(min(1.0, surely / before) * values)
            facts = facts_of_selection(stage, lattice, 1, before, known, False, surely, late)
            aims = stage if facts.late_price is None else stage.late
            chosen[same] = drawn(random, int(same.sum()), aims, above, lattice, *facts)
        theta = chosen
        starts.append(end)
        thresholds.append(theta)
        parts.append(float(1 - share))
        at, evidence = end, int(16 * share * values)
    return Phases(starts, thresholds, [*parts, 1.0])


class Stream:
    """What any θ cuts from a stream up to any place; scored from `begin` on."""

    def __init__(self, units: Ints, epsilon: float, begin: int = 0) -> None:
        self._epsilon, self._count, self._begin = epsilon, units.size, begin
        self._places = np.linspace(0, units.size, _PLACES + 1).astype(np.int64)
        self._units, self._known = units, dict[int, Floats]()

    def _cut(self, theta: int) -> Floats:
        """What θ takes from the running sum at each place, less what is added for it."""
        if theta not in self._known:
            sums = np.concatenate(([0.0], np.cumsum(np.maximum(self._units - theta, 0.0))))
            added = WARM_UP_TRUNCATED * theta / (self._epsilon * self._count)
            late = (LATE_TAKEN - 1) * np.maximum(0, self._places - late_from(self._count))
            self._known[theta] = sums[self._places] - added * (self._places + late)
        return self._known[theta]

    def errors(self, phases: Phases, tree: float = TREE) -> Floats:
        """The mean squared error over all ranges, by chain."""
        starts = [*phases.starts, self._count]
        scored = self._count - self._begin
        found = []
        for chain in np.stack(phases.thresholds, axis=1).tolist():
            steps, noise = np.zeros(_PLACES), 0.0
            for theta, part, *span in zip(chain, phases.parts, starts, starts[1:], strict=False):
                first, last = np.searchsorted(self._places, span).tolist()
                steps[first:last] = np.diff(self._cut(theta))[first:last]
                inside = max(0, span[1] - max(span[0], self._begin)) / scored
                noise += inside * (theta / (part * self._epsilon)) ** 2
            path = np.concatenate(([0.0], np.cumsum(steps)))[self._places >= self._begin]
            found.append(2 * float(path.var()) + tree * noise)
        return np.array(found)

    def best(self, tree: float = TREE) -> float:
        """The error of the best fixed θ."""
        highest = int(self._units.max())
        ladder = np.unique(np.geomspace(max(1, highest // 4096), highest, 60).astype(np.int64))
        alone = [Phases([0], [np.array([theta])], [1.0]) for theta in ladder.tolist()]
        return min(float(self.errors(one, tree)[0]) for one in alone)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", help="names of streams")
    parser.add_argument("--epsilons", type=float, nargs="*", default=list(EPSILONS))
    parser.add_argument("--tree", type=float, default=TREE, help="T")
    options = parser.parse_args()
    logs = []
    for name in [one for one in bounds() if not options.only or one in options.only]:
        values, _ = stream(name)
        for epsilon in options.epsilons:
            pipeline = tg.adaptive(epsilon, bounds()[name], horizon=HOLDOUT + HORIZON)
            units = pipeline.lattice.units(values.astype(np.float64))
            random = np.random.default_rng([options.seed, zlib.crc32(f"{name} {epsilon}".encode())])
            phases = chains(pipeline, units, options.runs, random)
            known = Stream(units, epsilon, HOLDOUT)
            errors = known.errors(phases, options.tree)
            ratio = float(errors.mean()) / known.best(options.tree)
            logs.append(math.log(ratio))
            doubt = errors.std() / errors.mean() / math.sqrt(options.runs)
            step = float(Fraction(pipeline.lattice.step))
            shown = " ".join(f"{np.median(theta) * step:.4g}" for theta in phases.thresholds)
            print(f"{name:28s} {epsilon:<5g} {ratio:6.2f} ± {doubt:3.0%}  {shown}", flush=True)
    print(f"geometric mean {math.exp(sum(logs) / len(logs)):.3f}")


if __name__ == "__main__":
    main()
