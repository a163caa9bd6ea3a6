"""PeGaSus on its own kind of stream: each kind of experiment of its paper, with its rivals.

`python -m benchmarks.pegasus_figures [counts] [windows] [monitoring] [hierarchy] [--runs 16]
[--limits]`. People are counted every five minutes, at made-up places (low, medium, high: 0.05, 2
and 40 people on average) and real ones (`pegasus_streams`). One person in one count is protected
(`pegasus_setting`). Errors are mean absolute ones over those of plain noise with all of ε. A limit
is in units of 1/ε_g: 5 is the published one, as the benchmark of Schäler, Hütter and Schäler (VLDB
2023) quotes it; 40 is that of `pegasus`.

counts      smoothers of single counts; means of the last 10 and 100 noisy counts, FAST, Budget
            Absorption, and zeros, which cost nothing.
windows     sums over the last 16, 256 and 4,096 counts: medians of groups; a tree made for that
            width alone.
monitoring  jump: the last 16 counts against the 16 before them (the largest tenth of differences,
            up or down); few: the sum of the last 16 (the lowest quarter); many: a single count
            above the stream's average. Area under the ROC over all limits, and true alarms at the
            limit at which 5 % of the other steps raise a false one.
hierarchy   64 places and all sums of their binary tree (`pegasus_hierarchy`).

At the end: in how many cells PeGaSus is ahead of each rival. `--limits` compares limits on other
seeds than the tables have.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from benchmarks import pegasus_hierarchy
from benchmarks.pegasus_setting import (
    Floats,
    absorbed,
    backward,
    filtered,
    group_windows,
    grouped,
    plain,
    roc,
    smoothed,
    window_tree,
    windows,
)
from benchmarks.pegasus_streams import PEOPLE, STEPS, Ints, names, stream

EPSILONS = (Fraction(1, 100), Fraction(1, 10), Fraction(1))
PUBLISHED, OURS = Fraction(5), Fraction(40)
WINDOWS = 16, 256, 4096
_WATCHED, _FALSE_ALARMS = 16, 0.05
_OTHER_SEEDS = 100  # from here on: those that `--limits` compares on
_PLACES, _STATIONS = "64 places", "64 bike stations"

Numbers = dict[str, float]  # by method, and what is asked: "method; what"
Measure = Callable[[str, Fraction, Sequence[Fraction], int], Numbers]
Part = Callable[[str, Fraction, int], Numbers]


def counts(name: str, epsilon: Fraction, limits: Sequence[Fraction], seed: int) -> Numbers:
    """Single counts, by each smoother and by rivals."""
    values = stream(name, seed)
    noisy = plain(values, epsilon, seed)
    released: dict[str, Floats] = {}
    for limit in limits:
        smoothers = smoothed(*grouped(values, epsilon, limit, seed))
        released |= {f"{one}, {limit}": kept for one, kept in smoothers.items() if one != "none"}
    released |= {f"mean of {last}": backward(noisy, last) for last in (10, 100)}
    released["FAST"] = filtered(values, epsilon, seed)
    released["BA"] = absorbed(values, epsilon, seed)
    released["zeros"] = np.zeros(values.size)
    base = np.abs(noisy - values).mean()
    found = {one: float(np.abs(kept - values).mean() / base) for one, kept in released.items()}
    return {**found, "plain noise": 1.0}


def sliding(name: str, epsilon: Fraction, limits: Sequence[Fraction], seed: int) -> Numbers:
    """Sums over sliding windows, as known when they end."""
    values = stream(name, seed)
    noisy, found = plain(values, epsilon, seed), {}
    groupings = {limit: _medians(values, epsilon, limit, seed) for limit in limits}
    for width in WINDOWS:
        ends = np.arange(max(WINDOWS), STEPS, 7)
        true = windows(values.astype(np.float64), width, ends)
        base = np.abs(windows(noisy, width, ends) - true).mean()
        answers = {
            f"median, {limit}": group_windows(*kept, width, ends)
            for limit, kept in groupings.items()
        }
        answers["tree"] = window_tree(values, width, epsilon, ends, seed)
        for one, answer in answers.items():
            found[f"{one}; {width}"] = float(np.abs(answer - true).mean() / base)
        found[f"plain noise; {width}"] = 1.0
    return found


def monitoring(name: str, epsilon: Fraction, limits: Sequence[Fraction], seed: int) -> Numbers:
    """Areas under the ROC, and true alarms where 5 % of other steps have a false one."""
    values = stream(name, seed)
    noisy, found = plain(values, epsilon, seed), {}
    groupings = {limit: _medians(values, epsilon, limit, seed) for limit in limits}

    def tree(at: Ints) -> Floats:
        return window_tree(values, _WATCHED, epsilon, at, seed)

    watched: dict[str, tuple[Floats, Callable[[Ints], Floats]]] = {
        f"median, {limit}": (kept[0], partial(group_windows, *kept, _WATCHED))
        for limit, kept in groupings.items()
    }
    watched |= {
        "plain noise": (noisy, partial(windows, noisy, _WATCHED)),
        "mean of 10": (backward(noisy, 10), partial(windows, backward(noisy, 10), _WATCHED)),
        "tree": (noisy, tree),  # of single counts it has none
    }
    floats = values.astype(np.float64)
    true = _scores(floats, partial(windows, floats, _WATCHED))
    # Where many are equal, all of them or none are events.
    events = {
        "jump": true["jump"] >= max(1.0, np.quantile(true["jump"], 0.9)),
        "few": true["few"] >= np.quantile(true["few"], 0.75),
        "many": true["many"] > max(0.5, values.mean()),
    }
    for one, answers in watched.items():
        for what, score in _scores(*answers).items():
            false, alarms, area = roc(score, events[what])
            found[f"{one}; {what}, area"] = area
            found[f"{one}; {what}, alarms"] = float(np.interp(_FALSE_ALARMS, false, alarms))
    return found


def _scores(single: Floats, window: Callable[[Ints], Floats]) -> dict[str, Floats]:
    """What is compared with a limit, at every step that has two whole windows before it."""
    ends = np.arange(2 * _WATCHED, STEPS)
    last, earlier = window(ends), window(ends - _WATCHED)
    return {"jump": np.abs(last - earlier), "few": -last, "many": single[ends - 1]}


def hierarchy(name: str, epsilon: Fraction, limits: Sequence[Fraction], seed: int) -> Numbers:
    """All nodes of a tree over 64 places (the mean over its levels), and the places alone."""
    found, made_up = {}, name == _PLACES
    for limit in limits:
        for one, error in pegasus_hierarchy.measure(made_up, epsilon, limit, seed).items():
            column, what = one.split("; ")
            ours = column in ("PeGaSus", "pruned")
            found[f"{column}, {limit}; {what}" if ours else one] = error
    return {**found, "plain noise; all nodes": 1.0, "plain noise; places": 1.0}


def _medians(values: Ints, epsilon: Fraction, limit: Fraction, seed: int) -> tuple[Floats, Ints]:
    noisy, opens = grouped(values, epsilon, limit, seed)
    return smoothed(noisy, opens)["median"], opens


def table(part: Part, streams: Sequence[str], seeds: range) -> list[Numbers]:
    """Print means over runs; give them, row by row."""
    rows: list[Numbers] = []
    for name in streams:
        for epsilon in EPSILONS:
            runs = [part(name, epsilon, seed) for seed in seeds]
            means: dict[str, Numbers] = defaultdict(dict)
            for cell in runs[0]:
                column, _, what = cell.partition("; ")
                means[what][column] = float(np.mean([run[cell] for run in runs]))
            for what, row in means.items():
                if not rows:
                    print(f"| stream | ε | what | {' | '.join(row)} |")
                    print("|---" * (len(row) + 3) + "|")
                cells = " | ".join(f"{one:.3g}" for one in row.values())
                print(f"| {name} | {float(epsilon):g} | {what} | {cells} |", flush=True)
                rows.append(row)
    return rows


def ahead(rows: list[Numbers], ours: str, limits: Sequence[Fraction], higher: bool) -> None:
    """Say in how many rows PeGaSus is ahead of each rival."""
    for limit in limits:
        mine = f"{ours}, {limit}"
        for rival in (one for one in rows[0] if not one.endswith(tuple(f", {x}" for x in limits))):
            won = sum((row[mine] > row[rival]) == higher for row in rows)
            print(f"limit {limit}: ahead of {rival} in {won} of {len(rows)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("parts", nargs="*", default=[*PARTS], help=", ".join(PARTS))
    parser.add_argument("--runs", type=int, default=16)
    parser.add_argument("--limits", action="store_true")
    options = parser.parse_args()
    limits: Sequence[Fraction] = (PUBLISHED, OURS)
    seeds = range(options.runs)
    streams = names()
    places = [_PLACES, _STATIONS][: 1 + (len(streams) > len(PEOPLE))]
    if options.limits:
        limits = tuple(map(Fraction, (5, 10, 20, 40, 80)))
        seeds = range(_OTHER_SEEDS, _OTHER_SEEDS + options.runs)
    for name in options.parts:
        measure, ours = PARTS[name]

        def part(one: str, epsilon: Fraction, seed: int, measure: Measure = measure) -> Numbers:
            return measure(one, epsilon, limits, seed)

        print(f"\n{name}: {measure.__doc__}\n")
        rows = table(part, places if name == "hierarchy" else streams, seeds)
        print()
        ahead(rows, ours, limits, higher=name == "monitoring")


PARTS: dict[str, tuple[Measure, str]] = {
    "counts": (counts, "median"),
    "windows": (sliding, "median"),
    "monitoring": (monitoring, "median"),
    "hierarchy": (hierarchy, "pruned"),
}

if __name__ == "__main__":
    main()
