"""Any fan-out, horizon, skipped levels: it runs, and its variances are those of the real noise."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tidegate as tg
from tests.depth import examples
from tidegate.perturb import forest_geometry
from tidegate.perturb.consistency import own_weights
from tidegate.perturb.forest_geometry import Forest, level_count
from tidegate.perturb.hierarchy_and_flat import best_levels


@st.composite
def hierarchies(draw: st.DrawFn) -> tg.perturb.Hierarchy:
    fanout = draw(st.integers(2, 20))
    horizon = draw(st.one_of(st.integers(1, 60), st.integers(1, 5000)))
    skipped = draw(st.one_of(st.none(), st.integers(0, min(3, level_count(fanout, horizon)))))
    block = 1 if skipped is None else fanout**skipped
    most = level_count(fanout, -(-horizon // block)) + 1
    levels = None if skipped is None else draw(st.one_of(st.none(), st.integers(1, most)))
    assume(levels is None or fanout ** (levels - 1) <= 200_000)
    return tg.perturb.Hierarchy(
        epsilon="1/2", horizon=horizon, fanout=fanout, skipped=skipped, levels=levels,
        consistent=draw(st.booleans()),
    )  # fmt: skip


@settings(max_examples=examples(80))
@given(hierarchies(), st.integers(0, 2**32))
def test_any_geometry_releases_over_several_horizons(
    stage: tg.perturb.Hierarchy, seed: int
) -> None:
    """All-zero input shows the noise, the same seed with other input shows the sums."""
    pipeline = tg.Pipeline(threshold=tg.threshold.Fixed(9), perturber=stage)
    block = stage.block
    count = 5 * stage.blocks * block // 2 + 1
    values = np.random.default_rng(seed).integers(0, 10, size=count)
    noise, release = pipeline.start(tg.seeded(seed)), pipeline.start(tg.seeded(seed))
    noise.push(np.zeros(count))
    out = release.push(values)
    assert out.size == count
    assert np.isfinite(out).all()
    ends = np.arange(1, count // block + 1) * block
    moved = (
        release.queries(ends - block, ends).estimate - noise.queries(ends - block, ends).estimate
    )
    sums = values[: count // block * block].reshape(-1, block).sum(axis=1)
    np.testing.assert_array_equal(moved, sums)
    assert stage.tree_levels <= level_count(stage.fanout, stage.blocks) + 1
    assert stage.blocks * block >= stage.horizon


def leaf_map(forest: Forest) -> np.ndarray:
    """The linear map from node noise to leaves, found by pushing unit vectors through `combine`.

    Units are large, so that rounding to integers (which `combine` does on purpose) is far below
    what the comparison resolves.
    """
    trees = -(-forest.leaves // forest.tree_leaves)
    leaves = trees * forest.tree_leaves
    widths = [leaves // forest.fanout**level for level in range(forest.levels)]
    unit = 10**9
    columns = []
    for level, width in enumerate(widths):
        for index in range(width):
            nodes = [np.zeros(size, dtype=np.int64) for size in widths]
            nodes[level][index] = unit
            columns.append(forest.combine(nodes, 0.0)[0] / unit)
    return np.stack(columns, axis=1)


def covariance(forest: Forest) -> np.ndarray:
    """Of the published leaves of one horizon."""
    trees = -(-forest.leaves // forest.tree_leaves)
    leaves = trees * forest.tree_leaves
    variances = np.concatenate(
        [
            np.full(leaves // forest.fanout**level, variance)
            for level, variance in enumerate(forest.variances)
        ]
    )
    matrix = leaf_map(forest)[: forest.leaves]
    return (matrix * variances) @ matrix.T


@settings(max_examples=examples(40))
@given(
    st.integers(2, 6), st.integers(1, 40), st.data(), st.booleans(), st.integers(0, 2**32)
)  # fmt: skip
def test_range_variance_is_that_of_the_explicit_covariance(
    fanout: int, leaves: int, data: st.DataObject, consistent: bool, seed: int
) -> None:
    most = level_count(fanout, leaves) + 1
    scales = data.draw(
        st.lists(
            st.fractions(Fraction(1, 2), 30, max_denominator=8),
            min_size=1,
            max_size=most if fanout ** (most - 1) <= 130 else most - 1,
        )
    )
    forest = Forest(fanout, leaves, tuple(scales), consistent)
    matrix = covariance(forest)
    random = np.random.default_rng(seed)
    ends = random.integers(0, 4 * leaves + 1, size=(2, 60))
    starts, ends = ends.min(axis=0), ends.max(axis=0)
    found = forest.range_variance(starts, ends)
    for start, end, variance in zip(starts, ends, found, strict=True):
        expected = 0.0
        for horizon in range(5):  # horizons are independent
            low = np.clip(start - horizon * leaves, 0, leaves)
            high = np.clip(end - horizon * leaves, 0, leaves)
            inside = np.zeros(leaves)
            inside[low:high] = 1
            expected += inside @ matrix @ inside
        assert math.isclose(variance, expected, rel_tol=1e-6, abs_tol=1e-6)


def test_range_variance_by_hand() -> None:
    """Binary tree of two levels over two leaves, variance 1 each, one top node.

    Least squares: each leaf is (its draw) + ⅓(top − both draws); variance of a leaf
    (2/3)² + (1/3)² + (1/3)² = 2/3, of both leaves (2/3)²·1 + 2·(1/3)² = 2/3.
    Without consistency: the first prefix is leaf 1, the second is the top: 1 and 1; the second leaf
    is their difference: 2.
    """
    scale = Fraction(10**6)  # as good as continuous: variance 2·scale²
    unit = 2 * float(scale) ** 2
    starts, ends = np.array([0, 0, 1]), np.array([2, 1, 2])
    consistent = Forest(2, 2, (scale, scale), True).range_variance(starts, ends)
    np.testing.assert_allclose(consistent / unit, [2 / 3, 2 / 3, 2 / 3], rtol=1e-9)
    plain = Forest(2, 2, (scale, scale), False).range_variance(starts, ends)
    np.testing.assert_allclose(plain / unit, [1, 1, 2], rtol=1e-9)


@pytest.mark.parametrize("consistent", [True, False])
def test_range_variance_is_that_of_drawn_noise(consistent: bool) -> None:
    """From keystream to published leaves: nothing between the law and the noise."""
    forest = Forest(3, 24, (Fraction(9), Fraction(9), Fraction(15)), consistent)
    keystream = tg.seeded(3).new_epoch().keystream("perturb", b"")
    draws = np.stack(
        [forest.combine(forest.nodes(keystream, chunk, 0), 0.0)[0][:24] for chunk in range(2000)]
    )
    prefix = np.concatenate((np.zeros((2000, 1)), np.cumsum(draws, axis=1)), axis=1)
    starts = np.array([0, 0, 5, 1, 9, 2, 17])
    ends = np.array([24, 9, 6, 20, 18, 4, 24])
    empirical = np.var(prefix[:, ends] - prefix[:, starts], axis=0)
    expected = forest.range_variance(starts, ends)
    # The variance of 2,000 draws with kurtosis up to 6 is off by about 5 %.
    np.testing.assert_allclose(empirical, expected, rtol=0.12)
    assert np.all(np.abs(empirical / expected - 1.3) > 0.15)  # and 30 % off would be seen


def test_empty_input_and_empty_ranges() -> None:
    forest = Forest(2, 5, (Fraction(3), Fraction(3)))
    nothing = np.array([], dtype=np.int64)
    assert forest.range_variance(nothing, nothing).size == 0
    where = np.arange(20)
    np.testing.assert_allclose(forest.range_variance(where, where), 0, atol=1e-9)


@given(st.integers(2, 40), st.integers(1, 10**18))
def test_level_count_is_exact(fanout: int, leaves: int) -> None:
    levels = level_count(fanout, leaves)
    assert levels >= 1
    assert fanout**levels >= leaves
    assert levels == 1 or fanout ** (levels - 1) < leaves


@pytest.mark.parametrize("fanout", [2, 3, 5, 10, 16])
def test_level_count_at_and_next_to_powers(fanout: int) -> None:
    """`int(math.log(n, b))` fails here: log(125, 5) is 3.0000000000000004."""
    for power in range(1, 20):
        assert level_count(fanout, fanout**power) == power
        assert level_count(fanout, fanout**power + 1) == power + 1


@pytest.mark.parametrize("consistent", [True, False])
@pytest.mark.parametrize(
    ("fanout", "leaves"),
    [(2, 1), (2, 3), (2, 64), (3, 28), (4, 65), (16, 17), (16, 256), (16, 257)],
)
def test_best_levels_has_the_least_mean_variance(
    fanout: int, leaves: int, consistent: bool
) -> None:
    """Over ALL ranges, to a few per cent (it looks at a sample of them)."""
    starts, ends = np.triu_indices(leaves + 1)
    means = {}
    for levels in range(1, level_count(fanout, leaves) + 1):
        forest = Forest(fanout, leaves, (Fraction(levels * 1000),) * levels, consistent)
        means[levels] = forest.range_variance(starts, ends).mean()
    chosen = best_levels(fanout, leaves, consistent)
    assert means[chosen] <= 1.03 * min(means.values())


@pytest.mark.parametrize("fanout", [2, 3, 16])
def test_own_weights_are_the_papers(fanout: int) -> None:
    """(b^l − b^(l−1))/(b^l − 1), the paper's l counting leaves as 1."""
    weights = own_weights(fanout, [2.5] * 6)
    expected = [(fanout**h - fanout ** (h - 1)) / (fanout**h - 1) for h in range(2, 7)]
    np.testing.assert_allclose(weights, expected, rtol=1e-12)


