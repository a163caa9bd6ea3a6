"""PeGaSus: groups that cost what they say, noise of the claimed scales, honest error bars."""

import math
from fractions import Fraction
from itertools import product
from statistics import median

import numpy as np
import pytest

import tidegate as tg
from tests.depth import in_turn
from tests.methods.coverage import coverage
from tests.methods.enumerated import worst_loss
from tidegate.errors import SettingError
from tidegate.estimate.group_means import OPENS
from tidegate.estimate.group_medians import MedianFilter, median_variances
from tidegate.estimate.sample_and_hold import MeasuredLeaves
from tidegate.methods._pegasus_groups import PegasusGrouping
from tidegate.methods.pegasus import GroupedValues, pegasus
from tidegate.noise import discrete_laplace_variance

WRONG = (0.7, 1.3)
THETA = 30


def released(values, epsilon=8, seed=2, **more):
    pipeline = pegasus(epsilon, THETA, holdout=0, resolution=1, **more)
    release = pipeline.start(tg.seeded(seed))
    out = release.push(values)
    return pipeline.perturber, out, release.record.segments[0].leaves.spans()


def run_of(stage, seed=7):
    return stage.start(THETA, THETA, tg.seeded(seed).new_epoch().keystream("perturb", b""))


def deviation(values):
    mean = Fraction(sum(values), len(values))
    return math.floor(sum(abs(value - mean) for value in values))


def plain_marks(values, tests, limits, public, longest):
    """The rule of the docstring, one value after the other, in fractions."""
    marks, group, limit = [], [], 0
    for value, test, noise in zip(values, tests, limits, strict=True):
        if not group:
            group, limit = [value], public + noise
            marks.append(1)
        elif deviation([*group, value]) + test < limit:
            group.append(value)
            marks.append(2)
            if len(group) >= longest:
                group = []
        else:
            group = []
            marks.append(1)
    return marks


@pytest.mark.parametrize("public", in_turn([3, 40, 1500, 10**6], 1))
@pytest.mark.parametrize("longest", [1, 2, 50, 300])
def test_many_tests_are_decided_as_one_by_one(public, longest):
    """Short and long groups, bounds that decide and bounds that do not, any split."""
    random = np.random.default_rng(public + longest)
    values = np.concatenate(
        (random.integers(0, THETA + 1, 400), np.repeat(random.integers(0, THETA, 20), 15))
    )
    tests, limits = random.laplace(0, public / 8, (2, values.size)).astype(np.int64)
    marks = plain_marks(
        *(array.tolist() for array in (values, tests, limits)), public, max(2, longest)
    )
    expected = [place for place, mark in enumerate(marks) if mark == OPENS]
    cuts = np.sort(random.integers(0, values.size, 5))
    for splits in ([], cuts):
        group, found, done = PegasusGrouping(public, longest, 300), [], 0
        for part in zip(
            *(np.split(array, splits) for array in (values, tests, limits)), strict=True
        ):
            again = PegasusGrouping(public, longest, 300)  # resumed between any two pushes
            again.members, again.limit = sorted(group.members), group.limit
            found += [done + place for place in again.opens(*part)]
            group, done = again, done + part[0].size
        assert found == expected


def test_deviation_moves_by_less_than_twice_the_change():
    for values in product(range(4), repeat=3):
        for last in range(4):
            assert abs(deviation([*values, 0]) - deviation([*values, last])) <= 2 * last


def test_groups_by_hand():
    """Without noise and with a limit of 10: 4, 6 join (deviation 2), 20 does not (17.3), nor does
    9 begin a group that the last one joins (11)."""
    values = np.array([4, 6, 20, 9, 20, 7, 7])
    nothing = np.zeros(7, dtype=np.int64)
    assert PegasusGrouping(10, 50, 300).opens(values, nothing, nothing) == [0, 2, 3, 4, 5]


def probability(stage, values, marks):
    """Exactly that of these marks, from the scales of the stage and the rule of the docstring."""
    reach = 40 * stage.test_scale(1)
    places = np.arange(-reach, reach + 1)

    def law(scale):
        weights = np.exp(-np.abs(places) / scale)
        return weights / weights.sum()

    tail = np.cumsum(law(stage.test_scale(1)))  # P(noise ≤ place)
    limits, total, at = law(stage.limit_scale(1)), 1.0, 0
    while at < len(values):
        if marks[at] != 1:
            return 0.0
        chance, group, at = limits.copy(), [values[at]], at + 1
        while at < len(values):
            group.append(values[at])
            room = stage.public_limit(1) + places - deviation(group)  # noise must lie below
            joins = tail[np.clip(room - 1 + reach, 0, 2 * reach)]
            chance *= joins if marks[at] == 2 else 1 - joins
            at += 1
            if marks[at - 1] == 1:
                break
        total *= chance.sum()
    return total


