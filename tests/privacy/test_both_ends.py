"""Values below 0: the exact loss of choosing both ends, and noise scaled to their distance."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache, partial

import numpy as np
import pytest

import tidegate as tg
from tests.adaptive.test_refinement_schedule import seasonal
from tests.privacy.test_tail_quantile import law
from tidegate.guarantee import Guarantee
from tidegate.lattice import Lattice
from tidegate.randomness import Epoch, Keystream
from tidegate.run import two_sided_caps
from tidegate.run.refinement_schedule import Refinement
from tidegate.run.two_sided_caps import Ends, outside_caps, shaped_caps
from tidegate.stages import Threshold
from tidegate.threshold import Fixed, NoisyMax, ScaleFree, SmoothQuantile, TailQuantile

LATTICE = Lattice(Fraction(3), Fraction(1), Fraction(-3))
RULES: list[ScaleFree | TailQuantile | NoisyMax] = [
    ScaleFree(epsilon=3, bound=3, holdout=3),
    TailQuantile(epsilon=4, bound=3, holdout=3, horizon=1000),
    TailQuantile(epsilon=3, bound=3, holdout=3, horizon=3),
    NoisyMax(epsilon=2, bound=3, holdout=3, horizon=64),
]


def scored(rule: Threshold, values: np.ndarray, lattice: Lattice) -> tuple[np.ndarray, int]:
    if isinstance(rule, TailQuantile):
        _, scores, denominator = rule.scores(rule.above(values, lattice), lattice)
    else:
        assert isinstance(rule, ScaleFree | NoisyMax)
        _, scores, denominator = rule.scores(values, lattice)
    return scores, denominator


def joint_law(
    rule: Threshold, values: np.ndarray, stretched: float = 1.0, lattice: Lattice = LATTICE
) -> np.ndarray:
    """The probability of every scale and shape: two selections, the second knows the first."""
    one = two_sided_caps.two_sided_scale_rule(rule)
    rate = two_sided_caps.two_sided_shape_epsilon(rule) / 2
    of_scales = law(
        *scored(one, np.abs(values), lattice.scale), float(one.guarantee.epsilon) * stretched
    )
    rows = []
    for scale, chance in zip(scales(one, lattice), of_scales, strict=True):
        its = two_sided_caps.cap_scores(outside_caps(values, [scale])[0], rate)
        rows.append(chance * np.array(law(its, 1 << 20, float(rate) * stretched)))
    return np.array(rows)


def scales(rule: Threshold, lattice: Lattice) -> list[int]:
    """What can come out of the choice of the scale."""
    assert isinstance(rule, ScaleFree | TailQuantile | NoisyMax)
    factor = rule.extrapolation if isinstance(rule, TailQuantile) else 1
    top = lattice.scale.top
    return [min(top, int(step * factor)) for step in rule.candidates(lattice.scale).tolist()]


def worst_loss(rule: Threshold, stretched: float = 1.0) -> float:
    """Over all windows of three values from −3 to 3, all replaced values and all outcomes."""

    @cache
    def of(window: tuple[int, ...]) -> np.ndarray:
        return np.log(joint_law(rule, np.array(window), stretched))

    worst = 0.0
    for window in itertools.combinations_with_replacement(range(-3, 4), 3):
        for place, value in itertools.product(range(3), range(-3, 4)):
            other = tuple(sorted((*window[:place], *window[place + 1 :], value)))
            worst = max(worst, float(np.abs(of(window) - of(other)).max()))
    return worst


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_choosing_both_ends_costs_at_most_the_rules_epsilon(rule: Threshold) -> None:
    epsilon = float(rule.guarantee.epsilon)
    loss = worst_loss(rule)
    assert loss <= epsilon * (1 + 1e-9)
    assert loss > 0.5 * epsilon  # not paid for in vain
    assert worst_loss(rule, 2.0) > epsilon  # both choices with twice their parts would be noticed
    if loss > 0.8 * epsilon:
        assert worst_loss(rule, 1.3) > epsilon


def test_the_shape_alone_costs_what_it_is_given() -> None:
    """Exactly, over all windows of four values, for every scale: its loss is used up."""
    epsilon, worst = Fraction(2), 0.0

    @cache  # windows of the same counts have the same law
    def log_law(counts: tuple[int, ...], stretched: float) -> np.ndarray:
        its = two_sided_caps.cap_scores(np.array(counts), epsilon / 2)
        return np.log(np.array(law(its, 1 << 20, float(epsilon) / 2 * stretched)))

    for stretched in (1.0, 1.3):
        laws = {}
        for window in itertools.combinations_with_replacement(range(-4, 5), 4):
            counted = outside_caps(np.array(window), [1, 2, 3, 4])
            for scale, counts in enumerate(counted.tolist(), 1):
                laws[window, scale] = log_law(tuple(counts), stretched)
        worst = 0.0
        for (window, scale), before in laws.items():
            for place, value in itertools.product(range(4), (-4, 0, 4)):
                other = tuple(sorted((*window[:place], *window[place + 1 :], value)))
                worst = max(worst, float(np.abs(before - laws[other, scale]).max()))
        assert (worst <= float(epsilon) * (1 + 1e-9)) == (stretched == 1.0)
        assert worst > 0.8 * float(epsilon)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_the_guarantee_of_both_choices_is_that_of_the_rule(rule: Threshold) -> None:
    assert two_sided_caps.guarantee(rule, LATTICE) == rule.guarantee
    parts = (
        two_sided_caps.two_sided_scale_rule(rule).guarantee.epsilon,
        two_sided_caps.two_sided_shape_epsilon(rule),
    )
    assert parts == (rule.guarantee.epsilon * 5 / 8, rule.guarantee.epsilon * 3 / 8)
    assert two_sided_caps.guarantee(rule, Lattice(Fraction(3), Fraction(1))) == rule.guarantee


def test_a_rule_with_delta_keeps_it_for_the_scale() -> None:
    rule = SmoothQuantile(epsilon=1, delta="1/1000000", bound=3, holdout=50)
    found = two_sided_caps.guarantee(rule, LATTICE)
    assert (found.epsilon, found.delta, found.arithmetic) == (1, Fraction(1, 10**6), "float")
    assert two_sided_caps.two_sided_scale_rule(Fixed(3)) == Fixed(3)
    assert two_sided_caps.guarantee(Fixed(3), LATTICE) == Fixed(3).guarantee


COUNTS, SCALE = np.array([0, 1, 2, 1, 2]), 64  # every shape is chosen, at rates that tell


@cache
def shapes(epsilon: Fraction, count: int = 2500) -> list[Ends]:
    """The shapes that are chosen for these counts."""
    lattice = Lattice(Fraction(SCALE), Fraction(1), Fraction(-SCALE))
    epochs = (tg.seeded(seed).new_epoch() for seed in range(count))
    return [shaped_caps(SCALE, COUNTS, epsilon, lattice, _words(one, "shape")) for one in epochs]


@pytest.mark.parametrize(("times", "fits"), [(1.0, True), (0.7, False), (1.3, False)])
def test_the_shape_has_the_law_of_its_budget(times: float, fits: bool) -> None:
    """χ² of 2,500 shapes of one scale, with 4 degrees of freedom: 1 in 12,000 beyond 24."""
    epsilon = Fraction(2)
    found, rate = shapes(epsilon), epsilon / 2
    known = [Ends(SCALE * above // 8, SCALE * below // 8) for above, below in two_sided_caps.SHAPES]
    observed = np.array([found.count(one) for one in known])
    expected = 2500 * np.array(
        law(two_sided_caps.cap_scores(COUNTS, rate), 1 << 20, float(rate) * times)
    )
    assert observed.sum() == 2500
    assert (float(((observed - expected) ** 2 / expected).sum()) < 24.0) == fits


@pytest.mark.parametrize(("actual", "fits"), [("4", True), ("5.2", False)])
def test_the_choice_of_both_ends_has_the_law_of_its_budget(actual: str, fits: bool) -> None:
    """χ² of 1,500 pairs against the product law; 30 % more budget would not fit.

    Words that both choices share, or a purpose that is used twice, would not fit either.
    """
    settings = {"bound": 4, "holdout": 4, "horizon": 4, "stream_epsilon": 2}
    claimed, used = (TailQuantile(epsilon=epsilon, **settings) for epsilon in (4, actual))
    lattice = Lattice(Fraction(4), Fraction(1), Fraction(-4))
    values = np.array([-4, -1, 2, 4])
    expected = 1500 * joint_law(claimed, values, lattice=lattice)
    known = scales(two_sided_caps.two_sided_scale_rule(claimed), lattice)
    places = {
        Ends(-(-scale * above // 8), -(-scale * below // 8)): (at, shape)
        for at, scale in enumerate(known)
        for shape, (above, below) in enumerate(two_sided_caps.SHAPES)
    }
    merged: dict[Ends, float] = dict.fromkeys(places, 0.0)
    for at, scale in enumerate(known):  # small scales give the same ends for several shapes
        for shape, (above, below) in enumerate(two_sided_caps.SHAPES):
            merged[Ends(-(-scale * above // 8), -(-scale * below // 8))] += expected[at, shape]
    found = dict.fromkeys(places, 0)
    for seed in range(1500):
        epoch = tg.seeded(seed).new_epoch()
        found[two_sided_caps.choose_caps(used, values, lattice, partial(_words, epoch))] += 1
    pairs = [(found[pair], mean) for pair, mean in merged.items() if mean > 1e-9]
    distance = sum((count - mean) ** 2 / mean for count, mean in pairs)
    limit = len(pairs) - 1 + 4.5 * math.sqrt(2 * (len(pairs) - 1))
    assert (distance < limit) == fits


def _words(epoch: Epoch, purpose: str) -> Keystream:
    return epoch.keystream(purpose, b"")


# -- sums ----------------------------------------------------------------------------------------


def test_replacing_a_value_moves_a_sum_by_at_most_the_width() -> None:
    """From far below to far above, under the same noise: exactly from one end to the other."""
    tree = tg.perturb.Hierarchy(epsilon=1, horizon=64, fanout=4, skipped=1)
    pipeline = tg.Pipeline(threshold=tg.threshold.Fixed(9), perturber=tree, lower=-4)
    assert pipeline.guarantee == Guarantee(epsilon=1)
    base = np.random.default_rng(3).integers(-4, 10, size=64)
    outs = []
    for value in (-1000, 1000):
        values = base.copy()
        values[21] = value
        outs.append(pipeline.start(tg.seeded(5)).push(values))
    block = tree.block
    moved = (outs[1] - outs[0]).reshape(-1, block).sum(axis=1)
    expected = np.zeros(64 // block)
    expected[21 // block] = 13.0
    np.testing.assert_array_equal(moved, expected)


@pytest.mark.parametrize("epsilon", ["1/2", "3"])
def test_scales_are_those_of_the_width(epsilon: str) -> None:
    """Σ cap/scale ≤ ε, the cap being at least the distance between both ends, in every block."""
    values = np.random.default_rng(4).normal(2.0, 6.0, size=3000)
    pipeline = tg.adaptive(epsilon=epsilon, bound=100, lower=-100, horizon=3000)
    release = pipeline.start(tg.seeded(2))
    release.push(values)
    assert {phase.floor < 0 for phase in release.phases} == {True}
    for segment in release.record.segments:
        assert 0 < segment.below < segment.threshold
        for layout in segment.layouts:
            assert layout.cap >= segment.threshold
            assert sum(Fraction(layout.cap) / scale for scale in layout.scales) <= Fraction(epsilon)
            assert layout.cap <= pipeline.lattice.top + segment.below


@pytest.mark.parametrize(("claimed", "fits"), [(1.0, True), (1.3, False), (0.7, False)])
def test_the_noise_of_single_values_has_the_scale_of_the_width(claimed: float, fits: bool) -> None:
    """Discrete Laplace noise of scale 7/ε for values from −3 to 4, within 10 % of its variance."""
    flat = tg.perturb.Flat(epsilon=1, block=1, horizon=20_000)
    pipeline = tg.Pipeline(threshold=tg.threshold.Fixed(4), perturber=flat, lower=-3)
    values = np.tile([-5, 5], 10_000)
    noise = pipeline.start(tg.seeded(8)).push(values) - np.tile([-3, 4], 10_000)
    kept = math.exp(-1 / (7 * claimed))
    variance = 2 * kept / (1 - kept) ** 2
    assert (abs(float(np.mean(noise**2)) / variance - 1) < 0.1) == fits
    assert abs(float(noise.mean())) < 0.4


def test_blocks_of_signed_windows_have_the_noise_of_their_width() -> None:
    """E z² of released sums of blocks, less the sums of values between both ends.

    Of blocks that pay for a choice and of others; noise of 0.7 or 1.3 times its scale has 0.49 or
    1.69. About 170 blocks of each kind, a standard error of 0.17.
    """
    found: dict[bool, list[float]] = {False: [], True: []}
    pipeline = tg.adaptive(epsilon=3, bound=100, lower=-100, horizon=1024)
    for seed in range(20):
        release, values = pipeline.start(tg.seeded(seed)), seasonal(1024, seed)
        release.push(values)
        units = np.rint(values / float(pipeline.lattice.step)).astype(np.int64)
        for segment in release.record.segments:
            for block in segment.blocks:
                tree, end = block.layout, block.start + block.layout.length
                if end > segment.end or block.first + tree.leaves > segment.leaves.closed:
                    continue  # given up, or open
                high = tree.cap - segment.below
                sums = np.clip(units[block.start : end], -segment.below, high).sum()
                leaves = np.array([block.first, block.first + tree.leaves])
                noise = np.diff(segment.leaves.sums(leaves)).item() - sums
                whole = sum(tree.cap / scale for scale in tree.scales)
                deviation = math.sqrt(tree.nodes[0] * tree.variances[0])
                found[whole < Fraction(99, 100) * 3].append(float(noise / deviation))
    for scores in found.values():
        assert len(scores) > 150
        assert 0.65 < np.mean(np.square(scores)) < 1.4


def test_the_default_release_pays_for_both_ends_within_epsilon() -> None:
    """Derived: two choices and the sums, in every piece."""
    pipeline = tg.adaptive(epsilon="1/3", bound=50, lower=-50, horizon=5000)
    assert pipeline.guarantee == Guarantee(epsilon=Fraction(1, 3))
    assert isinstance(pipeline.reselect, Refinement)
    rule, trees = pipeline.threshold, pipeline.perturber
    for share in (Fraction(3, 4), Fraction(1, 2), Fraction(1, 4)):
        theta, shape = (share * part for part in pipeline.choices)
        chosen = pipeline.reselect.choice(rule, trees, 100, theta, age=100)
        spent = chosen.epsilon + (shape + 1 - share) * trees.epsilon
        assert spent == Fraction(1, 3)


def test_ends_stay_within_the_public_bounds_and_are_never_nothing() -> None:
    lattice = Lattice(Fraction(1000), Fraction(1), Fraction(-30))
    words = tg.seeded(1).new_epoch().keystream("shape", b"")
    none = np.zeros(5, dtype=np.int64)
    for only, expected in enumerate(
        [Ends(800, 30), Ends(800, 30), Ends(800, 30), Ends(300, 30), Ends(100, 30)]
    ):
        counts = none + 10**6
        counts[only] = 0
        assert shaped_caps(800, counts, Fraction(1), lattice, words) == expected
    assert shaped_caps(1, none, Fraction(1), lattice, words) == Ends(1, 1)
