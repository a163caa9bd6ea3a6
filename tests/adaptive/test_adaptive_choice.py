"""The choice of trees sees released data only; caps and scales are what the argument needs."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tidegate.perturb.adaptive.adaptive_run import consistent_adaptive_noise
from tidegate.perturb.adaptive.adaptive_trees import AdaptiveTrees
from tidegate.perturb.adaptive.tree_shapes import (
    RANGE_ERROR,
    SHARES,
    cap_factor_of_shape,
    shares_of_tree_levels,
)
from tidegate.stages import Layout, Noisy

THETA, CEILING = 50, 53


def stage(**chosen: Any) -> AdaptiveTrees:
    return AdaptiveTrees(**{"epsilon": "1/2", "horizon": 4000, **chosen})


def keystream(seed: int = 1) -> Any:
    return tg.seeded(seed).new_epoch().keystream("perturb", b"adaptive")


def pipeline(**chosen: Any) -> tg.Pipeline:
    return tg.Pipeline(
        threshold=tg.threshold.Fixed(THETA),
        perturber=stage(**chosen),
        estimator=tg.estimate.Mixture(),
    )


def drifting(count: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.minimum(random.poisson(15 * (1 + np.sin(np.arange(count) / 300))), 40)


@pytest.mark.parametrize(
    "horizon", [1, 2, 15, 16, 31, 60, 511, 1000, 4096, 12_345, 2**20, 10**9 + 7]
)
def test_blocks_cover_a_horizon_exactly(horizon: int) -> None:
    for chunk in (0, 1, 7):
        lengths = stage(horizon=horizon).lengths(chunk)
        assert sum(lengths) == horizon
        assert min(lengths) >= min(16, horizon)
        assert len(lengths) <= 21


def test_the_blocks_of_the_note() -> None:
    parts = [2**20 // length for length in stage(horizon=2**20).lengths(0)]
    assert parts == [512, 512, 256, 128, 64, 32] + [16] * 15


@pytest.mark.parametrize("epsilon", ["1/100", "1/2", "3"])
@pytest.mark.parametrize("theta", [1, 7, 1000, 10**9])
def test_every_tree_spends_at_most_epsilon_and_hardly_less(theta: int, epsilon: str) -> None:
    one = stage(epsilon=epsilon)
    for tree in one.layouts(4000, theta, 10**10):
        spent = sum(Fraction(tree.cap) / scale for scale in tree.scales)
        assert (1 - Fraction(1, 10**5)) * one.epsilon < spent <= one.epsilon
        assert len(tree.scales) == len(tree.nodes)
        assert 1 <= tree.cap <= 10**10


def test_caps_never_exceed_the_bound_and_fall_with_the_noise() -> None:
    factors = [cap_factor_of_shape(shape) for shape in RANGE_ERROR]
    assert factors == sorted(factors, reverse=True)
    assert all(tree.cap <= CEILING for tree in stage().layouts(4000, THETA, CEILING))
    assert stage().layouts(4000, THETA, CEILING)[0].cap == CEILING


def test_range_errors_are_those_of_the_trees() -> None:
    """16·V/3 + twice the mean variance of the bridge, from the covariance of least squares.

    The watchful tree's leaves are so noisy that calm forecasts ignore them: there is no bridge.
    """
    for shape, expected in RANGE_ERROR.items():
        leaves = shape[-1]
        design = np.concatenate([np.kron(np.eye(n), np.ones(leaves // n)) for n in shape])
        precision = [
            np.full(n, part**2 / 2)
            for n, part in zip(shape, shares_of_tree_levels(shape), strict=True)
        ]
        weight = np.concatenate(precision).astype(np.float64)
        covariance = np.linalg.inv(design.T @ (design * weight[:, None]))
        prefix = np.cumsum(np.cumsum(covariance, 0), 1)
        end = prefix[-1, -1]
        bridge = np.diag(prefix) - end * np.arange(1, leaves + 1) / leaves
        seen = 0.0 if shape in SHARES else 2 * bridge.mean()
        assert 16 * end / 3 + seen == pytest.approx(expected, rel=0.005)
        assert sum(shares_of_tree_levels(shape)) == 1


def test_short_blocks_have_no_more_leaves_than_values() -> None:
    for length in (1, 2, 3, 9, 63, 64, 127, 128):
        assert all(tree.leaves <= length for tree in stage().layouts(length, THETA, CEILING))


@pytest.mark.parametrize("shape", RANGE_ERROR)
def test_online_is_offline_and_the_measured_sums_are_equivariant(shape: tuple[int, ...]) -> None:
    """Truth added to every node first, then combined: the same bits; the noise feels no data."""
    one = stage(nodes=shape, horizon=1500)
    values = np.random.default_rng(3).integers(0, 80, size=1500)
    run, silent = (one.start(THETA, CEILING, keystream()) for _ in range(2))
    at = 0
    for length in one.lengths(0):
        tree = run.options[0]
        edges = [tree.edge(leaf) for leaf in range(tree.leaves + 1)]
        part = np.minimum(values[at : at + length], tree.cap)
        sums = np.add.reduceat(part, edges[:-1])
        run.begin(0)
        silent.begin(0)
        noisy = [
            node + sums.reshape(count, -1).sum(axis=1)
            for node, count in zip(run.nodes(tree), tree.nodes, strict=True)
        ]
        offline = consistent_adaptive_noise(noisy, tree)
        online = run.push(values[at : at + length]).sums
        np.testing.assert_array_equal(online, offline)
        noise = silent.push(np.zeros(length, dtype=np.int64)).sums
        np.testing.assert_array_equal(online - noise, sums)
        at += length
    assert run.chunk == 1


@pytest.mark.parametrize("shape", RANGE_ERROR)
def test_ranges_are_within_one_unit_of_exact_least_squares(shape: tuple[int, ...]) -> None:
    tree = stage(nodes=shape).layouts(4000, THETA, CEILING)[0]
    run = stage(nodes=shape).start(THETA, CEILING, keystream(4))
    nodes = run.nodes(tree)
    leaves = shape[-1]
    design = np.concatenate([np.kron(np.eye(n), np.ones(leaves // n)) for n in shape])
    precision = np.concatenate(
        [np.full(n, v**-0.5) for n, v in zip(shape, tree.variances, strict=True)]
    )
    noise = np.concatenate(nodes)
    exact = np.linalg.lstsq(design * precision[:, None], noise * precision, rcond=None)[0]
    errors = np.cumsum(consistent_adaptive_noise(nodes, tree) - exact)
    assert np.abs(errors).max() <= 0.5 + 1e-6


def test_streams_with_the_same_released_sums_choose_the_same_trees() -> None:
    """Values turned around inside every leaf of 4000/21 blocks: other raw data, same releases."""
    one = pipeline(horizon=4096)
    values = drifting(9000)
    first = one.start(tg.seeded(5))
    out = first.push(values)
    course = first.record.segments[0]
    turned = values.copy()
    at = 0
    for tree in course.layouts:
        for leaf in range(tree.leaves):
            inside = slice(at + tree.edge(leaf), at + tree.edge(leaf + 1))
            if inside.stop <= values.size:
                turned[inside] = turned[inside][::-1]
        at += tree.length
    assert not np.array_equal(values, turned)
    second = one.start(tg.seeded(5))
    again = second.push(turned)
    other = second.record.segments[0]
    assert [tree.nodes for tree in other.layouts] == [tree.nodes for tree in course.layouts]
    assert len({tree.nodes for tree in course.layouts}) > 1  # there was something to choose
    np.testing.assert_array_equal(out, again)
    np.testing.assert_array_equal(other.released, course.released)


def test_trees_and_output_can_be_computed_from_what_was_released() -> None:
    """Replay the forecaster alone on the released sums: the same choices, the same stream."""
    one = pipeline(horizon=4096)
    release = one.start(tg.seeded(6))
    out = release.push(drifting(8192))
    course = release.record.segments[0]
    released = iter(course.released.tolist())
    run = one.estimator.start(threshold=THETA, perturber=one.perturber)
    rebuilt: list[float] = []
    position = 0
    for chunk in range(2):
        for number, length in enumerate(one.perturber.lengths(chunk)):
            options = one.perturber.layouts(length, THETA, one.ceiling)
            choice = run.choose(options, first=number == 0)
            tree: Layout = options[choice]
            run.begin(tree)
            part = np.zeros(length)
            sums = [next(released) for _ in range(tree.leaves)]
            run.push(Noisy(np.array(sums, dtype=np.int64)), part)
            rebuilt.extend(part.tolist())
            position += length
    np.testing.assert_array_equal(out, rebuilt)


def test_a_tree_cannot_be_changed_once_its_block_has_begun() -> None:
    run = stage().start(THETA, CEILING, keystream())
    run.begin(0)
    with pytest.raises(AssertionError, match="open"):
        run.begin(1)
    fresh = stage().start(THETA, CEILING, keystream())
    with pytest.raises(AssertionError, match="no tree"):
        fresh.push(np.ones(3, dtype=np.int64))


def test_no_two_trees_share_noise() -> None:
    run = stage().start(THETA, CEILING, keystream())
    trees = run.options
    draws = {run.nodes(tree)[-1][:1].tobytes() + run.nodes(tree)[0].tobytes() for tree in trees}
    assert len(draws) == len(trees)


def test_a_guided_perturber_needs_a_forecaster() -> None:
    with pytest.raises(tg.SettingError, match=r"estimate\.Mixture"):
        tg.Pipeline(threshold=tg.threshold.Fixed(9), perturber=stage())
    with pytest.raises(tg.SettingError, match="perturber"):
        tg.Pipeline(
            threshold=tg.threshold.Fixed(9),
            perturber=tg.threshold.Fixed(9),
            estimator=tg.estimate.Mixture(),
        )
    with pytest.raises(tg.SettingError, match="nodes"):
        stage(nodes=[3, 5])


def test_nodes_of_any_shape_are_refused_in_words() -> None:
    """Found by `make fuzz`: lists in a list, which cannot be looked up."""
    with pytest.raises(tg.SettingError, match="nodes"):
        tg.perturb.AdaptiveTrees(epsilon=1, horizon=60, nodes=[[1], 8])
