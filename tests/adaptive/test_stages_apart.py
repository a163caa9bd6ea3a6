"""The stages of the adaptive release with others: a fixed tree that is followed, θ for ToPS."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.adaptive.paths import covariance_of
from tests.laws.catalogue import perturbers
from tidegate.estimate.mixture.kalman_filter.leaf_noise import leaf_noise_path

HORIZON = 4096


def followed(**chosen: Any) -> tg.Pipeline:
    tree = tg.perturb.Hierarchy(
        **{"epsilon": "1/5", "horizon": HORIZON, "fanout": 4, "skipped": 3, **chosen}
    )
    return tg.Pipeline(
        threshold=tg.threshold.Fixed(100), perturber=tree, estimator=tg.estimate.Mixture()
    )


def test_a_forecaster_follows_a_fixed_tree_better_than_the_last_block_does() -> None:
    """The same tree and budget: running sums are nearer to the truth than with `Recent`."""
    random = np.random.default_rng(1)
    values = random.poisson(20 * (1 + 0.5 * np.sin(np.arange(HORIZON) / 500)))
    errors = []
    for estimator in (tg.estimate.Recent(), tg.estimate.Mixture()):
        pipeline = tg.Pipeline(
            threshold=tg.threshold.Fixed(100),
            perturber=followed(epsilon="1/20").perturber,
            estimator=estimator,
        )
        runs = [pipeline.start(tg.seeded(seed)).push(values) for seed in range(10)]
        errors.append(np.mean([np.cumsum(run - values).var() for run in runs]))
    assert errors[1] < 0.7 * errors[0]


@pytest.mark.parametrize("name", perturbers(fixed=True))
def test_the_noise_is_that_of_the_forest(name: str) -> None:
    """Followed or not, the same sums come out: same words, same scales, whole horizons of them."""
    stage = perturbers(fixed=True)[name]
    if not stage.noise_law(9).consistent:
        with pytest.raises(tg.SettingError, match="consistent"):
            tg.estimate.Mixture().check(stage)
        return
    keystream = tg.seeded(1).new_epoch().keystream("perturb", b"followed")
    values = np.random.default_rng(2).integers(0, 20, size=min(3 * stage.horizon, 3000))
    plain, followed = stage.start(9, 9, keystream), stage.start(9, 9, keystream)
    expected = plain.push(values).sums
    found, at, chunk = [], 0, 0
    while at < values.size:
        for length in stage.lengths(chunk):
            assert followed.options == stage.layouts(length, 9, 9)
            followed.begin(0)
            found.append(followed.push(values[at : at + length]).sums)
            at += length
            if at >= values.size:
                break
        chunk += 1
    np.testing.assert_array_equal(np.concatenate(found), expected)
    assert sum(stage.lengths(0)) == -(-stage.horizon // stage.block) * stage.block


@pytest.mark.parametrize(("tops", "fanout", "levels"), [(3, 4, 3), (2, 3, 2), (5, 7, 1), (1, 2, 3)])
def test_the_law_of_the_followed_leaves_is_that_of_the_forest(
    tops: int, fanout: int, levels: int
) -> None:
    """The path that a forecaster reckons with gives every range the variance that it has."""
    leaves = tops * fanout ** (levels - 1) - 1  # the last tree is cut off
    stage = tg.perturb.Hierarchy(
        epsilon="1/2", horizon=leaves, fanout=fanout, skipped=0, levels=levels,
        shares=[2**level for level in range(levels)],
    )  # fmt: skip
    law = stage.noise_law(50)
    rows: list[np.ndarray] = []
    for length in stage.lengths(0):
        (tree,) = stage.layouts(length, 50, 50)
        rows.append(covariance_of(leaf_noise_path(tree.nodes, tree.variances)[: tree.leaves]))
    size = sum(len(part) for part in rows)
    assert size == leaves
    covariance, at = np.zeros((size, size)), 0
    for part in rows:
        covariance[at : at + len(part), at : at + len(part)] = part
        at += len(part)
    for start in range(0, leaves, 3):
        for end in range(start + 1, leaves + 1, 2):
            inside = slice(start, end)
            expected = law.range_variance(np.array([start]), np.array([end]))[0]
            assert covariance[inside, inside].sum() == pytest.approx(expected, rel=1e-9)


def test_intervals_of_followed_trees_hold() -> None:
    time = np.arange(5000)
    levels = {
        "calm": np.full(5000, 20.0),
        "cycle": 20 * (1 + 0.5 * np.sin(time / 500)),
        "shift": np.where(time < 2500, 10.0, 40.0),
    }
    held: dict[str, float] = {}
    for kind, level in levels.items():
        hits = []
        for seed in range(6):
            random = np.random.default_rng(seed)
            values = random.poisson(level)
            release = followed().start(tg.seeded(seed))
            release.push(values)
            truth = np.concatenate(([0], np.cumsum(np.minimum(values, 100))))
            ends = np.sort(random.integers(0, 5001, size=(2, 60)), axis=0)
            found, sums = release.queries(*ends), truth[ends[1]] - truth[ends[0]]
            hits.append((found.low <= sums) & (sums <= found.high))
        held[kind] = float(np.mean(hits))
    assert 0.93 <= np.mean(list(held.values())) <= 0.995, held
    assert min(held.values()) >= 0.90, held


def test_trees_that_cannot_be_followed_say_what_to_change() -> None:
    with pytest.raises(tg.SettingError, match="levels=3"):
        followed(levels=4, skipped=0)
    with pytest.raises(tg.SettingError, match="consistent"):
        followed(consistent=False)
    followed(levels=3, skipped=0)


def test_the_scale_free_threshold_serves_the_tops_tree() -> None:
    """In another unit θ is the same, and so is the release, unlike with `NoisyMax`."""
    values = np.random.default_rng(3).geometric(0.05, size=3000)
    thetas, outs = [], []
    for unit in (1, 100):
        pipeline = tg.Pipeline(
            threshold=tg.threshold.ScaleFree(epsilon="1/2", bound=1000 * unit, holdout=1000),
            perturber=tg.perturb.Hierarchy(epsilon="1/2", horizon=1024, fanout=4, skipped=1),
            resolution=unit,
        )
        release = pipeline.start(tg.seeded(4))
        outs.append(release.push(values * unit))
        thetas.append(release.threshold)
        assert pipeline.guarantee == tg.Guarantee(epsilon=pipeline.threshold.epsilon)
    assert 40 < thetas[0] < 300
    assert thetas[1] / thetas[0] == pytest.approx(100, rel=1.0)  # other noise, same rule
    assert outs[0].size == outs[1].size == 2000
