"""The hybrid counter: exact for any length, right in scale, honest in its error bars."""

from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from tests.methods.coverage import coverage
from tidegate.methods import hybrid_counter as module
from tidegate.methods.hybrid_counter import HybridTrees, hybrid_counter, segment_of

WRONG = (0.7, 1.3)
LENGTH = 70  # six whole segments and a part of the seventh


@pytest.fixture(params=[2, 12], ids=["parts of 4", "parts of 4096"])
def parts(request, monkeypatch):
    """With parts of 4 values, a short stream has nodes above its parts."""
    monkeypatch.setattr(module, "_BITS", request.param)
    return request.param


def started(stage, draws):
    """A run whose draws come from a function of (segment, tree, level, count)."""
    run = stage.start(100, 100, tg.seeded(1).new_epoch().keystream("perturb", b""))
    run._draws = lambda *place: np.asarray(draws(*place), dtype=np.int64)
    return run


def held(values, segment, tree, level, count):
    """What the nodes of these draws hold of the values."""
    first = 2**segment - 1
    if level == module._WHOLE:
        return [sum(values[first : first + 2**segment])]
    width = 2**level
    first += tree * (2**module._BITS if level < module._BITS else width)
    return [sum(values[first + at * width : first + (at + 1) * width]) for at in range(count)]


def test_what_is_published_is_a_function_of_the_noisy_nodes(parts):
    random = np.random.default_rng(3)
    values = random.integers(0, 100, size=LENGTH).tolist()
    fixed = {}

    def draw(*place):
        return fixed.setdefault(place, random.integers(-999, 999, size=place[3]))

    stage = HybridTrees(epsilon=1, horizon=50)
    plain = started(stage, draw).push(np.array(values)).sums
    noisy = started(stage, lambda *place: draw(*place) + held(values, *place))
    assert noisy.push(np.zeros(LENGTH, dtype=np.int64)).sums.tolist() == plain.tolist()


def test_variance_of_ranges_is_that_of_the_linear_map(parts):
    stage = HybridTrees(epsilon="1/2", horizon=50)
    seen = {}
    zeros = np.zeros(LENGTH, dtype=np.int64)
    started(stage, lambda *place: seen.setdefault(place, np.zeros(place[3]))).push(zeros)
    law = stage.noise_law(100)
    covariance = np.zeros((LENGTH + 1, LENGTH + 1))
    for place in seen:
        scale = law.whole if place[2] == module._WHOLE else law.inside[place[0]]
        for node in range(place[3]):
            one = {place: np.eye(place[3], dtype=np.int64)[node]}
            run = started(stage, lambda *at, one=one: one.get(at, np.zeros(at[3])))
            column = np.concatenate(([0], np.cumsum(run.push(zeros).sums)))
            covariance += 2 * float(scale) ** 2 * np.outer(column, column)
    starts, ends = np.triu_indices(LENGTH + 1)
    exact = covariance[starts, starts] + covariance[ends, ends] - 2 * covariance[starts, ends]
    np.testing.assert_allclose(law.range_variance(starts, ends), exact, rtol=1e-5)


def test_by_hand():
    """Segments 0 | 1 2 | 3 4 5 6: a draw of 10^k for each, 7 for every node inside one."""
    run = started(
        HybridTrees(epsilon=1, horizon=50),
        lambda segment, tree, level, count: [10**segment if level == module._WHOLE else 7] * count,
    )
    running = np.cumsum(run.push(np.zeros(7, dtype=np.int64)).sums).tolist()
    # One value of a segment is a leaf, two are a node, three are a node and a leaf.
    assert running == [1, 1 + 7, 1 + 10, 11 + 7, 11 + 7, 11 + 14, 11 + 100]


@pytest.mark.parametrize("threshold", [1, 9, 10**6])
def test_a_value_spends_epsilon_and_not_more(threshold):
    stage = HybridTrees(epsilon="1/3", horizon=50)
    law = stage.noise_law(threshold)
    assert stage.guarantee.epsilon == stage.epsilon
    for segment, scale in enumerate(law.inside):
        spent = threshold / law.whole + segment * threshold / scale
        assert spent <= stage.epsilon
        assert segment == 0 or spent > stage.epsilon * (1 - Fraction(1, 10**4))


def test_scale_of_the_noise():
    """600 streams of three values: the first has one draw, the second adds one of the tree."""
    stage = HybridTrees(epsilon=1, horizon=50)
    zeros = np.zeros(3, dtype=np.int64)
    runs = [tg.seeded(seed).new_epoch().keystream("perturb", b"") for seed in range(600)]
    out = np.array([stage.start(500, 500, one).push(zeros).sums for one in runs])
    for found in (out[:, 0], out[:, 1]):
        size, error = np.abs(found).mean() / (2 * 500), 1 / np.sqrt(600)
        assert abs(size - 1) < 5 * error
        assert all(abs(size / factor - 1) > 5 * error for factor in WRONG)
    whole = np.cumsum(out, axis=1)[:, 2]  # two segments, no tree
    assert abs(whole.var() / (2 * 2 * 1000**2) - 1) < 5 * np.sqrt(3 / 600)


def test_segments_of_large_positions():
    for power in (20, 40, 43):
        at = np.array([2**power - 2, 2**power - 1, 2**power])
        segment, inside = segment_of(at)
        assert segment.tolist() == [power - 1, power, power]
        assert inside.tolist() == [2 ** (power - 1) - 1, 0, 1]


def test_noise_is_found_by_position():
    stage = HybridTrees(epsilon=1, horizon=50)
    keystream = tg.seeded(4).new_epoch().keystream("perturb", b"")
    zeros = np.zeros(40_000, dtype=np.int64)
    plain = stage.start(9, 9, keystream).push(zeros).sums
    for place in (4094, 4095, 12_287, 30_000):
        later = stage.start(9, 9, keystream, {"position": place})
        assert later.push(zeros[place:]).sums.tolist() == plain[place:].tolist()


def test_intervals_hold_what_they_say():
    values = np.random.default_rng(1).integers(0, 50, size=300)
    pipeline = hybrid_counter(2, 50, horizon=128, holdout=0)
    starts, ends = np.arange(0, 240, 13), np.arange(40, 280, 13)
    assert 0.91 < coverage(pipeline, values, starts, ends, releases=40) < 0.985


def test_early_running_sums_are_better_than_those_of_a_long_tree():
    """What it is for: at the beginning of a stream that may be long."""
    ends = np.arange(1, 1000)
    early = hybrid_counter(1, 1, holdout=0, resolution="1/1000")
    tree = tg.binary_tree(1, 1, horizon=2**20, holdout=0, resolution="1/1000")
    one, two = (
        pipeline.perturber.noise_law(1000).range_variance(np.zeros_like(ends), ends).mean()
        for pipeline in (early, tree)
    )
    assert one < two
