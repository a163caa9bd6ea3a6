"""Budget Distribution: no window spends more than ε, and its noise has the scales it says."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import tidegate as tg
from tidegate.errors import SettingError
from tidegate.methods.budget_distribution import DistributedBudget, budget_distribution
from tidegate.units import Event, Window

WRONG = (0.7, 1.3)
THETA = 30


def released(values, window=5, epsilon=8, seed=2, **more):
    pipeline = budget_distribution(epsilon, THETA, unit=Window(length=window), resolution=1, **more)
    release = pipeline.start(tg.seeded(seed))
    out = release.push(values)
    return pipeline.perturber, release, out, release.record.segments[0].leaves.spans()


def walk(count, seed=1):
    steps = np.random.default_rng(seed).normal(0, 4, size=count)
    return np.abs(np.cumsum(steps)) % THETA


@pytest.mark.parametrize("window", [1, 2, 5, 40])
@pytest.mark.parametrize("epsilon", ["1/3", 8])
def test_no_window_spends_more_than_epsilon(window, epsilon):
    stage, _, _, spans = released(walk(800), window, epsilon)
    spent = np.zeros(800 + window, dtype=object)
    dissimilarity = Fraction(THETA, stage.scale(THETA))
    spent[:800] = dissimilarity
    for end, scale in zip(spans.edges[1:].tolist(), spans.marks.tolist(), strict=True):
        if scale:
            spent[end - 1] += Fraction(THETA, scale)
    sums = [sum(spent[at : at + window]) for at in range(800)]
    assert max(sums) <= stage.epsilon
    if np.count_nonzero(spans.marks) > 20 and window > 1:
        assert max(sums) > stage.epsilon * Fraction(8, 10)  # and the budget is used


def test_scale_of_publications():
    """The noise of a published number, in its scale: 3,000 draws."""
    values = np.tile([0, THETA], 6000)
    _, _, _, spans = released(values, window=2, epsilon=12)
    at, measured = spans.edges[1:] - 1, spans.marks > 0
    noise = (spans.numbers - values[at])[measured] / spans.marks[measured]
    assert noise.size > 3000
    error = 1 / math.sqrt(noise.size)  # of a mean of exponential variables
    size = float(np.abs(noise).mean())
    assert abs(size - 1) < 5 * error
    assert all(abs(size / factor - 1) > 5 * error for factor in WRONG)
    assert abs(noise.mean()) < 5 * math.sqrt(2) * error


def test_scale_of_dissimilarities():
    """How often a value that did not move is published, from 20,000 independent decisions."""
    stage = DistributedBudget(epsilon=4, window=3)
    sampler = stage.sampler(THETA, tg.seeded(7).new_epoch().keystream("perturb", b""))
    level = sampler.published
    scale = stage.publication_scale(THETA, 1 << 31)
    assert scale == math.ceil(Fraction(THETA * 4, 4))
    count = 20_000
    chosen = sum(sampler.push(level, position) == scale for position in range(count))

    def chance(noise):  # of discrete Laplace noise above `scale`
        q = math.exp(-1 / noise)
        return q ** (scale + 1) / (1 + q)

    claimed = 2 * 3 * THETA / 4  # 2wθ/ε, whatever the stage says
    expected = chance(claimed)
    error = math.sqrt(expected / count)
    assert abs(chosen / count - expected) < 5 * error
    for factor in WRONG:
        assert abs(chosen / count - chance(factor * claimed)) > 5 * error


def test_loss_enumerated():
    """Two positions, values 0 or 1, window 2: every outcome's probability, for every pair."""
    epsilon = Fraction(3)
    stage = DistributedBudget(epsilon=epsilon, window=2)
    noise_scale = stage.scale(1)

    def above(distance, limit):  # P(distance + noise > limit)
        q = math.exp(-1 / noise_scale)
        edge = limit - distance  # noise > edge
        return q ** (edge + 1) / (1 + q) if edge >= 0 else 1 - q ** (-edge) / (1 + q)

    def number(distance, scale):
        q = math.exp(-1 / scale)
        return (1 - q) / (1 + q) * q ** abs(distance)

    def chance(values, outcome):
        last, left, total = 0, 1 << 32, 1.0
        for value, published in zip(values, outcome, strict=True):
            scale = stage.publication_scale(1, left // 2)
            publish = above(abs(value - last), scale)
            if published is None:
                total *= 1 - publish
            else:
                total *= publish * number(published - value, scale)
                last, left = published, left - left // 2
        return total

    outcomes = list(product([None, *range(-12, 13)], repeat=2))
    streams = list(product((0, 1), repeat=2))
    chances = {stream: np.array([chance(stream, one) for one in outcomes]) for stream in streams}
    assert all(0.5 < some.sum() <= 1 + 1e-9 for some in chances.values())
    pairs = [(one, two) for one in streams for two in streams if one != two]
    losses = [np.log(chances[one] / chances[two]).max() for one, two in pairs]
    assert 0.5 * float(epsilon) < max(losses) <= float(epsilon) + 1e-9


def test_values_hold_until_the_next_number():
    _, _, out, spans = released(walk(300))
    for start, end, level, after in zip(
        spans.edges[:-1], spans.edges[1:], spans.levels[:-1], spans.levels[1:], strict=True
    ):
        assert (out[start : end - 1] == level).all()
        assert out[end - 1] == after
    numbers = spans.numbers[spans.marks > 0]
    np.testing.assert_array_equal(spans.levels[1:][spans.marks > 0], numbers)


@pytest.mark.parametrize("kind", ["walk", "independent"])
def test_intervals_hold_what_they_say(kind):
    random = np.random.default_rng(1)
    values = np.rint(walk(1500)) if kind == "walk" else random.integers(0, THETA, size=1500)
    starts = random.integers(0, 1400, size=60)
    ends = np.minimum(starts + random.integers(1, 700, size=60), 1500)
    exact = np.concatenate(([0], np.cumsum(values)))
    hits = []
    for seed in range(12):
        _, release, out, _ = released(values, seed=seed)
        found = release.queries(starts, ends)
        truth = exact[ends] - exact[starts]
        hits.append(((found.low <= truth) & (truth <= found.high)).mean())
        published = np.concatenate(([0], np.cumsum(out)))
        np.testing.assert_allclose(found.estimate, published[ends] - published[starts])
    assert np.mean(hits) > 0.92


def test_units():
    window = Window(length=7)
    chosen = budget_distribution(2, 50, unit=window, holdout=20)
    assert (chosen.guarantee.epsilon, chosen.guarantee.unit) == (2, window.name)  # both together
    assert chosen.stream_guarantee.epsilon == Fraction(3, 2)
    with pytest.raises(SettingError, match="unit: must be a window"):
        budget_distribution(2, 50, unit=Event())
    stage = chosen.perturber
    with pytest.raises(SettingError, match="unit: must be the one that the perturber protects"):
        tg.Pipeline(threshold=tg.threshold.Fixed(9), perturber=stage, estimator=chosen.estimator)
    again = tg.Reselection(threshold=tg.threshold.NoisyMax(epsilon=1, bound=50), every=10**6)
    with pytest.raises(SettingError, match="reselect: must be None"):
        tg.Pipeline(
            threshold=tg.threshold.Fixed(50),
            perturber=stage,
            estimator=chosen.estimator,
            unit=window,
            reselect=again,
        )
    with pytest.raises(SettingError, match="estimator"):
        tg.Pipeline(threshold=tg.threshold.Fixed(9), perturber=stage, unit=window)
