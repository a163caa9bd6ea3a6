"""The privacy loss of tiny forests, exhaustively.

Two independent ways. (1) Change of variables: for every noise vector N of a box, the shifted
vector N − A·δ·e_t publishes the same on the neighbouring stream, bit for bit, and is at most e^ε
less likely, in exact fractions. (2) The law of what is published, summed up with rigorous tails.
"""

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

import tidegate as tg
from tidegate.perturb.forest_geometry import Forest

THETA = 2


def forest_of(stage, threshold=THETA):
    return stage.noise_law(threshold)


def tree(**settings):
    return tg.perturb.Hierarchy(**{"epsilon": "3/2", "skipped": 0, **settings})


STAGES = {
    "binary, 1 level": tree(fanout=2, horizon=2, levels=1),
    "binary, 2 levels": tree(fanout=2, horizon=2, levels=2),
    "binary, 2 levels, prefix": tree(fanout=2, horizon=2, levels=2, consistent=False),
    "binary, 2 trees": tree(fanout=2, horizon=4, levels=2),
    "binary, 2 trees, prefix": tree(fanout=2, horizon=4, levels=2, consistent=False),
    "binary, 3 levels": tree(fanout=2, horizon=4, levels=3),
    "binary, 3 levels, prefix": tree(fanout=2, horizon=4, levels=3, consistent=False),
    "binary, an unused leaf": tree(fanout=2, horizon=3, levels=2),
    "ternary, 1 level": tree(fanout=3, horizon=3, levels=1),
    "ternary, 2 levels": tree(fanout=3, horizon=3, levels=2),
    "ternary, 2 levels, prefix": tree(fanout=3, horizon=3, levels=2, consistent=False),
    "ternary, 3 levels": tree(fanout=3, horizon=9, levels=3),
    "ternary, 3 levels, prefix": tree(fanout=3, horizon=9, levels=3, consistent=False),
    "unequal shares": tree(fanout=2, horizon=4, shares=(3, 2, 1)),
    "unequal shares, prefix": tree(fanout=2, horizon=4, shares=(1, 5, "1/3"), consistent=False),
    "an awkward budget": tree(fanout=3, horizon=3, shares=(1, "1/7"), epsilon="0.7310585"),
    "flat": tg.perturb.Flat(epsilon="3/2", horizon=3),
}


