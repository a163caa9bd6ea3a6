"""Budget Absorption and the baselines of windows: no window spends more than ε."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import tidegate as tg
from tests.methods.coverage import coverage
from tidegate.errors import SettingError
from tidegate.methods.budget_absorption import AbsorbedBudget, budget_absorption
from tidegate.methods.sampling import sampling
from tidegate.units import Event, Window

WRONG = (0.7, 1.3)
THETA = 30


def released(preset, values, window=5, epsilon=8, seed=2, **more):
    pipeline = preset(epsilon, THETA, unit=Window(length=window), resolution=1, **more)
    release = pipeline.start(tg.seeded(seed))
    out = release.push(values)
    return pipeline.perturber, out, release.record.segments[0].leaves.spans()


def walk(count, seed=1):
    steps = np.random.default_rng(seed).normal(0, 4, size=count)
    return np.abs(np.cumsum(steps)) % THETA


def most_spent(spans, window, count, each=Fraction(0)):
    """The most that any window costs: what every position does, and what was measured."""
    spent = [each] * count
    for end, scale in zip(spans.edges[1:].tolist(), spans.marks.tolist(), strict=True):
        if scale:
            spent[end - 1] += Fraction(THETA, scale)
    return max(sum(spent[at : at + window]) for at in range(count))


@pytest.mark.parametrize("window", [1, 2, 5, 40])
@pytest.mark.parametrize("epsilon", ["1/3", 8])
def test_absorption_spends_no_more_than_epsilon_in_a_window(window, epsilon):
    stage, _, spans = released(budget_absorption, walk(600), window, epsilon)
    each = Fraction(THETA, stage.scale(THETA))
    spent = most_spent(spans, window, 600, each)
    assert stage.epsilon * Fraction(8, 10) < spent <= stage.epsilon


def test_shares_by_every_pattern_of_decisions():
    """All 2^11 ways to publish or not, windows of 3: never more than 3 shares in one."""
    stage = AbsorbedBudget(epsilon=8, window=3)
    sampler = stage.sampler(THETA, tg.seeded(1).new_epoch().keystream("perturb", b""))
    sampler._noise.at = lambda position: ([np.zeros(1, dtype=np.int64)], 0)
    most = 0
    for wanted in product((False, True), repeat=11):
        sampler.free, spent = 0, []
        for position, publish in enumerate(wanted):
            sampler.push(THETA, position)
            allowed = publish and sampler._offer > 0
            spent.append(sampler._offer if allowed else 0)
            sampler.measured(9, 1, int(allowed))
        most = max(most, *(sum(spent[at : at + 3]) for at in range(11)))
    assert most == 3


def test_absorption_by_hand():
    """w = 3. Positions 0, 1 publish nothing; 2 takes three shares; 3, 4 must wait; 5 has one."""
    stage = AbsorbedBudget(epsilon=6, window=3)  # a share is ε/6 = 1
    sampler = stage.sampler(THETA, tg.seeded(1).new_epoch().keystream("perturb", b""))
    sampler._noise.at = lambda position: ([np.zeros(1, dtype=np.int64)], 0)
    level = sampler.published
    assert [sampler.push(level, position) for position in (0, 1)] == [0, 0]
    assert sampler.push(level + 11, 2) == 10  # θ/3, and the value is farther away than that
    sampler.measured(level, 3, 10)
    assert [sampler.push(level + 15, position) for position in (3, 4)] == [0, 0]
    assert sampler.push(level + 15, 5) == 0  # one share: noise of 30, more than it is worth
    assert sampler.push(level + 16, 6) == 15  # two shares


def test_scale_of_publications():
    values = np.tile([0, THETA], 1000)
    _, _, spans = released(budget_absorption, values, window=2, epsilon=30)
    at, measured = spans.edges[1:] - 1, spans.marks > 0
    noise = (spans.numbers - values[at])[measured] / spans.marks[measured]
    assert set(spans.marks[measured].tolist()) == {2, 4}
    # E|X|/s of a discrete Laplace law of so small a scale: 2q/((1 − q²)·s).
    sizes = {s: 2 * math.exp(-1 / s) / (1 - math.exp(-2 / s)) / s for s in (2, 4)}
    claimed = np.mean([sizes[one] for one in spans.marks[measured].tolist()])
    error = 1 / math.sqrt(noise.size)
    size = float(np.abs(noise).mean()) / claimed
    assert abs(size - 1) < 5 * error
    assert all(abs(size / factor - 1) > 5 * error for factor in WRONG)


@pytest.mark.parametrize("every", [1, 4, None])
def test_sampling_spends_epsilon_in_a_window(every):
    stage, out, spans = released(sampling, walk(300), window=10, every=every)
    measured = np.flatnonzero(spans.marks)
    step = 10 if every is None else every
    assert (spans.edges[1:][measured] - 1).tolist() == list(range(0, 300, step))
    spent = most_spent(spans, 10, 300)
    assert stage.epsilon * Fraction(9, 10) < spent <= stage.epsilon
    assert np.array_equal(out[::step], spans.numbers[measured])


def test_scale_of_sampling():
    values = np.full(1000, 11)
    stage, _, spans = released(sampling, values, window=6, every=1, epsilon="1/2")
    noise = (spans.numbers - 11) / (6 * THETA * 2)
    assert stage.scale(THETA) == 6 * THETA * 2
    error = 1 / math.sqrt(noise.size)
    size = float(np.abs(noise).mean())
    assert abs(size - 1) < 5 * error
    assert all(abs(size / factor - 1) > 5 * error for factor in WRONG)


def test_order_on_a_stable_stream():
    """Kellaris et al.: BA ≤ BD ≤ Uniform where the stream seldom changes, and ε/w is large."""
    values = np.repeat([3, 27, 12], 120)
    errors = {}
    for preset in (budget_absorption, tg.budget_distribution, sampling):
        more = {"every": 1} if preset is sampling else {}
        runs = [
            released(preset, values, window=20, epsilon=100, seed=seed, **more)[1]
            for seed in range(3)
        ]
        errors[preset.__name__] = float(np.mean([np.abs(out - values).mean() for out in runs]))
    assert errors["budget_absorption"] < errors["budget_distribution"] < errors["sampling"]


@pytest.mark.parametrize("preset", [budget_absorption, sampling])
def test_intervals_hold_what_they_say(preset):
    values = np.repeat(np.random.default_rng(1).integers(0, THETA, size=15), 20)
    pipeline = preset(60, THETA, unit=Window(length=5), resolution=1)
    starts, ends = np.arange(0, 240, 7), np.arange(30, 270, 7)
    assert coverage(pipeline, values, starts, ends, releases=15) > 0.93


@pytest.mark.parametrize("preset", [budget_absorption, sampling])
def test_units_and_thresholds(preset):
    with pytest.raises(SettingError, match="unit: must be a window"):
        preset(1, 9, unit=Event())
    pipeline = preset(1, 9, unit=Window(length=4), holdout=30)
    assert pipeline.guarantee.epsilon == 1
    assert pipeline.perturber.epsilon == Fraction(3, 4)
    assert pipeline.threshold.epsilon == Fraction(1, 16)
