"""Hierarchical PeGaSus: counts at many places, in their quarters, and in all of them.

The nodes of a binary tree over the places are counted at every step. One person in one count adds 1
to one node on each of h levels. PeGaSus on every node has ε/h there. With pruning, most of the
small counts are never measured:

1. from the root down, a node whose count plus noise of scale (h − 1)/ε_t lies below β is pruned:
   everything below it is 0 in this step;
2. a node at depth i whose children are pruned has its own share ε_p/h and those of its descendants,
   h − i shares, for its noisy count; any other node that is measured has one share;
3. the grouper of a node sees the counts of the steps at which the node is measured, with ε_g/h.

**Privacy**: ε_t + ε_p + ε_g for one person in one count. Tests of one step meet the person on at
most h − 1 nodes. Given what was decided, the nodes on its path that are measured are those down to
some depth i, with i − 1 shares above and h − i + 1 at the last: h at the most. And each of the h
groupers sees one step's count by 1 higher, or not at all: given the decisions, which counts it sees
is the same for both streams, so its argument (`methods.pegasus`) holds.

It is a simulation: noise comes from numpy. The grouper is that of `pegasus`.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from benchmarks.pegasus_setting import Flags, Floats, backward, smoothed
from benchmarks.pegasus_streams import Ints, places
from tidegate.methods._pegasus_groups import PegasusGrouping

Seed = tuple[int, ...]

DEPTH = 7  # levels: 64 places at the last
STEPS = 1 << 12
_UNITS = 1000
_TESTS, _GROUPS = 0.1, 0.2  # parts of ε: for pruning; of the rest, for groups
_PRUNING, _PLAIN = 101, 102  # seeds of their own, not those of a depth
PRUNED_BELOW = 0.5  # β, in scales of the noise of a test; seed 100 chose among 0.5, 2 and 8


def nodes(made_up: bool, seed: int) -> list[Ints]:
    """Counts of all nodes, level by level."""
    levels = [places(made_up, 1 << DEPTH - 1, seed, STEPS)]
    while levels[0].shape[0] > 1:
        levels.insert(0, levels[0][::2] + levels[0][1::2])
    return levels


def pruned_shares(levels: list[Ints], epsilon: float, below: float, seed: int) -> list[Ints]:
    """How many shares of the perturber's ε each node has at each step; 0: it is not measured."""
    random, found = np.random.default_rng((seed, _PRUNING)), []
    scale = (DEPTH - 1) / epsilon
    alive: Flags = np.ones(levels[0].shape, dtype=np.bool_)
    for at, counts in enumerate(levels):
        last = at == DEPTH - 1
        noisy = counts + random.laplace(0, scale, size=counts.shape)
        pruned = alive & (noisy < below * scale) & (not last)
        found.append(alive.astype(np.int64) + pruned * (DEPTH - 1 - at))
        alive = np.repeat(alive & ~pruned, 2, axis=0)
    return found


def node(
    counts: Ints, shares: Ints, perturber: float, grouper: float, limit: Fraction, seed: Seed
) -> Floats:
    """One node's counts as published: medians of groups, and 0 where it is not measured."""
    random, seen = np.random.default_rng(seed), np.flatnonzero(shares)
    values, size = counts[seen], seen.size
    noise = random.laplace(0, 1, size=size) / (perturber * shares[seen])
    noisy: Floats = values.astype(np.float64) + noise
    public, most = int(float(limit) / grouper * _UNITS), int(counts.max() + 1) * _UNITS
    grouping = PegasusGrouping(public, 1 << 14, most)
    tests, limits = (
        np.rint(random.laplace(0, one * _UNITS / grouper, size=size)).astype(np.int64)
        for one in (8, 4)
    )
    opens = np.array(grouping.opens(values * _UNITS, tests, limits), dtype=np.int64)
    found = np.zeros(counts.size)
    if size:
        found[seen] = smoothed(noisy, opens)["median"]
    return found


def published(
    levels: list[Ints], epsilon: float, limit: Fraction, below: float | None, seed: int
) -> list[Floats]:
    """All nodes by PeGaSus; with `below`, pruned."""
    tests = 0.0 if below is None else _TESTS * epsilon
    groups = _GROUPS * (epsilon - tests)
    perturber = (epsilon - tests - groups) / DEPTH
    if below is None:
        shares = [np.ones(one.shape, dtype=np.int64) for one in levels]
    else:
        shares = pruned_shares(levels, tests, below, seed)
    return [
        np.array(
            [
                node(*pair, perturber, groups / DEPTH, limit, (seed, depth, at))
                for at, pair in enumerate(zip(counts, given, strict=True))
            ]
        )
        for depth, (counts, given) in enumerate(zip(levels, shares, strict=True))
    ]


def measure(
    made_up: bool, epsilon: Fraction, limit: Fraction, seed: int, below: float = PRUNED_BELOW
) -> dict[str, float]:
    """Mean errors of nodes over those of plain noise: of all, and of the last level."""
    levels, given = nodes(made_up, seed), float(epsilon)
    random = np.random.default_rng((seed, _PLAIN))
    noisy = [one + random.laplace(0, DEPTH / given, size=one.shape) for one in levels]
    means = [np.array([backward(node, 10) for node in one]) for one in noisy]
    rivals = {
        "mean of 10": means,
        "PeGaSus": published(levels, given, limit, None, seed),
        "pruned": published(levels, given, limit, below, seed),
        "zeros": [np.zeros(one.shape) for one in levels],
    }
    base = _errors(levels, noisy)
    found: dict[str, float] = {}
    for name, released in rivals.items():
        whole, places_only = _errors(levels, released) / base
        found |= {f"{name}; all nodes": whole, f"{name}; places": places_only}
    return found


def _errors(levels: list[Ints], released: list[Floats]) -> Floats:
    """Mean absolute errors: the mean over levels, and that of the last level."""
    errors = [np.abs(one - own).mean() for one, own in zip(released, levels, strict=True)]
    return np.array([np.mean(errors), errors[-1]])