@pytest.mark.parametrize("limit", ["1/2", 5])
def test_groups_cost_their_share_enumerated(limit):
    """θ = 1, five values, all neighbours, all marks: the loss of the groups is at most ε_g."""
    stage = GroupedValues(epsilon=10, limit=limit)
    share = float(stage.epsilon * stage.share)
    table = {}
    sequences = [(1, *rest) for rest in product((1, 2), repeat=4)]
    for values in product((0, 1), repeat=5):
        table[values] = np.array([probability(stage, values, marks) for marks in sequences])
        assert abs(table[values].sum() - 1) < 1e-9
    assert 0.05 * share < worst_loss(table) <= share


def test_scale_of_the_noise_of_values():
    values = np.tile([0, THETA], 3000)
    stage, _, spans = released(values)
    noise = (spans.numbers - values) / stage.value_scale(THETA)
    assert stage.value_scale(THETA) == math.ceil(Fraction(THETA * 5, 8 * 4))  # 4/5 of ε = 8
    error = 1 / math.sqrt(noise.size)
    size = float(np.abs(noise).mean())
    assert abs(size - 1) < 5 * error
    assert all(abs(size / factor - 1) > 5 * error for factor in WRONG)


def test_scales_of_the_groups():
    """How often the second value of a group of equal values joins it: two scales, one number."""
    stage = GroupedValues(epsilon=8, limit=10)
    run = run_of(stage)
    marks = run.push(np.full(12_000, 9)).marks.tolist()
    tried, joined, at = 0, 0, 0
    while at + 1 < len(marks):
        tried, joined = tried + 1, joined + (marks[at + 1] == 2)
        at += 1
        while at < len(marks) and marks[at] == 2:
            at += 1
        at += 1  # what failed the test is a group of its own

    def chance(factor):
        """P(test < T + limit) for continuous laws of scales a, b: by their difference."""
        a, b = (factor * one(THETA) for one in (stage.test_scale, stage.limit_scale))
        gap = stage.public_limit(THETA)
        return 1 - (a * a * math.exp(-gap / a) - b * b * math.exp(-gap / b)) / (2 * (a * a - b * b))

    rate, error = joined / tried, math.sqrt(chance(1) * (1 - chance(1)) / tried)
    assert tried > 1000
    assert abs(rate - chance(1)) < 4.5 * error
    assert all(abs(rate - chance(factor)) > 5 * error for factor in WRONG)


def test_published_are_means_of_groups():
    values = np.repeat([5, 20, 11], 200)
    _, out, spans = released(values, epsilon=20)
    total = count = 0
    for number, mark, shown in zip(
        spans.numbers.tolist(), spans.marks.tolist(), out.tolist(), strict=True
    ):
        total, count = (total + number, count + 1) if mark == 2 else (number, 1)
        assert shown == math.floor(Fraction(total, count) + Fraction(1, 2))


def test_published_are_medians_of_groups():
    """And a range of whole groups is the sum of their medians, times how many values they have."""
    values = np.repeat([5, 20, 11], 200)
    pipeline = pegasus(20, THETA, holdout=0, resolution=1, medians=True)
    release = pipeline.start(tg.seeded(2))
    out = release.push(values)
    spans = release.record.segments[0].leaves.spans()
    groups = []
    for number, mark, shown in zip(
        spans.numbers.tolist(), spans.marks.tolist(), out.tolist(), strict=True
    ):
        if mark != 2:
            groups.append([])
        groups[-1].append(number)
        assert shown == math.floor(Fraction(median(groups[-1])) + Fraction(1, 2))
    assert 3 < len(groups) < 100
    total = sum(len(group) * median(group) for group in groups)
    assert release.query(0, 600).estimate == pytest.approx(total)


def test_median_by_hand():
    """9, 2, 4 join: 9, then 5.5 as 6, then 4; 7 opens a group."""
    levels = MedianFilter(0)
    marks = np.array([1, 2, 2, 1])
    first = levels.push(MeasuredLeaves(np.array([9, 2]), marks[:2], marks[:2])).tolist()
    later = levels.push(MeasuredLeaves(np.array([4, 7]), marks[2:], marks[2:])).tolist()
    assert first + later == [9, 6, 4, 7]


@pytest.mark.parametrize("length", [1.2, 3, 25, 400])
@pytest.mark.parametrize("largest", [2, 10**6, 2**61])
def test_many_medians_are_those_of_one_after_the_other(length, largest):
    """Short and long groups, ties and large numbers, any split, resumed between any two pushes."""
    random = np.random.default_rng(int(10 * length))
    marks = np.where(random.random(900) < 1 / length, OPENS, 3 - OPENS)
    numbers = random.integers(-largest, largest, 900, endpoint=True)
    start = random.integers(-largest, largest, 5).tolist()
    group, expected = sorted(start), []
    for number, mark in zip(numbers.tolist(), marks.tolist(), strict=True):
        group = sorted([*([] if mark == OPENS else group), number])
        expected.append(float(math.floor(Fraction(median(map(Fraction, group))) + Fraction(1, 2))))
    for splits in ([], [1, 70, 80, 400], sorted(random.integers(0, 900, 7))):
        levels, found = MedianFilter(0), []
        levels.members = sorted(start)
        for parts in zip(np.split(numbers, splits), np.split(marks, splits), strict=True):
            if parts[0].size:
                found += levels.push(MeasuredLeaves(parts[0], parts[1], parts[1])).tolist()
                again = MedianFilter(7)
                again.level, again.members = levels.level, levels.members
                levels = again
        assert found == expected
        assert levels.members == group


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 15, 64, 127])
def test_variance_of_medians(count):
    """By 40,000 draws: never above what is said, and no more than 16 % below it."""
    draws = np.random.default_rng(count).laplace(size=(40_000, count))
    found = np.median(draws, axis=1).var() / median_variances(np.array([float(count)]))[0]
    assert 0.84 - 0.04 < found < 1 + 0.05


