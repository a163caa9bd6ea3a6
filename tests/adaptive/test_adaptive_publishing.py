"""What is published at the end of a cell: the running sum above its own past, for ranges' sake."""

from __future__ import annotations

import numpy as np
import pytest

import tidegate as tg
from tidegate.estimate.mixture.kalman_filter.kalman_filters import KalmanFilters
from tidegate.estimate.mixture.tree_choice import tree_costs
from tidegate.perturb.adaptive.adaptive_trees import AdaptiveTrees

HOLDOUT, HORIZON = 4096, 1 << 15


def errors_of_running_sums(seed: int, epsilon: float = 0.2) -> np.ndarray:
    values = np.random.default_rng(7).geometric(0.1, size=HOLDOUT + HORIZON)
    release = tg.adaptive(epsilon, 200, horizon=HORIZON, holdout=HOLDOUT).start(tg.seeded(seed))
    return np.cumsum(release.push(values) - values[HOLDOUT:])


def test_the_error_of_all_ranges_is_a_sum_over_running_sums() -> None:
    """The identity that the rule rests on, by brute force."""
    errors = errors_of_running_sums(1)[::512]
    count = errors.size
    ranges = np.square(errors[:, None] - errors).mean()
    before = np.cumsum(errors)[:-1] / np.arange(1, count)
    terms = (1 - 1 / np.arange(2, count + 1)) * np.square(errors[1:] - before)
    assert 2 * terms.sum() / count == pytest.approx(ranges)


def test_ranges_are_better_than_by_the_expectation_of_the_running_sum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Same noise, same trees where the same is chosen; only what is made of them differs."""
    ours = np.mean([errors_of_running_sums(seed).var() for seed in range(20)])
    monkeypatch.setattr(KalmanFilters, "fade", lambda self, part: None)
    expectation = np.mean([errors_of_running_sums(seed).var() for seed in range(20)])
    assert ours < expectation / 1.2


def test_noise_is_cheap_at_the_beginning_only() -> None:
    """Fine trees cost less there; from a fifth of the horizon on every place is the same."""
    stage = AdaptiveTrees(epsilon=0.1, horizon=1 << 20)
    length = 1 << 16
    costs = [tree_costs(stage, 100, length, age=age) for age in (1, 1 << 18, 1 << 19, 1 << 20)]
    calm = 0
    assert costs[0][1, 16][calm] < 0.9 * costs[1][1, 16][calm]
    for later in costs[2:]:
        assert later[1, 16][calm] == costs[1][1, 16][calm]
