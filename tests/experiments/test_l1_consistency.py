"""L1-optimal consistency: right by hand, no worse in its own aim, and what it is worth."""

import numpy as np
import pytest

from experiments.offline.l1_consistency import least_squares_leaves, most_likely_leaves


def test_by_hand():
    """Two leaves 1 and 2, parent 9. If the parent is precise, leaves must add up to 9: the cost is
    6 however it is split; if leaves are, they stay."""
    nodes = [np.array([1.0, 2.0]), np.array([9.0])]
    precise = most_likely_leaves(nodes, [1.0, 0.1])
    assert precise.sum() == pytest.approx(9)
    assert np.abs(precise - nodes[0]).sum() == pytest.approx(6)
    assert most_likely_leaves(nodes, [0.1, 1.0]) == pytest.approx(nodes[0])
    assert most_likely_leaves(
        [np.array([-5.0, 1.0]), np.array([1.0])], [1, 1], non_negative=True
    ) == (pytest.approx([0, 1]))


def tree(leaves, random, scales):
    levels = [leaves]
    while levels[-1].size > 1:
        levels.append(levels[-1].reshape(-1, 2).sum(axis=1))
    pairs = zip(levels, scales, strict=True)
    return [level + random.laplace(0, scale, level.size) for level, scale in pairs]


def cost(leaves, nodes, scales):
    found = 0.0
    for level, scale in zip(nodes, scales, strict=True):
        found += np.abs(level - leaves.reshape(level.size, -1).sum(axis=1)).sum() / scale
    return found


def test_no_leaves_are_likelier():
    random = np.random.default_rng(3)
    scales = [2.0, 1.0, 1.0, 3.0, 0.5]
    nodes = tree(random.integers(0, 9, 16).astype(float), random, scales)
    best = most_likely_leaves(nodes, scales)
    assert cost(best, nodes, scales) < cost(least_squares_leaves(nodes, scales), nodes, scales)
    for _ in range(200):
        other = best + random.normal(0, 0.3, 16)
        assert cost(other, nodes, scales) >= cost(best, nodes, scales) - 1e-9


def test_sparse_leaves_gain_from_likelihood_and_a_bound_below():
    """Mostly empty leaves, 64 of them: squared error of leaves against least squares."""
    random, scales = np.random.default_rng(4), [7.0] * 7
    errors = np.zeros(2)
    for _ in range(12):
        truth = np.where(random.random(64) < 0.05, 200.0, 0.0)
        nodes = tree(truth, random, scales)
        for place, found in enumerate(
            (
                most_likely_leaves(nodes, scales, non_negative=True),
                least_squares_leaves(nodes, scales),
            )
        ):
            errors[place] += np.square(found - truth).mean()
    assert errors[0] < 0.75 * errors[1]
