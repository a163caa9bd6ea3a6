"""Counters whose noise is made for a horizon: exact, right in scale, honest in their error bars."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.methods.coverage import coverage
from tidegate.errors import SettingError
from tidegate.methods.honaker import BottomUpTree, HonakerForest, honaker
from tidegate.methods.signed_digit_tree import SignedDigitNoise, SignedDigits, signed_digit_tree
from tidegate.methods.smooth_binary import (
    SmoothBinary,
    SmoothBinaryNoise,
    smooth_binary,
    zeros_needed,
)

WRONG = (0.7, 1.3)
BIG = 1 << 40  # rounding does not show in draws as large


def keystream() -> Any:
    return tg.seeded(7).new_epoch().keystream("perturb", b"")


def equal(levels: int) -> tuple[Fraction, ...]:
    return (Fraction(1000),) * levels


def balanced(leaves: int) -> tuple[list[int], list[list[tuple[int, int]]]]:
    """The numbers of the leaves, one more than values, and the nodes that are drawn, by level.

    Made from the definition: a node is the bits above a zero of some leaf that has another leaf
    with a one there.
    """
    width = 2 * zeros_needed(leaves)
    every = [n for n in range(1 << width) if n.bit_count() == width // 2]
    numbers = every[: leaves + 1]
    drawn = []
    for level in range(width):
        rest = width - 1 - level
        left, right = {n >> rest for n in numbers}, {n >> rest for n in every}
        drawn.append(sorted((level, b) for b in left if not b % 2 and b + 1 in right))
    return numbers, drawn


def held(law: Any, values: list[int]) -> list[np.ndarray]:
    """What every node that is drawn holds of these values."""
    if isinstance(law, HonakerForest):
        padded = np.zeros(law.grove_leaves, dtype=np.int64)
        padded[: len(values)] = values
        return [padded.reshape(-1, law.fanout**level).sum(1) for level in range(law.levels)]
    counts = [draws.size for draws in law.nodes(keystream(), 0, 0)]
    if isinstance(law, SignedDigitNoise):
        padded = np.zeros(max(n * law.fanout**at for at, n in enumerate(counts)), dtype=np.int64)
        padded[: len(values)] = values
        return [
            padded[: n * law.fanout**level].reshape(n, -1).sum(1) for level, n in enumerate(counts)
        ]
    numbers, drawn = balanced(law.leaves)
    found = []
    for nodes in drawn:
        inside = [
            sum(
                v for n, v in zip(numbers, values, strict=False) if n >> len(drawn) - 1 - at == bits
            )
            for at, bits in nodes
        ]
        found.append(np.array(inside, dtype=np.int64))
    assert [one.size for one in found] == counts
    return found


LAWS = {
    "bottom up": HonakerForest(2, 27, equal(6)),
    "bottom up, 3": HonakerForest(3, 27, (Fraction(2000), Fraction(900), Fraction(500))),
    "signed digits": SignedDigitNoise(5, 60, equal(3)),
    "signed digits, 3": SignedDigitNoise(3, 40, (Fraction(700), *equal(3))),
    "balanced": SmoothBinaryNoise(40, 10**6),
    "balanced, whole": SmoothBinaryNoise(19, 10**6),
}


@pytest.mark.parametrize("name", LAWS)
def test_what_is_published_is_a_function_of_the_noisy_nodes(name):
    """Bit for bit the true values plus noise that never saw them; each node counts values once."""
    law, random = LAWS[name], np.random.default_rng(3)
    values = random.integers(0, 1000, size=law.leaves).tolist()
    draws = law.nodes(keystream(), 0, 0)
    noisy = [one + two for one, two in zip(draws, held(law, values), strict=True)]
    noise, published = law.combine(draws, 0.0)[0], law.combine(noisy, 0.0)[0]
    assert published[: law.leaves].tolist() == (noise[: law.leaves] + values).tolist()


@pytest.mark.parametrize("name", LAWS)
def test_variance_of_ranges_is_that_of_the_linear_map(name):
    law = LAWS[name]
    shapes = [draws.size for draws in law.nodes(keystream(), 0, 0)]
    if isinstance(law, SmoothBinaryNoise):
        variances = [float(law.variance)] * len(shapes)
    else:
        variances = [2.0 * float(scale) ** 2 for scale in law.scales]
    covariance = np.zeros((law.leaves + 1, law.leaves + 1))
    for level, count in enumerate(shapes):
        for node in range(count):
            draws = [np.zeros(shape, dtype=np.int64) for shape in shapes]
            draws[level][node] = BIG
            moved = np.cumsum(law.combine(draws, 0.0)[0][: law.leaves]) / BIG
            column = np.concatenate(([0.0], moved))
            covariance += variances[level] * np.outer(column, column)
    starts, ends = np.triu_indices(law.leaves + 1)
    exact = covariance[starts, starts] + covariance[ends, ends] - 2 * covariance[starts, ends]
    np.testing.assert_allclose(law.range_variance(starts, ends), exact, rtol=1e-5)
    across = law.range_variance(np.array([3]), np.array([2 * law.leaves + 5]))
    parts = law.range_variance(np.array([3, 0, 0]), np.array([law.leaves, law.leaves, 5]))
    np.testing.assert_allclose(across, parts.sum())


def test_bottom_up_by_hand():
    """Equal variances: a parent has weight 2/3 against two leaves, the root 4/7."""
    leaves, parents, root = np.array([21, 42, 63, 84]), np.array([126, 210]), np.array([441])
    law = HonakerForest(2, 4, equal(3))
    left = 2 / 3 * 126 + 1 / 3 * (21 + 42)
    right = 2 / 3 * 210 + 1 / 3 * (63 + 84)
    running = [21, left, left + 63, 4 / 7 * 441 + 3 / 7 * (left + right)]
    assert np.cumsum(law.combine([leaves, parents, root], 0.0)[0]).tolist() == running


def test_signed_digits_by_hand():
    """Fan-out 3, 13 values: 5 = 9 − 3 − 1 takes the first nine, without two nodes on the right."""
    law = SignedDigitNoise(3, 13, equal(3))
    nodes = [10 ** np.arange(0, 14), 7 * 2 ** np.arange(0, 5), np.array([1000, 5000])]
    running = np.cumsum(law.combine([one.astype(np.int64) for one in nodes], 0.0)[0])
    assert running[0] == 1  # 1
    assert running[1] == 7 - 10**2  # 3 − 1
    assert running[4] == 1000 - 7 * 4 - 10**5  # 9 − 3 − 1: values 6 to 8 are node 2, value 5 itself
    assert running[12] == 1000 + 7 * 8 + 10**12  # 9 + 3 + 1


def test_balanced_by_hand():
    """m = 2: leaves 0011, 0101, 0110, 1001, 1010, 1100."""
    law = SmoothBinaryNoise(5, 1)
    assert balanced(5)[1] == [[(0, 0)], [(1, 0), (1, 2)], [(2, 2), (2, 4)], []]
    draws = [np.array([1000]), np.array([10, 20]), np.array([1, 2]), np.array([], dtype=np.int64)]
    running = np.cumsum(law.combine(draws, 0.0)[0]).tolist()
    # 0101: its first one has 00.. on the left. 0110: two. 1001: the half 0... And so on.
    assert running == [10, 11, 1000, 1002, 1020]


def test_budgets_are_spent_and_not_exceeded():
    for threshold in (1, 9, 10**6):
        for stage in (
            BottomUpTree(epsilon="1/3", horizon=100),
            SignedDigits(epsilon="1/3", horizon=100),
        ):
            spent = sum(threshold / scale for scale in stage.noise_law(threshold).scales)
            assert stage.epsilon * (1 - Fraction(1, 10**4)) < spent <= stage.epsilon
            assert stage.guarantee.epsilon == stage.epsilon
        smooth = SmoothBinary(rho="1/50", delta="1e-6", horizon=100)
        law = smooth.noise_law(threshold)
        spent = Fraction(threshold**2 * zeros_needed(100), 2 * law.variance)
        assert smooth.rho * (1 - Fraction(1, 100)) < spent <= smooth.rho


@pytest.mark.parametrize("name", LAWS)
def test_a_value_lies_in_as_many_nodes_as_it_pays_for(name):
    law = LAWS[name]
    units = np.eye(law.leaves, dtype=np.int64).tolist()
    counts = [[int(np.abs(level).sum()) for level in held(law, unit)] for unit in units]
    if isinstance(law, SmoothBinaryNoise):
        assert max(map(sum, counts)) <= law.zeros
    else:
        assert max(map(max, counts)) == 1


@pytest.mark.parametrize(
    ("pipeline", "laplace"),
    [
        (honaker(1, 2000, horizon=7, holdout=0, resolution=1), 4),  # levels: 7 ≤ 8 leaves
        (signed_digit_tree(1, 2000, horizon=7, holdout=0, fanout=3, resolution=1), 3),
        (smooth_binary(1, 2000, delta="1e-6", horizon=7, holdout=0, resolution=1), 0),
    ],
)
def test_scale_of_the_noise(pipeline, laplace):
    """Black box: zeros in, noise out. The first value of a horizon has one draw: 1,200 of them."""
    out = pipeline.start(tg.seeded(5)).push(np.zeros(7 * 1200)).reshape(1200, 7)
    claimed = 2 * (laplace * 2000.0) ** 2
    if not laplace:
        claimed = 3 * 2000.0**2 / (2 * float(pipeline.guarantee.rho))  # m = 3: 20 leaves
    law = pipeline.perturber.noise_law(2000)
    ends = np.arange(2, 8)
    whole = law.range_variance(np.zeros_like(ends), ends)
    moments = np.square(np.cumsum(out, axis=1)).mean(axis=0)
    for found, variance in zip(moments, (claimed, *whole), strict=True):
        ratio, error = found / variance, np.sqrt((5 if laplace else 2) / 1200)
        assert abs(ratio - 1) < 5 * error
        assert all(abs(ratio / factor**2 - 1) > 5 * error for factor in WRONG)


@pytest.mark.parametrize("preset", [honaker, signed_digit_tree, smooth_binary])
def test_intervals_hold_what_they_say(preset):
    values = np.random.default_rng(1).integers(0, 50, size=300)
    more = {"delta": "1e-6"} if preset is smooth_binary else {}
    pipeline = preset(2, 50, horizon=128, holdout=0, **more)
    starts, ends = np.arange(0, 240, 13), np.arange(40, 280, 13)
    assert 0.91 < coverage(pipeline, values, starts, ends, releases=40) < 0.985


def _variance(pipeline: tg.Pipeline, ends: np.ndarray) -> float:
    law = pipeline.perturber.noise_law(1000)
    return float(law.range_variance(np.zeros_like(ends), ends).mean())


def test_order_of_the_counters_for_running_sums():
    """At 2^20 values. Published: signed digits about 4 times below Honaker, and that about half of
    the binary tree."""
    ends = np.arange(1, 2**20, 997)
    plain = {"horizon": 2**20, "holdout": 0, "resolution": "1/1000"}
    digits, online, tree = (
        _variance(make(1, 1, **plain), ends)
        for make in (signed_digit_tree, honaker, tg.binary_tree)
    )
    assert 3.9 < online / digits < 4.3
    assert 1.8 < tree / online < 2
    full = _variance(honaker(1, 1, full=True, **plain), ends)
    assert full < online / 2


def test_every_running_sum_of_the_smooth_tree_has_nearly_the_same_error():
    law = SmoothBinary(rho=1, delta="1e-6", horizon=5000).noise_law(1)
    ends = np.arange(50, 5000)
    variances = law.range_variance(np.zeros_like(ends), ends)
    assert variances.max() / variances.mean() < 1.4
    assert all(one < other for one, other in pairwise((0, *map(zeros_needed, (1, 5, 19, 69)))))


def test_settings_that_cannot_be():
    with pytest.raises(SettingError, match="fanout: must be odd"):
        signed_digit_tree(1, 1, fanout=4)
    for preset in (honaker, signed_digit_tree, smooth_binary):
        with pytest.raises(SettingError, match="horizon: is too long"):
            preset(1, 1, horizon=2**25, holdout=0)
        with pytest.raises(SettingError, match="resolution: too fine"):
            preset("1e-6", 10**9, horizon=2**20, holdout=0, resolution="1e-6")