def skewed(count, share=0.1):
    """Some values are at the bound, the others at 0: as uneven as it gets."""
    return np.where(np.random.default_rng(3).random(count) < share, THETA, 0)


@pytest.mark.parametrize("epsilon", ["1/4", 2, 40])
def test_intervals_of_medians_hold_what_they_say(epsilon):
    random = np.random.default_rng(1)
    steady = np.repeat(random.integers(0, THETA, size=30), 20)
    pipeline = pegasus(epsilon, THETA, holdout=0, horizon=600, resolution=1, medians=True)
    starts = random.integers(0, 300, size=40)
    ends = starts + random.integers(1, 300, size=40)
    for values in (steady, skewed(600)):
        assert coverage(pipeline, values, starts, ends, releases=20) > 0.93


def test_medians_of_uneven_groups_are_off_by_no_more_than_is_said():
    """One long group, 45 in 100 at the bound, next to no noise: the median is nearly 0.45 θ off."""
    settings = {"holdout": 0, "horizon": 4000, "limit": 10**9, "medians": True}
    pipeline = pegasus(100, THETA, resolution="1/100", **settings)
    values, misses = skewed(4000, 0.45), []
    for seed in range(6):
        release = pipeline.start(tg.seeded(seed))
        release.push(values)
        answer = release.query(0, 4000)
        misses.append(values.sum() - answer.estimate)
        # Half of the bias counts as a standard error; next to it the rest is nothing here.
        assert misses[-1] < 2 * (answer.high - answer.estimate) / 1.96 * (1 + 1e-6)
        assert answer.low < values.sum() < answer.high
    assert min(misses) > 0.4 * THETA * 4000


def test_groups_help_where_the_stream_is_steady():
    """The paper's own kind of stream: single values, against independent noise with all of ε."""
    values = np.repeat(np.random.default_rng(2).integers(0, THETA, size=12), 500)
    _, out, _ = released(values, epsilon=2)
    flat = 2 * (THETA / 2) ** 2
    assert np.square(out - values).mean() < flat / 3


def test_long_groups_are_closed_by_their_length():
    stage = GroupedValues(epsilon="1/100", limit=10**6)
    run = run_of(stage)
    marks = run.push(np.full(2**15 + 5, 3)).marks
    assert np.flatnonzero(marks == 1).tolist() == [0, 2**14, 2**15]


def test_intervals_hold_what_they_say():
    random = np.random.default_rng(1)
    values = np.repeat(random.integers(0, THETA, size=30), 20)
    pipeline = pegasus(4, THETA, holdout=0, horizon=100, resolution=1)
    starts = random.integers(0, 500, size=40)
    ends = starts + random.integers(1, 100, size=40)
    assert coverage(pipeline, values, starts, ends, releases=30) > 0.93


def test_noise_error_of_whole_groups_is_that_of_their_values():
    values = np.full(64, 10)
    pipeline = pegasus(50, THETA, holdout=0, horizon=64, limit=100, resolution=1)
    release = pipeline.start(tg.seeded(3))
    release.push(values)
    answer = release.query(0, 64)
    scale = pipeline.perturber.value_scale(THETA)
    assert answer.noise_error == pytest.approx(math.sqrt(64 * 2) * scale, rel=1e-6)
    assert discrete_laplace_variance(Fraction(scale)) <= 2 * scale**2


def test_noise_error_of_whole_groups_of_medians():
    """One group of 64: s·√v(64) for each value, times 64."""
    more = {"holdout": 0, "horizon": 64, "limit": 10**4, "resolution": 1, "medians": True}
    pipeline = pegasus(50, THETA, **more)
    release = pipeline.start(tg.seeded(3))
    release.push(np.full(64, 10))
    variance = float(median_variances(np.array([64.0]))[0])
    scale = pipeline.perturber.value_scale(THETA)
    expected = 64 * scale * math.sqrt(variance)
    assert release.query(0, 64).noise_error == pytest.approx(expected, rel=1e-6)


def test_settings_that_cannot_be():
    for wrong in (0, 1, 2):
        with pytest.raises(SettingError, match="share"):
            pegasus(1, 1, share=wrong)
    with pytest.raises(SettingError, match="limit"):
        GroupedValues(epsilon=1, limit=-1)
