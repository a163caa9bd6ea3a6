"""Answers about the inside of a block once its sum is known: exact noise, honest errors, better."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tidegate.estimate.block_posterior import _block_contrast, _block_pair_variances

THETA, HORIZON = 100, 2**14


def tree(**chosen: Any) -> tg.perturb.Hierarchy:
    settings = {"epsilon": "1/5", "horizon": HORIZON, "fanout": 4, "skipped": 3, **chosen}
    return tg.perturb.Hierarchy(**settings)


def level(kind: str, random: np.random.Generator) -> np.ndarray:
    time = np.arange(HORIZON)
    steps: dict[str, np.ndarray] = {
        "calm": np.full(HORIZON, 20.0),
        "cycle": 20 * (1 + 0.8 * np.sin(time / 60)),
        "shift": np.where(time // 900 % 2, 5.0, 40.0),
        "walk": np.clip(20 + np.cumsum(random.normal(0, 0.3, HORIZON)), 0, 80),
        "zeros": 30.0 * (time // 170 % 2),
        "bursts": np.where(time % 500 < 20, 80.0, 5.0),
    }
    return steps[kind]


def test_the_noise_of_a_part_of_a_block_is_exact() -> None:
    """Against a dense covariance of the block sums, made of the variances of single ranges."""
    law = tree(epsilon=1).noise_law(9)
    random = np.random.default_rng(1)
    blocks = np.arange(30)
    before = np.array([law.range_variance(np.zeros(30, int), blocks)])[0]
    between = np.array([law.range_variance(np.minimum(blocks, k), np.maximum(blocks, k))
                        for k in blocks])  # fmt: skip
    covariance = (before[:, None] + before[None, :] - between) / 2  # of the sums before a block
    for _ in range(40):
        where = np.sort(random.integers(0, 29, size=4))
        weights = random.normal(size=4)
        weights -= weights.mean()
        vector = np.zeros(30)
        np.add.at(vector, where, weights)
        between = _block_pair_variances(law, [np.array([at]) for at in where])
        found = _block_contrast(list(weights), between)[0]
        assert found == pytest.approx(vector @ covariance @ vector, rel=1e-9, abs=1e-9)


def test_a_range_that_cuts_blocks_has_the_share_of_their_noise() -> None:
    """Zeros in, so that what comes out is noise: its spread is what `noise_error` says."""
    pipeline = tg.Pipeline(threshold=tg.threshold.Fixed(THETA), perturber=tree(horizon=1024))
    starts, ends = np.array([10, 70, 100, 333]), np.array([50, 100, 500, 900])
    horizons = np.arange(0, 4096, 1024)  # each has noise of its own
    later = [np.add.outer(horizons, edges).ravel() for edges in (starts, ends)]
    sums: list[np.ndarray] = []
    for seed in range(150):
        release = pipeline.start(tg.seeded(seed))
        release.push(np.zeros(4096))
        sums.extend(release.queries(*later).estimate.reshape(-1, 4))
    found = release.queries(starts, ends)
    spread = np.std(sums, axis=0)
    # The slope adds little noise of its own, which counts as prediction.
    assert np.all(spread > 0.9 * found.noise_error)
    assert np.all(spread < 1.1 * found.noise_error + 0.1 * found.prediction_error)


@pytest.mark.parametrize("epsilon", ["1/20", "1/5", "2"])
def test_later_answers_are_better_and_their_intervals_hold(epsilon: str) -> None:
    pipeline = tg.Pipeline(
        threshold=tg.threshold.Fixed(THETA), perturber=tree(epsilon=epsilon), history=HORIZON
    )
    block = pipeline.perturber.block
    for kind in ("calm", "cycle", "shift", "walk", "zeros", "bursts"):
        held, then, later = [], [], []
        for seed in range(8):
            random = np.random.default_rng([seed, *kind.encode()])
            values = np.minimum(random.poisson(level(kind, random)), THETA)
            release = pipeline.start(tg.seeded(seed))
            out = release.push(values)
            truth, running = (np.concatenate(([0.0], np.cumsum(x))) for x in (values, out))
            length = random.integers(1, 3 * block, size=250)
            starts = random.integers(0, HORIZON - length)
            ends = starts + length
            sums = truth[ends] - truth[starts]
            found = release.queries(starts, ends)
            held.append((found.low <= sums) & (sums <= found.high))
            then.append(np.square(running[ends] - running[starts] - sums))
            later.append(np.square(found.estimate - sums))
        assert np.mean(held) >= 0.94, kind
        assert np.mean(then) > 1.5 * np.mean(later), kind


def test_parts_of_a_block_add_up_to_its_sum() -> None:
    pipeline = tg.Pipeline(threshold=tg.threshold.Fixed(THETA), perturber=tree())
    release = pipeline.start(tg.seeded(3))
    release.push(np.random.default_rng(2).poisson(20, size=64 * 12 + 20))
    for start in range(0, 64 * 12, 64):
        cuts = [start, start + 5, start + 30, start + 31, start + 64]
        parts = [release.query(a, b) for a, b in pairwise(cuts)]
        assert sum(part.estimate for part in parts) == pytest.approx(
            release.query(start, start + 64).estimate, abs=1e-6
        )
        assert all(part.noise_error > 0 for part in parts)
    assert release.query(64 * 12, 64 * 12 + 10).noise_error == 0  # predictions: still open


def test_a_single_block_is_cut_with_care() -> None:
    """No neighbours, no slope: the widest intervals, and no crash."""
    pipeline = tg.Pipeline(threshold=tg.threshold.Fixed(THETA), perturber=tree())
    release = pipeline.start(tg.seeded(3))
    release.push(np.full(64, 30))
    middle, end = release.query(0, 32), release.query(0, 64)
    assert middle.estimate == end.estimate / 2
    assert middle.prediction_error > THETA * 64 / 10
