"""Relations that papers state, measured here: `python -m benchmarks.published_relations`.

Variances are of the noise alone, in θ²/ε², at a horizon of 2^20 values, each measured by itself:
from the laws of the noise, and by simulation of the same tree at 2^12 values against its law. The
order of w-event methods and PeGaSus are measured on streams of the kind that they were made for.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

import tidegate as tg
from benchmarks.noise_variances import (
    HORIZON,
    SCALE,
    cover,
    forest,
    mean_variance,
    of_method,
    random_ranges,
    running_sums,
    smallest_cover,
)
from benchmarks.table import Row, within
from tidegate.units import Window

_SMALL = 1 << 12


def measure(quick: bool = False) -> list[Row]:
    """All rows."""
    seeds = 60 if quick else 400
    rows = [*_trees(seeds), *_running_sums(), *_windows(3 if quick else 20)]
    return [*rows, *_pegasus(quick)]


def _trees(seeds: int) -> list[Row]:
    rows = []
    for name, fanout, levels, small, published in (
        ("binary", 2, 20, 12, 14_402),
        ("16-ary", 16, 5, 3, 3_180),
    ):
        found = mean_variance(smallest_cover(fanout, levels), random_ranges())
        draws = np.square(_covered(fanout, small, seeds)).mean()
        expected = (
            cover(fanout, small, random_ranges(400, _SMALL)).mean() * 2 * (small * SCALE) ** 2
        )
        note = f"smallest cover; simulated at 2^12 over its law: {draws / expected:.3f}"
        rows.append(within(f"{name} tree, random ranges", found, published, 0.03, note))
    for name, fanout, levels, small, published in (
        ("binary", 2, 20, 12, 2_976),
        ("16-ary", 16, 5, 3, 1_197),
    ):
        law = forest(fanout, levels, HORIZON, consistent=True)
        found = mean_variance(law.range_variance, random_ranges())
        note = f"simulated at 2^12 over its law: {_simulated(fanout, small, seeds):.3f}"
        rows.append(within(f"{name} tree, consistent, random ranges", found, published, 0.03, note))
    return rows


def _noise(seed: int) -> tg.randomness.Keystream:
    return tg.seeded(seed).new_epoch().keystream("perturb", b"")


def _simulated(fanout: int, levels: int, seeds: int) -> float:
    """Mean squared noise of random ranges over what the law says."""
    law = forest(fanout, levels, _SMALL, consistent=True)
    starts, ends = random_ranges(4000, _SMALL)
    squares = []
    for seed in range(seeds):
        noise, _ = law.combine(law.nodes(_noise(seed), 0, 0), 0.0)
        running = np.concatenate(([0], np.cumsum(noise[:_SMALL])))
        squares.append(np.square(running[ends] - running[starts]).mean())
    return float(np.mean(squares) / law.range_variance(starts, ends).mean())


def _covered(fanout: int, levels: int, seeds: int) -> NDArray[np.float64]:
    """The noise of the smallest covers of 400 ranges, node by node."""
    law = forest(fanout, levels, _SMALL, consistent=False)
    starts, stops = random_ranges(400, _SMALL)
    found = []
    for seed in range(seeds):
        sums = [np.concatenate(([0], np.cumsum(level))) for level in law.nodes(_noise(seed), 0, 0)]
        total = np.zeros(starts.size)
        low, high, done = starts.copy(), stops.copy(), starts == stops
        for level, running in enumerate(sums):
            last = (low // fanout == high // fanout) | (level == levels - 1)
            left = np.minimum(-(-low // fanout) * fanout, running.size - 1)
            sides = running[left] - running[low] + running[high] - running[high // fanout * fanout]
            total += np.where(done, 0, np.where(last, running[high] - running[low], sides))
            done = done | last
            low, high = -(-low // fanout), high // fanout
        found.append(total)
    return np.array(found)


def _running_sums() -> list[Row]:
    honaker, signed = (
        mean_variance(of_method(make), running_sums())
        for make in (tg.honaker, tg.signed_digit_tree)
    )
    rows = [
        within("Honaker over signed digits, running sums", honaker / signed, 4.0, 0.1,
               f"{honaker:,.0f} and {signed:,.0f}")
    ]  # fmt: skip
    starts, stops = random_ranges(20_000, _SMALL)  # both at the ends of blocks of 256 values
    tree = forest(16, 5, HORIZON, consistent=True).range_variance(starts * 256, stops * 256)
    for delta, published in (("1e-6", 2.0), ("1e-9", 1.0)):
        root = tg.square_root(
            1, SCALE, delta=delta, horizon=HORIZON, holdout=0, resolution=1
        ).perturber
        ratio = tree.mean() / root.noise_law(SCALE).range_variance(starts, stops).mean()
        name = f"consistent 16-ary tree over square root, random ranges, δ = {delta}"
        note = "another promise: here for the relation only"
        rows.append(within(name, float(ratio), published, 0.2, note))
    return rows


def _windows(runs: int) -> list[Row]:
    """Kellaris et al.: BA before BD before Uniform where the stream seldom changes."""
    values = np.repeat([3, 27, 12], 120)
    made = {
        "absorption": tg.budget_absorption(100, 30, unit=Window(length=20), resolution=1),
        "distribution": tg.budget_distribution(100, 30, unit=Window(length=20), resolution=1),
        "uniform": tg.sampling(100, 30, unit=Window(length=20), resolution=1, every=1),
    }
    off = {
        name: fmean(
            float(np.abs(pipeline.start(tg.seeded(seed)).push(values) - values).mean())
            for seed in range(runs)
        )
        for name, pipeline in made.items()
    }
    note = ", ".join(f"{name} {error:.2f}" for name, error in off.items()) + " (mean error)"
    ordered = off["absorption"] <= off["distribution"] <= off["uniform"]
    return [
        within("BA ≤ BD ≤ Uniform, three levels, w = 20, ε = 100", float(ordered), 1.0, 0, note)
    ]


_TASKS = "counts", "windows of 16", "windows of 256", "windows of 256, asked as ranges"
_BACKWARD = 10, 100, 1000  # counts that backward smoothing takes the mean of
_UNITS = 1000  # of a count: with whole counts, a scale of 1.25 would be rounded up to 2


def _pegasus(quick: bool) -> list[Row]:
    """Counts of 0 or 1 that stay for 100 to 900 steps: errors over those of the paper's rivals.

    The paper's tasks: single counts, sums over sliding windows, and monitoring, which asks at each
    step whether the count is above a level. It has a smoother for each kind of query: sums of what
    is published are one, and what the release answers when the window ends is another. Rivals are
    plain noise and means of the last 10, 100 or 1,000 plain counts. It states lower errors than
    others have, and no number in what is at hand. `pegasus_figures` has the paper's own setting.
    """
    random, rows = np.random.default_rng(11), []
    runs = range(2 if quick else 8)
    for name, busy in (("one in 50", 0.02), ("half", 0.5)):
        stays = random.integers(100, 900, 200)
        values = np.repeat((random.random(200) < busy).astype(np.int64), stays)[:16_384]
        for epsilon in (0.1, 1.0):
            settings = {"holdout": 0, "resolution": Fraction(1, _UNITS)}
            mine, plain = (
                np.mean([_of_tasks(make(epsilon, 1, **settings), values, run) for run in runs], 0)
                for make in (partial(tg.pegasus, medians=True), tg.flat)
            )
            counts = [tg.flat(epsilon, 1, **settings).start(tg.seeded(run)) for run in runs]
            noisy = [one.push(values) for one in counts]
            smoothed = [
                fmean(_errors(_backward(one, last), values)[0] for one in noisy)
                for last in _BACKWARD
            ]
            case = f"{name} busy, ε = {epsilon:g}"
            for task, one, other in zip(_TASKS, mine, plain, strict=False):
                note = f"{one:.3g} and {other:.3g}, mean errors"
                rows.append(
                    Row(f"PeGaSus over plain noise, {task}, {case}", one / other, note=note)
                )
            row = f"PeGaSus over the best backward mean, counts, {case}"
            note = _over_each(mine[0] / np.array(smoothed))
            rows.append(Row(row, mine[0] / min(smoothed), note=note))
            note = f"steps that are told rightly; by plain noise {plain[-1]:.3f}"
            rows.append(Row(f"PeGaSus, monitoring, {case}", mine[-1], note=note))
    return rows


def _of_tasks(made: tg.Pipeline, values: NDArray[np.int64], seed: int) -> list[float]:
    """Mean errors of counts and of windows; the share of steps that are told rightly."""
    release, window, parts, asked = made.start(tg.seeded(seed)), 256, [], []
    for start in range(0, values.size, window // 4):
        parts.append(release.push(values[start : start + window // 4]))
        if (end := start + window // 4) >= window:
            true = values[end - window : end].sum()
            asked.append(abs(release.query(end - window, end).estimate - true))
    released = np.concatenate(parts)
    told = float(((released > 0.5) == (values > 0.5)).mean())
    return [*_errors(released, values), fmean(asked), told]


def _errors(released: NDArray[np.float64], values: NDArray[np.int64]) -> list[float]:
    """Mean errors of sums of 1, 16 and 256 values."""
    misses = np.concatenate(([0.0], np.cumsum(released - values)))
    return [float(np.abs(misses[w:] - misses[:-w]).mean()) for w in (1, 16, 256)]


def _backward(noisy: NDArray[np.float64], last: int) -> NDArray[np.float64]:
    """The mean of the last counts, at each step."""
    running = np.concatenate(([0.0], np.cumsum(noisy)))
    ends = np.arange(1, noisy.size + 1)
    starts = np.maximum(ends - last, 0)
    means: NDArray[np.float64] = (running[ends] - running[starts]) / (ends - starts)
    return means


def _over_each(ratios: NDArray[np.float64]) -> str:
    """Over backward means of each length."""
    each = zip(_BACKWARD, ratios, strict=True)
    return "over means of the last " + ", ".join(f"{last}: {ratio:.2f}" for last, ratio in each)


if __name__ == "__main__":
    import sys

    from benchmarks.table import show

    show("published relations", measure("--quick" in sys.argv))
