"""PeGaSus on its own kind of stream, against its own baselines.

`python -m benchmarks.pegasus_figures [--runs 16] [--limits]`. People at an access point, counted
every five minutes: they come by day and stay for an hour. One person in one count is protected,
whatever the count: noise has the scale of 1, and nothing is cut. (No preset has that: there, a
value is protected as a whole.) Three points: hardly anybody, a few, a crowd. Errors are mean
absolute ones over those of plain noise with all of ε.

Smoothers of a count: none (the noisy count itself), the mean of its group so far, the median, and
the mean moved towards the count by one part in the size of the group (James-Stein). Sliding windows
are sums of medians of groups, as known when the window ends. Baselines: plain noise, means of the
last 10 or 100 noisy counts, and for windows a binary tree. Limits are in units of 1/ε_g; 40 is
that of `pegasus`. `--limits` compares others, on other seeds than the table has.
"""

from __future__ import annotations

import argparse
from bisect import insort
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

import tidegate as tg
from tidegate.methods._pegasus_groups import Grouping
from tidegate.methods.pegasus import GroupedValues
from tidegate.perturb.position_noise import PositionNoise

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PEOPLE = {"hardly anybody": 0.05, "a few": 2.0, "a crowd": 40.0}  # on average
EPSILONS = (Fraction(1, 100), Fraction(1, 10), Fraction(1))
WINDOWS = 16, 64, 256
STEPS = 1 << 15
_UNITS = 1000  # of a count: with whole counts, a scale of 1.25 would be rounded up to 2


def people(average: float, seed: int) -> Ints:
    """How many are there, step by step; 288 steps a day, 12 an hour, nobody comes by night."""
    random, present, found = np.random.default_rng(seed), 0, []
    day = np.maximum(0, np.sin(np.arange(STEPS) * np.pi / 144)) ** 2
    for coming in random.poisson(day * average / 12 / day.mean()):
        present += int(coming) - int(random.binomial(present, 1 / 12))
        found.append(present)
    return np.array(found)


def grouped(values: Ints, epsilon: Fraction, limit: Fraction, seed: int) -> tuple[Floats, Ints]:
    """Noisy counts of PeGaSus, and where its groups begin."""
    stage = GroupedValues(epsilon=epsilon, limit=limit, horizon=1 << 16)
    scales = stage.value_scale(_UNITS), stage.test_scale(_UNITS), stage.limit_scale(_UNITS)
    keystream = tg.seeded(seed).new_epoch().keystream("perturb", b"")
    noise = PositionNoise(keystream, dict(enumerate(scales)))
    values = values * _UNITS
    grouping = Grouping(stage.public_limit(_UNITS), stage.longest, int(values.max()) + 1)
    noisy, opens, at = values.astype(np.float64), [], 0
    while at < values.size:
        drawn, place = noise.at(at)
        here = slice(at, min(values.size, at + drawn[0].size - place))
        own, tests, limits = (kind[place : place + here.stop - at] for kind in drawn)
        noisy[here] += own
        opens += [at + one for one in grouping.opens(values[here], tests, limits)]
        at = here.stop
    return noisy / _UNITS, np.array(opens)


def smoothed(noisy: Floats, opens: Ints) -> dict[str, Floats]:
    """Every count by each smoother, from the counts of its group so far."""
    starts = set(opens.tolist())
    rows, members, total = [], list[float](), 0.0
    for place, number in enumerate(noisy.tolist()):
        if place in starts:
            members, total = [], 0.0
        insort(members, number)
        total += number
        half, odd = divmod(len(members), 2)
        middle = members[half] if odd else (members[half - 1] + members[half]) / 2
        mean = total / len(members)
        rows.append((number, mean, middle, mean + (number - mean) / len(members)))
    return dict(zip(("none", "mean", "median", "James-Stein"), np.array(rows).T, strict=True))


def windows(running: Floats, opens: Ints, width: int, ends: Ints) -> Floats:
    """Sums over the last values: medians of groups, of the open one as far as it is known."""
    edges = np.append(opens, running.size)
    sizes = np.diff(edges)
    before = _running(np.repeat(running[edges[1:] - 1], sizes))
    begun = opens[np.searchsorted(opens, ends - 1, side="right") - 1]  # the open group
    first = ends - width
    closed = np.where(begun > first, before[np.maximum(begun, first)] - before[first], 0.0)
    found: Floats = closed + running[ends - 1] * (ends - np.maximum(begun, first))
    return found


def _running(values: Floats) -> Floats:
    found: Floats = np.concatenate(([0.0], np.cumsum(values)))
    return found


def _noise(preset: object, epsilon: Fraction, seed: int) -> Floats:
    settings = {"holdout": 0, "resolution": Fraction(1, _UNITS), "horizon": STEPS}
    made: tg.Pipeline = preset(epsilon, 1, **settings)  # type: ignore[operator]
    found: Floats = made.start(tg.seeded(seed)).push(np.zeros(STEPS))
    return found


def _backward(noisy: Floats, last: int) -> Floats:
    running, ends = _running(noisy), np.arange(1, noisy.size + 1)
    starts = np.maximum(ends - last, 0)
    found: Floats = (running[ends] - running[starts]) / (ends - starts)
    return found


def measure(average: float, epsilon: Fraction, limit: Fraction, seed: int) -> dict[str, float]:
    """All errors of one run, over those of plain noise; steps that are told rightly."""
    values = people(average, seed)
    plain = values + _noise(tg.flat, epsilon, seed)
    noisy, opens = grouped(values, epsilon, limit, seed)
    counts = smoothed(noisy, opens)
    base = np.abs(plain - values).mean()
    found = {name: np.abs(one - values).mean() / base for name, one in counts.items()}
    for last in (10, 100):
        found[f"mean of {last}"] = np.abs(_backward(plain, last) - values).mean() / base
    true, own = _running(values.astype(np.float64)), _running(plain - values)
    tree = _running(_noise(tg.binary_tree, epsilon, seed))
    for width in WINDOWS:
        ends = np.arange(1024, STEPS, 7)
        sums = true[ends] - true[ends - width]
        base = np.abs(own[ends] - own[ends - width]).mean()
        mine = np.abs(windows(counts["median"], opens, width, ends) - sums).mean()
        found[f"window {width}"] = mine / base
        found[f"tree {width}"] = np.abs(tree[ends] - tree[ends - width]).mean() / base
    level = max(0.5, average)
    told = {"told": counts["median"], "told by plain noise": plain}
    found |= {name: ((one > level) == (values > level)).mean() for name, one in told.items()}
    return {**found, "group": STEPS / opens.size}


def _table(limits: list[Fraction], seeds: range) -> None:
    head: list[str] = []
    for name, average in PEOPLE.items():
        for epsilon in EPSILONS:
            for limit in limits:
                runs = [measure(average, epsilon, limit, seed) for seed in seeds]
                if not head:
                    head = list(runs[0])
                    print(f"| people | ε | limit | {' | '.join(head)} |")
                    print("|---" * (len(head) + 3) + "|")
                cells = [f"{np.mean([run[one] for run in runs]):.3g}" for one in head]
                row = [name, f"{float(epsilon):g}", str(limit), *cells]
                print(f"| {' | '.join(row)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=16)
    parser.add_argument("--limits", action="store_true")
    options = parser.parse_args()
    if options.limits:
        _table([Fraction(one) for one in (5, 10, 20, 40, 80)], range(100, 100 + options.runs))
    else:
        _table([Fraction(40)], range(options.runs))


if __name__ == "__main__":
    main()