def test_own_weights_by_hand_for_unequal_levels() -> None:
    """Leaves of variance 1, four of them sum to 4; the parent's own draw has variance 12:
    trust 4/(4 + 12) = ¼; together 4·12/16 = 3. One level up: 4·3 = 12 against 4: 12/16 = ¾."""
    assert own_weights(4, [1.0, 12.0, 4.0]) == (0.25, 0.75)
    assert own_weights(4, [1.0]) == ()


def test_shares_are_leaves_first() -> None:
    """θ = 9, ε = ½, shares 3 : 1 : ½ of 4½: 9/(½·⅔) = 27, 9/(½·2/9) = 81, 9/(½·1/9) = 162."""
    stage = tg.perturb.Hierarchy(
        epsilon="1/2", horizon=60, fanout=4, skipped=0, shares=[3, 1, "1/2"]
    )
    scales = [float(scale) for scale in stage.noise_law(9).scales]
    np.testing.assert_allclose(scales, [27, 81, 162], rtol=1e-5)


def test_groves_hold_whole_trees_and_stay_small() -> None:
    for fanout, levels, leaves in [
        (16, 1, 10**6),
        (16, 3, 10**6),
        (2, 1, 3),
        (16, 4, 10),
        (2, 14, 9000),
    ]:
        forest = Forest(fanout, leaves, (Fraction(9),) * levels)
        assert forest.grove_leaves % forest.tree_leaves == 0
        assert forest.grove_leaves <= max(forest.tree_leaves, forest_geometry._GROVE_LEAVES)
