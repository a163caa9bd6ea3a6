"""The fast algebra against the slow: dense covariance matrices, and Gaussian conditioning."""

from __future__ import annotations

import numpy as np
import pytest

from tests.adaptive.paths import covariance_of, dense, least_squares_covariance
from tidegate.estimate.mixture.kalman_filter.block_cells import BlockCells
from tidegate.estimate.mixture.kalman_filter.kalman_filters import KalmanFilters
from tidegate.estimate.mixture.kalman_filter.leaf_noise import leaf_noise_path
from tidegate.estimate.mixture.kalman_filter.state_space_models import (
    LEVEL,
    SUM,
    SWING,
    StateTransition,
    models,
)
from tidegate.estimate.mixture.smoother.block_batches import MeasuredBlock
from tidegate.estimate.mixture.smoother.model_and_cycle_smoothers import ModelSmoother
from tidegate.perturb.adaptive.adaptive_trees import AdaptiveTrees
from tidegate.perturb.adaptive.tree_shapes import RANGE_ERROR

HORIZON = 4096


@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("shape", RANGE_ERROR)
def test_the_noise_path_has_the_covariance_of_the_leaves(
    shape: tuple[int, ...], equal: bool
) -> None:
    variances = [3.0 if equal else 3.0 * 2**level for level in range(len(shape))]
    expected = least_squares_covariance(shape, variances)
    found = covariance_of(leaf_noise_path(shape, variances))
    np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("model", [0, 3, 6, 8, 10, 11])
def test_beliefs_and_look_back_are_gaussian_conditioning(model: int) -> None:
    theta = 50
    stage = AdaptiveTrees(epsilon="1/2", horizon=HORIZON)
    random = np.random.default_rng(model)
    one = models(HORIZON).only(model)
    trees = [
        next(tree for tree in stage.layouts(length, theta, theta) if tree.nodes == shape)
        for length, shape in ((60, (2,)), (33, (1, 8)), (130, (1, 8, 64)))
    ]
    cells = [BlockCells(tree, theta) for tree in trees]
    lengths = [each.widths[cell] for each in cells for cell in range(each.count)]
    sums = [random.integers(0, 30 * tree.length, size=tree.leaves) for tree in trees]
    mean, covariance = dense(one, lengths, 0.0)
    rows, noise = [], []
    at = 0
    for each in cells:
        block = np.zeros((each.tree.leaves, len(lengths)))
        for cell in range(each.count):
            block[cell // each.per_leaf, at + cell] = 1.0
        rows.append(block)
        at += each.count
        variances = [variance / theta**2 for variance in each.tree.variances]
        noise.append(least_squares_covariance(each.tree.nodes, variances))
    design = np.concatenate(rows)
    total = design @ covariance @ design.T
    at = 0
    for part in noise:
        size = len(part)
        total[at : at + size, at : at + size] += part
        at += size
    observed = np.concatenate(sums) / theta
    gain = covariance @ design.T @ np.linalg.inv(total)
    posterior = mean + gain @ (observed - design @ mean)
    left = covariance - gain @ design @ covariance

    for fading in (False, True):
        filters, age = KalmanFilters(one), 0
        above = np.zeros(len(lengths))  # the running sum above its mean before, of all cells' sums
        at = 0
        for each, noisy in zip(cells, sums, strict=True):
            for cell in range(each.count):
                opened, closed, width = each.opens[cell], each.closes[cell], each.widths[cell]
                if opened is not None:
                    filters.open_leaf(opened)
                if fading:
                    filters.fade(width / (age + width))
                    above *= age / (age + width)
                filters.predict(StateTransition(one, width))
                above[at], at, age = 1.0, at + 1, age + width
                if closed is not None:
                    filters.update(closed, noisy.item(cell // each.per_leaf) / theta)
        assert filters.mean[SUM, 0] == pytest.approx(above @ posterior, rel=2e-3)
        assert filters.covariance[SUM, SUM, 0] == pytest.approx(above @ left @ above, rel=5e-3)
        assert np.abs(filters.covariance - filters.covariance.transpose(1, 0, 2)).max() < 1e-6

    starts = np.cumsum([0, *(tree.length for tree in trees)])
    measured = [
        MeasuredBlock(int(start), each, noisy, int(start) + each.tree.length)
        for start, each, noisy in zip(starts, cells, sums, strict=False)
    ]
    back = ModelSmoother(measured, HORIZON, model)
    prefix = np.concatenate(([0.0], np.cumsum(posterior)))
    np.testing.assert_allclose(back.sums, prefix, rtol=5e-3, atol=0.02)
    ends = random.integers(0, prefix.size, size=(2, 60))
    first, last = ends.min(axis=0), ends.max(axis=0)
    expected = [left[i:j, i:j].sum() for i, j in zip(first.tolist(), last.tolist(), strict=True)]
    misfit = back.misfit(first, last)
    np.testing.assert_allclose(
        back.variances(first, last), np.array(expected) * misfit, rtol=0.02, atol=2e-3
    )


def test_a_swing_forgets_and_a_level_does_not() -> None:
    every = models(HORIZON)
    filters, swings = KalmanFilters(every), every.variance > 0
    filters.mean[SWING] = filters.mean[LEVEL] = 0.5
    filters.predict(StateTransition(every, HORIZON))
    assert (filters.mean[LEVEL] == 0.5).all()
    assert swings.sum() == 3
    assert np.abs(filters.mean[SWING, swings]).max() < 1e-9
