"""Noise at the claimed scale (and not 30 % off), an audit, and the scale-free threshold."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.privacy.scores import check_scores
from tidegate.lattice import Lattice
from tidegate.noise import discrete_laplace_variance, permute_and_flip
from tidegate.perturb.adaptive.adaptive_trees import AdaptiveTrees
from tidegate.perturb.adaptive.tree_shapes import (
    RANGE_ERROR,
    all_trees,
    cap_factor_of_shape,
    shares_of_tree_levels,
)
from tidegate.perturb.level_scales import level_scales

THETA = 40


def keystream(seed: int) -> Any:
    return tg.seeded(seed).new_epoch().keystream("perturb", b"")


@pytest.mark.parametrize("shape", RANGE_ERROR)
def test_node_noise_has_the_claimed_scale(shape: tuple[int, ...]) -> None:
    """Passes at the scale of the argument, and would fail at 30 % more or less."""
    stage = AdaptiveTrees(epsilon="1/4", horizon=2000, nodes=shape)
    draws: list[list[int]] = [[] for _ in shape]
    tree = stage.layouts(2000, THETA, THETA)[0]
    run = stage.start(THETA, THETA, keystream(1))
    for chunk in range(400):
        run.chunk = chunk
        for number in range(3):
            run.number = number
            for kept, noise in zip(draws, run.nodes(tree), strict=True):
                kept.extend(noise.tolist())
    for level, noise in enumerate(draws):
        claimed = float(tree.cap / (shares_of_tree_levels(shape)[level] * stage.epsilon))
        assert float(tree.scales[level]) == pytest.approx(claimed, rel=1e-5)
        found = float(np.abs(noise).mean())  # of a Laplace variable: its scale
        assert abs(found / claimed - 1) < 0.15
        assert abs(found / (1.3 * claimed) - 1) > 0.1
        assert abs(found / (0.7 * claimed) - 1) > 0.1


@pytest.mark.parametrize("threshold", [1, 2, 3, 77, 512, 1537, 10**6 + 1, 2**40 + 3])
@pytest.mark.parametrize("epsilon", ["1/100", "0.7", "3", "22/7"])
def test_every_tree_spends_epsilon_and_not_more(threshold: int, epsilon: str) -> None:
    """Caps and scales are made in integers; here they are checked in exact fractions."""
    exact = Fraction(epsilon)
    trees = all_trees(tuple(RANGE_ERROR), exact, 64, threshold, 300 * threshold)
    for tree in trees:
        spent = sum(tree.cap / scale for scale in tree.scales)
        assert exact * (1 - Fraction(1, 10**5)) <= spent <= exact
        assert tree.cap == max(1, round(threshold * cap_factor_of_shape(tree.nodes, tree.cap_step)))
    assert len(trees) > 16 * len(RANGE_ERROR)


def test_levels_that_would_overspend_are_refused() -> None:
    with pytest.raises(AssertionError, match="overspend"):
        level_scales(10, Fraction(1), (Fraction(2, 3), Fraction(2, 3)))


def test_the_published_sum_of_a_block_has_the_noise_of_its_tree() -> None:
    stage = AdaptiveTrees(epsilon="1/4", horizon=100, nodes=(1,))
    tree = stage.layouts(100, THETA, THETA)[0]
    sums = []
    for seed in range(1500):
        run = stage.start(THETA, THETA, keystream(seed))
        run.begin(0)
        length = run.options[0].length
        sums.append(run.push(np.ones(length, dtype=np.int64)).sums[0] - length)
    assert np.var(sums) / discrete_laplace_variance(tree.scales[0]) == pytest.approx(1, abs=0.25)


@pytest.mark.parametrize("nodes", [None, (1, 8)])
def test_audit_on_a_short_stream(nodes: tuple[int, ...] | None) -> None:
    """The most telling event about one value: at most e^ε times as likely, and not as likely.

    Of a tree with one level the leaf alone is the most telling: 30 % less noise is seen. With two
    levels, which consistency mixes, a loss of 1.7 ε is.
    """
    epsilon, runs = 1.0, 1500
    pipeline = tg.Pipeline(
        threshold=tg.threshold.Fixed(4),
        perturber=AdaptiveTrees(epsilon=epsilon, horizon=40, nodes=nodes),
        estimator=tg.estimate.Mixture(),
    )
    length = pipeline.perturber.lengths(0)[0]
    options = pipeline.perturber.layouts(length, 4, pipeline.ceiling)
    choice = options.index(pipeline.start(tg.seeded(0)).record.segments[0].layouts[0])
    values = np.full(40, 2)
    sums: list[list[float]] = [[], []]
    for world in (0, 1):
        values[3] = 4 * world
        for seed in range(runs):
            # The first tree: what comes later is drawn apart. It is chosen before anything is seen.
            epoch = tg.seeded(2 * seed + world).new_epoch()
            words = epoch.keystream("perturb", pipeline.noise_identity(4))
            run = pipeline.perturber.start(4, pipeline.ceiling, words)
            first = run.options[choice]
            run.begin(choice)
            released = run.push(values[:length]).sums
            if seed < 50:  # what a whole release does: the same tree, the same sums
                release = pipeline.start(tg.seeded(2 * seed + world))
                release.push(values[:length])
                course = release.record.segments[0]
                assert course.layouts[0] == first
                assert course.released.tolist() == released.tolist()
            leaf = next(k for k in range(first.leaves) if first.edge(k + 1) > 3)
            others = released.sum() if len(first.nodes) > 1 else 0
            sums[world].append(float(released[leaf] + others))
    assert length >= 8
    losses = []
    for cut in range(int(np.median(sums[0])), int(np.median(sums[0])) + 25):
        one, two = ((np.array(world) >= cut).mean() for world in sums)
        if min(one, two) > 0.02:
            # Three standard errors on both sides: no false alarm.
            low = math.log(two) - 3 * math.sqrt((1 - two) / (two * runs))
            losses.append(low - math.log(one) - 3 * math.sqrt((1 - one) / (one * runs)))
    assert max(losses) <= epsilon
    assert max(losses) > 0.2  # the audit has power


def test_other_settings_and_thresholds_have_other_noise() -> None:
    """The identity digest covers θ, ε, horizon and the trees."""
    values = np.full(200, 3)
    base = {"epsilon": 1, "bound": 100, "horizon": 128, "holdout": 20}
    outs = set()
    for change in ({}, {"epsilon": 2}, {"horizon": 129}, {"nodes": (1,)}, {"bound": 101}):
        release = tg.adaptive(**{**base, **change}).start(tg.seeded(3))
        release.push(values)
        outs.add(tuple(release.record.segments[0].released[:3].tolist()))
    assert len(outs) == 5


# -- the scale-free threshold ------------------------------------------------------------------


def test_candidates_are_geometric_and_end_at_the_bound() -> None:
    stage = tg.threshold.ScaleFree(epsilon="1/10", bound=10**6)
    grid = stage.candidates(Lattice(Fraction(10**6), Fraction(1)))
    assert grid[0] == 1
    assert grid[-1] == 10**6
    assert (np.diff(grid) > 0).all()
    assert grid.size < 70
    large = grid[grid > 50]
    np.testing.assert_allclose((large[1:] / large[:-1])[:-1], 1.25, rtol=0.02)
    alone = stage.candidates(Lattice(Fraction(1), Fraction(1)))
    assert alone.tolist() == [1]


def test_scores_are_monotone_with_sensitivity_one() -> None:
    lattice = Lattice(Fraction(200), Fraction(1))
    stage = tg.threshold.ScaleFree(epsilon="1/3", bound=200, holdout=50)
    check_scores(lambda values: stage.scores(values, lattice), rounds=200)


@pytest.mark.parametrize("bound", [200, 2**52])
def test_a_value_hardly_above_counts_in_part(bound: int) -> None:
    """Against fractions, value by value."""
    lattice = Lattice(Fraction(bound), Fraction(1))
    stage = tg.threshold.ScaleFree(epsilon="1/3", bound=bound, holdout=50)
    values = np.random.default_rng(1).integers(0, bound + 1, size=50)
    grid, scores, denominator = stage.scores(values, lattice)
    public = stage.scores(np.zeros(50, dtype=np.int64), lattice)[1]
    for theta, part in zip(grid.tolist(), (public - scores).tolist(), strict=True):
        terms = [
            min(Fraction(1), 16 * max(Fraction(v - theta, theta), Fraction(0)))
            for v in values.tolist()
        ]
        expected = sum(Fraction(math.floor(256 * term), 256) for term in terms)
        assert Fraction(part, denominator) == expected


@pytest.mark.parametrize("unit", [Fraction(1, 1000), Fraction(7), Fraction(10**6)])
def test_the_choice_is_free_of_the_unit(unit: Fraction) -> None:
    """The same data in another unit, with the resolution along: the same scores, bit for bit."""
    values = np.random.default_rng(2).geometric(0.05, size=5000)
    plain, other = Lattice(Fraction(500), Fraction(1)), Lattice(500 * unit, unit)
    stage = tg.threshold.ScaleFree(epsilon="1/5", bound=500, holdout=5000)
    scaled = tg.threshold.ScaleFree(epsilon="1/5", bound=500 * unit, holdout=5000)
    expected = stage.scores(values, plain)
    found = scaled.scores(other.units(other.numbers(values * float(unit))), other)
    for one, two in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, two)


def test_the_choice_hardly_depends_on_the_resolution() -> None:
    """A lattice ten times as fine, or a bound ten times as high: the same θ within 6 %, on average.

    A rule with a constant in the unit of the data (NM-E has 60) would move by much more.
    """
    values = np.random.default_rng(2).geometric(0.05, size=5000)
    means = []
    for bound, finer in ((500, 1), (500, 10), (5000, 1)):
        lattice = Lattice(Fraction(bound), Fraction(1, finer))
        stage = tg.threshold.ScaleFree(epsilon="1/5", bound=bound, holdout=5000)
        grid, scores, denominator = stage.scores(values * finer, lattice)
        chosen = [
            permute_and_flip(keystream(seed).at(), scores, stage.epsilon / denominator)
            for seed in range(300)
        ]
        means.append(np.exp(np.log(grid[chosen] / finer).mean()))
    np.testing.assert_allclose(means[1:], means[0], rtol=0.06)


def test_permute_and_flip_gives_the_exact_law() -> None:
    """Every single coin is exact, so frequencies match the exponential weights' ordering."""
    stage = tg.threshold.ScaleFree(epsilon=2, bound=3, holdout=4)
    lattice = Lattice(Fraction(3), Fraction(1))
    values = np.array([1, 2, 2, 3])
    grid, scores, denominator = stage.scores(values, lattice)
    counts = dict.fromkeys(grid.tolist(), 0)
    for seed in range(3000):
        counts[stage.choose(values, lattice, keystream(seed))] += 1
    # Permute-and-flip by enumeration over the six orders.
    from itertools import permutations

    accept = [math.exp(2 * (score - scores.max()) / denominator) for score in scores.tolist()]
    law = [0.0] * len(accept)
    for order in permutations(range(len(accept))):
        left = 1 / math.factorial(len(accept))
        for index in order:
            law[index] += left * accept[index]
            left *= 1 - accept[index]
    for step, probability in zip(grid.tolist(), law, strict=True):
        spread = math.sqrt(probability * (1 - probability) / 3000)
        assert abs(counts[step] / 3000 - probability) < 4.5 * spread + 1e-9


def test_the_scale_free_threshold_works_with_the_tops_tree() -> None:
    pipeline = tg.Pipeline(
        threshold=tg.threshold.ScaleFree(epsilon=1, bound=100, holdout=500),
        perturber=tg.perturb.Hierarchy(epsilon=1, horizon=1000),
    )
    assert pipeline.guarantee.epsilon == 1
    assert pipeline.start(tg.seeded(1)).push(np.full(2000, 5)).size == 1500
