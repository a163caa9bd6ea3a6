"""The whole: `tg.adaptive`, its answers about the past, and its speed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from tests.laws.catalogue import bits

HORIZON = 4096


def course_of(kind: str, count: int, random: np.random.Generator) -> np.ndarray:
    time_ = np.arange(count)
    level = {
        "calm": np.full(count, 10.0),
        "cycle": 20 * (1 + 0.8 * np.sin(time_ / 400)),
        "shift": np.where(time_ < count // 2, 10.0, 30.0),
        "ramp": np.linspace(5, 40, count),
        "zeros": 20.0 * ((time_ // 700) % 2),
        "bursts": np.where(time_ % 1000 < 60, 80.0, 5.0),
    }[kind]
    return random.poisson(level)


def test_the_guarantee_is_derived() -> None:
    assert tg.adaptive("1/3", 100).guarantee == tg.Guarantee(epsilon=Fraction(1, 3))
    window = tg.adaptive(1, 100, holdout=50, unit=tg.units.Window(length=4))
    assert window.perturber.epsilon == window.threshold.epsilon == Fraction(1, 4)
    refined = tg.adaptive(1, 100, unit=tg.units.Window(length=4))
    assert refined.perturber.epsilon == Fraction(1, 4)
    assert refined.threshold.epsilon == Fraction(3, 16)  # the rest is for the warm-up's sum
    assert refined.guarantee == window.guarantee
    assert window.guarantee.epsilon == 1


def test_a_fork_has_other_noise_and_is_charged() -> None:
    pipeline = tg.adaptive(1, 100, horizon=300, holdout=50)
    release = pipeline.start()
    release.push(np.full(400, 9))
    branch = release.fork()
    assert branch.threshold == release.threshold
    assert release.guarantee.epsilon == branch.guarantee.epsilon == 2
    assert bits(branch.push(np.full(300, 9))) != bits(release.push(np.full(300, 9)))
    assert branch.query(400, 500).estimate


def test_what_was_learnt_is_carried_into_the_next_horizon() -> None:
    pipeline = tg.adaptive(1, 100, horizon=2000, holdout=500)
    release = pipeline.start(tg.seeded(1))
    out = release.push(np.full(6500, 20))
    # A horizon's first values are predicted well as soon as there was one before it.
    assert np.abs(out[2000:2010] - 20).max() < 2
    lengths = [tree.length for tree in release.record.segments[0].layouts]
    assert sum(lengths[:-1]) == 6000
    assert 3 * len(lengths) > len({*lengths})


def test_published_running_sums_are_whole_steps_at_cell_ends() -> None:
    pipeline = tg.adaptive("1/2", 100, horizon=1600, holdout=100, resolution=1)
    out = pipeline.start(tg.seeded(2)).push(np.random.default_rng(1).integers(0, 50, size=1700))
    running = np.cumsum(out[:1600])
    edges = np.cumsum(pipeline.perturber.lengths(0))
    np.testing.assert_allclose(running[edges - 1], np.rint(running[edges - 1]), atol=1e-6)
    grains = out[:-1] * 2**16
    np.testing.assert_array_equal(grains, np.rint(grains))


KINDS = ("calm", "cycle", "shift", "ramp", "zeros", "bursts")


def coverage(kind: str, epsilon: str) -> np.ndarray:
    """How many of the 95 % intervals of random ranges hold the truncated sum: any, short ones.

    Over all kinds the mean has a standard error of 1.1 %; error bars of 70 % would hold 83 %.
    """
    pipeline = tg.Pipeline(
        threshold=tg.threshold.Fixed(60),
        perturber=tg.perturb.AdaptiveTrees(epsilon=epsilon, horizon=HORIZON // 4),
        estimator=tg.estimate.Mixture(),
    )
    random = np.random.default_rng(0)
    inside = []
    for seed in range(4):
        values = course_of(kind, HORIZON // 4 * 13 // 10, random)
        release = pipeline.start(tg.seeded(seed))
        release.push(values)
        trees = release.record.segments[0].layouts
        caps = np.concatenate([np.full(tree.length, tree.cap) for tree in trees])[: values.size]
        truth = np.concatenate(([0], np.cumsum(np.minimum(values, caps))))
        ends = random.integers(0, values.size + 1, size=(2, 80))
        first, last = ends.min(axis=0), ends.max(axis=0)
        near = np.minimum(last, first + random.integers(1, 60, size=80))  # inside cells, mostly
        first, last = np.concatenate((first, first)), np.concatenate((last, near))
        answers = release.queries(first, last)
        sums = truth[last] - truth[first]
        held = (answers.low <= sums) & (sums <= answers.high)
        inside.append(held.reshape(2, -1).mean(axis=1))
    return np.mean(inside, axis=0)


def test_intervals_hold_the_truncated_sum() -> None:
    """Between 93 and 99 % in the mean over kinds.

    Ranges of one run err together: over 24 runs the coverage of one run has a standard deviation of
    0.12, so that of a kind over four runs one of 0.06. Three of these are allowed for. Of short
    ranges at least 90 % are held; but for stretches of zeros at ε = 0.1, where 24 runs hold 87 %:
    intervals are too narrow where a stream falls silent.
    """
    found = {
        (kind, epsilon): coverage(kind, epsilon) for kind in KINDS for epsilon in ("1/10", "1")
    }
    any_length, short = np.array(list(found.values())).T
    assert 0.93 <= any_length.mean() <= 0.99
    assert any_length.min() >= 0.76, found
    assert short.min() >= 0.76, found
    others = [shares[1] for cell, shares in found.items() if cell != ("zeros", "1/10")]
    assert min(others) >= 0.90, found


def test_answers_as_of_then_are_those_given_then() -> None:
    pipeline = tg.adaptive("1/2", 100, horizon=1000, holdout=100)
    values = course_of("cycle", 2400, np.random.default_rng(3))
    release = pipeline.start(tg.seeded(5))
    then = {}
    for stop in range(180, 2400, 301):
        release.push(values[release.seen : stop])
        end = release.position
        then[end] = release.query(end // 3, end)
    for end, answer in then.items():
        now = release.query(end // 3, end, as_of=end)
        assert now.estimate == answer.estimate
        assert now.noise_error == answer.noise_error
        assert now.prediction_error == answer.prediction_error
    changed = sum(release.query(e // 3, e).estimate != a.estimate for e, a in then.items())
    assert changed > len(then) // 2  # later releases do say more about the past
    with pytest.raises(tg.QueryError, match="as_of"):
        release.query(10, 20, as_of=15)
    with pytest.raises(tg.QueryError, match="as_of"):
        release.query(10, 20, as_of=10**6)


def test_the_past_is_known_better_later() -> None:
    pipeline = tg.adaptive("1/5", 200, horizon=HORIZON, holdout=1000)
    random = np.random.default_rng(4)
    errors: list[list[float]] = [[], []]
    for seed in range(6):
        values = course_of("cycle", HORIZON + 1000, random)
        release = pipeline.start(tg.seeded(seed))
        out = release.push(values)
        truth = np.cumsum(values[1000:])
        ends = np.arange(1, HORIZON + 1, 16)
        past = release.queries(np.zeros_like(ends), ends).estimate
        errors[0].append(np.cumsum(out - values[1000:]).var())
        errors[1].append((past - truth[ends - 1]).var())
    assert np.mean(errors[1]) < np.mean(errors[0])


def test_calm_streams_are_measured_coarsely_and_rough_ones_finely() -> None:
    leaves = []
    for kind in ("calm", "cycle"):
        pipeline = tg.adaptive(1, 200, horizon=2**16, holdout=2000)
        release = pipeline.start(tg.seeded(1))
        values = np.random.default_rng(1).poisson(
            20 if kind == "calm" else 20 * (1 + 0.9 * np.sin(np.arange(2**16 + 2000) / 300)),
            size=2**16 + 2000,
        )
        release.push(values)
        leaves.append(np.mean([tree.leaves for tree in release.record.segments[0].layouts[-8:]]))
    assert leaves[0] <= 2
    assert leaves[1] >= 4 * leaves[0]


def test_it_beats_tops_on_a_calm_stream() -> None:
    values = np.random.default_rng(5).geometric(0.1, size=2**16 + 8192)
    means = []
    for build in (tg.tops, tg.adaptive):
        pipeline = build(0.1, 1000, horizon=2**16, holdout=8192)
        runs = [
            np.cumsum(pipeline.start(tg.seeded(seed)).push(values) - values[8192:]).var()
            for seed in range(8)
        ]
        means.append(np.mean(runs))
    assert means[1] < means[0] / 2
