"""The cap follows the stream: up where it cuts, back where it does not, by what is public."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tidegate.estimate.mixture.cap_steps import CapSteps, cap_of_step
from tidegate.perturb.adaptive.adaptive_trees import AdaptiveTrees
from tidegate.perturb.adaptive.tree_shapes import RANGE_ERROR, all_trees, cap_factor_of_shape
from tidegate.stages import Noisy

HIGHEST = 17


def climb(steps: CapSteps, levels: Any, error: float = 0.001) -> list[int]:
    """The cap_step after each block; a level may depend on the cap."""
    cap_steps = []
    for level in levels:
        steps.observe(level(cap_of_step(steps.step)) if callable(level) else level, error, HIGHEST)
        cap_steps.append(steps.step)
    return cap_steps


def exponential(mean: float) -> Any:
    """The mean of exponential values that are cut at a cap."""
    return lambda cap: mean * (1 - np.exp(-cap / mean))


def test_rungs_are_the_caps_of_the_trees() -> None:
    for cap_step in range(1, 18):
        assert float(cap_factor_of_shape((1, 8), cap_step)) == pytest.approx(
            cap_of_step(cap_step), rel=1e-3
        )
        for shape in RANGE_ERROR:
            assert cap_factor_of_shape(shape, cap_step) >= 1
    assert cap_of_step(0) == cap_of_step(1) == 1
    assert cap_of_step(17) == 256


def test_a_typical_tail_changes_nothing() -> None:
    assert set(climb(CapSteps(), [exponential(0.21)] * 30)) == {0}


@pytest.mark.parametrize("mean", [1.0, 5.0, 60.0])
def test_the_cap_rises_until_it_hardly_cuts(mean: float) -> None:
    cap_steps = climb(CapSteps(), [exponential(0.2)] * 3 + [exponential(mean)] * 30)
    assert cap_of_step(cap_steps[-1]) > 1.3 * mean
    assert cap_of_step(cap_steps[-1]) < 8 * mean


@pytest.mark.parametrize("level", [0.55, 0.8, 0.99])
def test_values_without_a_tail_cost_one_trial(level: float) -> None:
    cap_steps = climb(CapSteps(), [level] * 30)
    assert sum(cap_step > 1 for cap_step in cap_steps) == 1
    assert cap_steps[-1] == 1


def test_what_moves_by_itself_is_seldom_tried() -> None:
    cycle = [0.5 + 0.3 * np.sin(block) for block in range(64)]
    assert sum(cap_step > 1 for cap_step in climb(CapSteps(), cycle)) < 64 / 5


@pytest.mark.parametrize("before", [0.6, 0.8, 0.9])
def test_a_crowded_stream_that_grows_after_a_refused_trial_is_followed(before: float) -> None:
    """No mean exceeds its cap: 1.25 times a level above 0.8 caps could never be reached."""

    def narrow(level: float) -> Any:
        return lambda cap: min(level, cap - 0.02)

    steps = CapSteps()
    assert climb(steps, [narrow(before)] * 10)[-1] == 1
    climb(steps, [narrow(1.8)] * 12)
    assert cap_of_step(steps.step) > 1.8


def test_what_was_refused_before_a_fall_says_nothing_after_it() -> None:
    steps = CapSteps()
    climb(steps, [exponential(0.2)] * 3 + [exponential(8.0)] * 20)
    climb(steps, [6.0] * 4 + [0.1] * 20)
    assert (steps.step, steps.refused) == (0, 0.0)
    assert climb(steps, [exponential(3.0)] * 20)[-1] > 5


def test_it_comes_down_again() -> None:
    steps = CapSteps()
    climb(steps, [exponential(0.2)] * 3 + [exponential(8.0)] * 20)
    assert steps.step > 5
    assert climb(steps, [exponential(0.2)] * 20)[-1] == 0


def test_noise_alone_moves_nothing() -> None:
    random = np.random.default_rng(1)
    levels = 0.2 + 0.3 * random.normal(size=200)  # noise as large as the level
    cap_steps = climb(CapSteps(), levels, error=0.3)
    assert np.mean([cap_step > 0 for cap_step in cap_steps]) < 0.1


HOLDOUT = 2000


def pipeline(resolution: int | None = None) -> tg.Pipeline:
    return tg.adaptive(1, 1000, horizon=8192, holdout=HOLDOUT, resolution=resolution)


def outgrown(count: int) -> np.ndarray:
    """Values that outgrow what the hold-out showed tenfold."""
    level = np.where(np.arange(count) < count // 4, 4.0, 40.0)
    random = np.random.default_rng(1)
    return random.poisson(level * random.gamma(1.0, size=count))


def test_a_stream_that_outgrows_its_threshold_is_followed() -> None:
    values = outgrown(HOLDOUT + 2 * 8192)
    release = pipeline().start(tg.seeded(2))
    out = release.push(values)
    course = release.record.segments[0]
    cap_steps = [tree.cap_step for tree in course.layouts]
    assert cap_steps[0] == 0
    assert max(cap_steps) >= 3
    # Without the steps half of it would be cut off.
    cut = np.minimum(values[-4096:], release.threshold).mean()
    assert cut < 0.6 * values[-4096:].mean()
    assert out[-4096:].mean() > 0.7 * values[-4096:].mean()


def test_rungs_and_output_can_be_computed_from_what_was_released() -> None:
    one = pipeline(resolution=1)  # a step is the unit of the data: nothing to convert
    release = one.start(tg.seeded(2))
    out = release.push(outgrown(HOLDOUT + 2 * 8192))
    course = release.record.segments[0]
    released = iter(course.released.tolist())
    theta = course.threshold
    run = one.estimator.start(threshold=theta, perturber=one.perturber)
    rebuilt: list[float] = []
    for chunk in range(2):
        for number, length in enumerate(one.perturber.lengths(chunk)):
            options = one.perturber.layouts(length, theta, one.ceiling)
            tree = options[run.choose(options, first=number == 0)]
            run.begin(tree)
            part = np.zeros(length)
            sums = [next(released) for _ in range(tree.leaves)]
            run.push(Noisy(np.array(sums, dtype=np.int64)), part)
            rebuilt.extend(part.tolist())
    assert len({tree.cap_step for tree in course.layouts}) > 3  # the steps was used
    np.testing.assert_array_equal(out, rebuilt)


def test_a_snapshot_in_the_middle_of_a_climb_goes_on_alike() -> None:
    one = pipeline()
    values = outgrown(HOLDOUT + 8192)
    whole = one.start(tg.seeded(3))
    expected = whole.push(values)
    parts = one.start(tg.seeded(3))
    found = [parts.push(values[: HOLDOUT + 100])]
    for cut in range(HOLDOUT + 100, values.size, 611):
        parts = one.resume(parts.snapshot())
        found.append(parts.push(values[cut : cut + 611]))
    assert max(tree.cap_step for tree in whole.record.segments[0].layouts) > 2
    np.testing.assert_array_equal(np.concatenate(found), expected)


RUNS = 2000  # of each neighbour: a loss is known to about 0.05


def test_audit_of_a_block_whose_cap_was_raised() -> None:
    """Two neighbours, the same earlier releases: the raised block gives away ε and no more."""
    stage = AdaptiveTrees(epsilon=1, horizon=64, nodes=(1,))
    assert stage.layouts(64, 4, 1000)[-1].cap == 1000
    sums: list[list[int]] = [[], []]
    for world, telling in enumerate((0, 10**6)):
        values = np.full(64, 3)
        values[5] = telling
        for seed in range(RUNS):
            keystream = tg.seeded(2 * seed + world).new_epoch().keystream("perturb", b"")
            run = stage.start(4, 1000, keystream)
            run.begin(len(run.options) - 1)
            sums[world].append(int(run.push(values[: run.options[0].length]).sums[0]))
    losses = []
    for cut in np.quantile(sums[0], np.linspace(0.5, 0.95, 10)):
        one, two = ((np.array(world) >= cut).mean() for world in sums)
        noise = 3 * np.sqrt((1 - one) / (one * RUNS)) + 3 * np.sqrt((1 - two) / (two * RUNS))
        losses.append((np.log(two / one) - noise, np.log(two / one) + noise))
    assert max(low for low, _ in losses) <= 1
    assert max(high for _, high in losses) > 0.9  # nearly all of ε is used: the audit has power
    assert max(low for low, _ in losses) > 0.5


def test_no_value_is_cut_where_the_threshold_is_the_bound() -> None:
    """Values crowd at the bound (yes or no): a cap of 0.93 would take 7 % of each."""
    for trees in (
        all_trees(tuple(RANGE_ERROR), Fraction(1), 4096, top, top) for top in (1, 10_000)
    ):
        assert {tree.cap for tree in trees} == {trees[0].cap} <= {1, 10_000}
        assert all(sum(tree.cap / scale for scale in tree.scales) <= 1 for tree in trees)
    answers = np.random.default_rng(0).random(40_000) < 0.3
    held, bias = 0, []
    for seed in range(4):
        release = tg.adaptive(1, 1).start(tg.seeded(seed))
        release.push(answers)
        starts = np.arange(5_000, 40_000, 1_750)
        found = release.queries(starts, starts + 1_750)
        truth = np.add.reduceat(answers, starts)
        held += int(((found.low <= truth) & (truth <= found.high)).sum())
        bias.append(release.query(5_000, 40_000).estimate / answers[5_000:].sum() - 1)
    assert held >= 68  # of 80; 60 would be 15 % too few
    assert abs(np.mean(bias)) < 0.01
