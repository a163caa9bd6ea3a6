"""The setting of PeGaSus: its releases of counts, its smoothers, and its rivals.

One person in one count is protected, whatever the count: noise has the scale of 1, and nothing is
cut. A preset protects a value as a whole, with noise in proportion to θ/ε; with θ above every count
and ε·θ in place of ε it has the same noise as one person needs at ε. So the stages that run here
are those of the presets.
"""

from __future__ import annotations

from bisect import insort
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

import tidegate as tg
from benchmarks.pegasus_streams import STEPS, Ints
from tidegate.estimate.group_means import OPENS
from tidegate.methods.pegasus import GroupedValues, PegasusRun
from tidegate.units import Window

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_UNITS = 1000  # of a count: with whole counts, a scale of 1.25 would be rounded up to 2


def grouped(values: Ints, epsilon: Fraction, limit: Fraction, seed: int) -> tuple[Floats, Ints]:
    """Noisy counts of PeGaSus, and where its groups begin."""
    most = int(values.max()) + 1
    stage = GroupedValues(epsilon=epsilon * most, limit=limit, horizon=1 << 16)
    keystream = tg.seeded(seed).new_epoch().keystream("perturb", b"")
    released = PegasusRun(stage, most * _UNITS, most * _UNITS, keystream).push(values * _UNITS)
    return released.sums / _UNITS, np.flatnonzero(released.marks == OPENS)


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


def group_windows(running: Floats, opens: Ints, width: int, ends: Ints) -> Floats:
    """Sums of the last `width` counts: medians of groups, of the open one as far as it is known.

    `running` has the median of each group so far. A group that begins before the window counts
    with all of its members, and with as many values as lie in the window.
    """
    edges = np.append(opens, running.size)
    before = summed(np.repeat(running[edges[1:] - 1], np.diff(edges)))
    begun = opens[np.searchsorted(opens, ends - 1, side="right") - 1]  # the open group
    first = ends - width
    closed = np.where(begun > first, before[np.maximum(begun, first)] - before[first], 0.0)
    found: Floats = closed + running[ends - 1] * (ends - np.maximum(begun, first))
    return found


def summed(values: Floats) -> Floats:
    """Sums of the first 0, 1, 2, … values."""
    found: Floats = np.concatenate(([0.0], np.cumsum(values)))
    return found


def windows(values: Floats, width: int, ends: Ints) -> Floats:
    """Sums of the last `width` values."""
    running = summed(values)
    found: Floats = running[ends] - running[ends - width]
    return found


def plain(values: Ints, epsilon: Fraction, seed: int) -> Floats:
    """Counts with independent noise of scale 1/ε."""
    made = tg.flat(epsilon, 1, holdout=0, resolution=Fraction(1, _UNITS), horizon=STEPS)
    released: Floats = made.start(tg.seeded(seed)).push(np.zeros(STEPS))
    return released[: values.size] + values


def backward(noisy: Floats, last: int) -> Floats:
    """Means of the last noisy counts."""
    running, ends = summed(noisy), np.arange(1, noisy.size + 1)
    starts = np.maximum(ends - last, 0)
    found: Floats = (running[ends] - running[starts]) / (ends - starts)
    return found


def absorbed(values: Ints, epsilon: Fraction, seed: int) -> Floats:
    """Budget Absorption, for events: half of ε for the comparison, half for a new number."""
    most = int(values.max()) + 1
    made = tg.budget_absorption(
        epsilon * most, most, unit=Window(length=1), resolution=Fraction(1, _UNITS)
    )
    released: Floats = made.start(tg.seeded(seed)).push(values.astype(np.float64))
    return released


def filtered(values: Ints, epsilon: Fraction, seed: int) -> Floats:
    """FAST, for events: every measurement has all of ε; at most 15 % of the steps, as published."""
    most, samples = int(values.max()) + 1, 15 * STEPS // 100
    given, step = epsilon * most * samples, Fraction(1, _UNITS)
    made = tg.fast(given, most, horizon=STEPS, samples=samples, resolution=step)
    released: Floats = made.start(tg.seeded(seed)).push(values.astype(np.float64))
    return released


def window_tree(values: Ints, width: int, epsilon: Fraction, ends: Ints, seed: int) -> Floats:
    """Sums of the last `width` values from binary trees over blocks of `width`, a power of two.

    Made for one width: a window is the end of one block and the beginning of the next, of the
    fewest nodes. A value lies in 1 + log2(width) nodes, each with an even part of ε.
    """
    random, levels = np.random.default_rng((seed, width)), width.bit_length()
    scale = levels / float(epsilon)
    found = windows(values.astype(np.float64), width, ends)
    at, inside = ends // width, ends % width
    for level in range(levels):
        reach = 1 << level
        nodes = random.laplace(0, scale, size=(values.size // width + 1) * (width // reach))
        # The beginning of this block: bits of its length, the largest node first.
        head, tail = inside & reach > 0, (width - inside) & reach > 0
        start = at * width + inside // (2 * reach) * 2 * reach
        found[head] += nodes[start[head] // reach]
        # The end of the block before, the same from its other side.
        stop = at * width - (width - inside) // (2 * reach) * 2 * reach
        found[tail] += nodes[stop[tail] // reach - 1]
    return found


def roc(score: Floats, truth: Flags) -> tuple[Floats, Floats, float]:
    """False and true alarms over all limits of a score, and the area below that curve.

    Steps of one score raise the alarm together.
    """
    order = np.argsort(-score, kind="stable")
    last = np.flatnonzero(np.append(np.diff(score[order]) != 0, True))
    right, wrong = np.cumsum(truth[order])[last], np.cumsum(~truth[order])[last]
    true = np.concatenate(([0.0], right / right[-1]))
    false = np.concatenate(([0.0], wrong / wrong[-1]))
    return false, true, float(np.trapezoid(true, false))