def noise_vectors(nodes, budget=800):
    """Every vector of the largest box around 0 that the budget allows, or a sample of them."""
    reach = 1
    while (2 * (reach + 1) + 1) ** nodes <= budget and reach < 6:
        reach += 1
    if (2 * reach + 1) ** nodes <= budget:
        return itertools.product(range(-reach, reach + 1), repeat=nodes)
    rng = np.random.default_rng(4711)
    extremes = [(sign * 9,) * nodes for sign in (-1, 1)]  # attain the largest loss
    return itertools.chain(extremes, rng.integers(-4, 5, size=(budget // 3, nodes)).tolist())


def worst_loss(forest: Forest, incidence, enough: Fraction | None = None) -> Fraction:
    """The largest log-ratio over noise vectors, positions and changes; fails if an output moves.

    Where one beyond `enough` is all that is looked for, the first is given.
    """
    counts = [forest.grove_leaves // forest.fanout**level for level in range(forest.levels)]
    starts = np.concatenate(([0], np.cumsum(counts)))
    worst = Fraction(0)
    for index, vector in enumerate(noise_vectors(sum(counts))):
        flat = np.array(vector, dtype=np.int64)
        nodes = [flat[a:b] for a, b in itertools.pairwise(starts)]
        published, carry = forest.combine(nodes, 0.0)
        leaf = index % forest.leaves  # every leaf in turn: thousands of vectors per leaf
        for change in (-THETA, -1, 1, THETA):
            shifted = [level.copy() for level in nodes]
            loss = Fraction(0)
            for level, node in enumerate(incidence(forest.fanout, forest.levels, leaf)):
                shifted[level][node] -= change
                before, after = int(nodes[level][node]), int(shifted[level][node])
                loss += (abs(after) - abs(before)) / forest.scales[level]
            neighbour, other_carry = forest.combine(shifted, 0.0)
            neighbour[leaf] += change
            assert np.array_equal(published, neighbour)
            assert carry == other_carry
            worst = max(worst, loss)
        if enough is not None and worst > enough:
            break
    return worst


@pytest.mark.parametrize("name", STAGES)
def test_worst_loss_is_epsilon(tools, name):
    # Catches: any wrong scale, a level that is left out of the sum, a float that touches a value, a
    # rounding that depends on the data; and a budget that is not used.
    stage = STAGES[name]
    worst = worst_loss(forest_of(stage), tools.incidence)
    assert worst <= stage.guarantee.epsilon  # both are fractions: no tolerance
    assert worst > Fraction(9, 10) * stage.guarantee.epsilon
    assert stage.guarantee.epsilon == stage.epsilon


@pytest.mark.parametrize("name", [name for name in STAGES if "level" in name and "1" not in name])
def test_an_unaccounted_level_is_noticed(tools, plant_scales, name):
    # The planted fault: scales as if the forest had one level less.
    stage = STAGES[name]

    def forgetful(right, threshold, epsilon, shares):
        rest = sum(shares[1:])
        return (
            right(threshold, epsilon, shares)
            if not rest
            else tuple(right(threshold, epsilon / rest, (share,))[0] for share in shares)
        )

    plant_scales(forgetful)
    epsilon = stage.guarantee.epsilon
    assert worst_loss(forest_of(stage), tools.incidence, enough=epsilon) > epsilon


@pytest.mark.parametrize("factor", [Fraction(1, 2), Fraction(9, 10), Fraction(999_999, 1_000_000)])
def test_too_little_noise_is_noticed(tools, plant_scales, factor):
    # The planted fault: all scales too small, down to one part in a million.
    plant_scales(lambda right, *spent: tuple(scale * factor for scale in right(*spent)))
    stage = STAGES["binary, 2 levels"]
    epsilon = stage.guarantee.epsilon
    assert worst_loss(forest_of(stage), tools.incidence, enough=epsilon) > epsilon


# -- the law of what is published ---------------------------------------------------------------


def published_law(forest: Forest, pmf, reach: int):
    """P(published = y | true leaf sums x) as a function of y − x, for a forest of one tree.

    Summed over the residuals R of the inner nodes: given R, the leaf draws must be y − x − φ(R) and
    the inner draws R plus what lies below. Terms with some |R| > reach are left out.
    """
    fanout, levels = forest.fanout, forest.levels
    counts = [forest.tree_leaves // fanout**level for level in range(levels)]
    starts = np.concatenate(([0], np.cumsum(counts[1:])))
    table = np.array(list(itertools.product(range(-reach, reach + 1), repeat=sum(counts[1:]))))
    inner = [table[:, a:b] for a, b in itertools.pairwise(starts)]
    zero = np.zeros(counts[0], dtype=np.int64)
    phi = np.array(
        [
            forest.combine([zero, *(level[row] for level in inner)], 0.0)[0]
            for row in range(len(table))
        ]
    )

    @cache
    def law(*offset):
        leaves = np.asarray(offset) - phi  # one row per R
        mass = pmf(leaves, forest.scales[0]).prod(axis=1)
        below = leaves
        for level in range(1, levels):
            below = below.reshape(len(table), -1, fanout).sum(axis=2)
            mass = mass * pmf(inner[level - 1] + below, forest.scales[level]).prod(axis=1)
        return math.fsum(mass)

    return law


def left_out(forest: Forest, pmf, reach: int) -> float:
    """P(some |R| > reach), by convolution: bounds what the law above misses, for every output."""
    support = np.arange(-100, 101)
    total = 0.0
    for level in range(1, forest.levels):
        law = pmf(support, forest.scales[level])
        for _ in range(forest.fanout**level):
            law = np.convolve(law, pmf(support, forest.scales[0]))
        inside = np.abs(np.arange(law.size) - law.size // 2) <= reach
        total += forest.tree_leaves // forest.fanout**level * law[~inside].sum()
    return float(total)


@pytest.mark.parametrize(
    ("settings", "reach", "used"),
    [
        ({"fanout": 2, "horizon": 2, "levels": 2}, 60, 0.9),
        ({"fanout": 2, "horizon": 2, "levels": 2, "consistent": False}, 60, 0.9),
        ({"fanout": 3, "horizon": 3, "levels": 2}, 60, 0.9),
        ({"fanout": 2, "horizon": 2, "shares": (3, 1)}, 60, 0.9),
        # Outputs that come near ε are too rare here to be told from what is left out.
        ({"fanout": 2, "horizon": 4, "levels": 3, "epsilon": 6}, 8, 0.6),
    ],
)
@pytest.mark.parametrize("fault", [1, 2])
def test_the_loss_of_the_published_law(tools, settings, reach, used, fault):
    # What an observer of the output learns, at every output near the truth. Fault 2: half noise.
    stage = tree(**{"epsilon": 2, **settings})
    right = forest_of(stage, threshold=1)
    scales = tuple(scale / fault for scale in right.scales)
    forest = Forest(right.fanout, right.leaves, scales, right.consistent)
    law = published_law(forest, tools.laplace_pmf, reach)
    missing = left_out(forest, tools.laplace_pmf, reach)
    epsilon = float(stage.epsilon)
    width = range(-4, 5) if forest.tree_leaves == 2 else range(-1, 3)
    certain = possible = 0.0  # a loss that there is, and one that cannot be exceeded
    for offset in itertools.product(width, repeat=forest.tree_leaves):
        here, there = law(*offset), law(offset[0] - 1, *offset[1:])
        if min(here, there) > 100 * missing:
            certain = max(certain, math.log(max(here, there) / (min(here, there) + missing)))
            possible = max(possible, math.log((max(here, there) + missing) / min(here, there)))
    if fault == 1:
        assert used * epsilon < certain
        assert possible <= epsilon + 0.01
    else:
        assert certain > 1.05 * epsilon
