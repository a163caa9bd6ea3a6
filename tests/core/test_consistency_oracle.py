"""Consistency against other people's code: opendp's b-ary tree, and numpy's least squares."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate.perturb.consistency import consistent_leaves, own_weights

opendp = pytest.importorskip("opendp.prelude", reason="opendp is the independent oracle")


@pytest.fixture(scope="module", autouse=True)
def _contrib() -> None:
    opendp.enable_features("contrib")


@pytest.mark.parametrize(
    ("fanout", "levels"), [(2, 2), (2, 3), (2, 6), (3, 3), (4, 4), (5, 2), (16, 3)]
)
def test_leaves_are_opendps_to_rounding(fanout: int, levels: int) -> None:
    """opendp's trees have a root: ours with `levels` levels is one such tree."""
    leaves = fanout ** (levels - 1)
    random = np.random.default_rng(levels)
    nodes = [
        random.integers(-(10**6), 10**6, size=leaves // fanout**level) for level in range(levels)
    ]
    consistent = opendp.t.make_consistent_b_ary_tree(branching_factor=fanout)
    flat = np.concatenate(nodes[::-1]).tolist()  # opendp: root first, breadth first
    theirs = np.asarray(consistent(flat), dtype=float)
    ours, _ = consistent_leaves(nodes, fanout, own_weights(fanout, [1.0] * levels))
    differences = np.concatenate(([0.0], np.cumsum(ours - theirs[:leaves])))
    assert theirs.size == leaves
    assert np.abs(differences).max() <= 0.5 + 1e-3  # every prefix; theirs are exact floats
    assert np.ptp(differences) <= 1 + 1e-3  # every range


def test_a_clean_tree_is_left_alone_by_both() -> None:
    values = np.arange(27)
    domain = opendp.vector_domain(opendp.atom_domain(T=int))
    tree = opendp.t.make_b_ary_tree(
        domain, opendp.l1_distance(T=int), leaf_count=27, branching_factor=3
    )
    theirs = tree(values.tolist())
    nodes = [values.reshape(-1, 3**level).sum(axis=1) for level in range(4)]
    assert np.concatenate(nodes[::-1]).tolist() == theirs
    ours, carry = consistent_leaves(nodes, 3, own_weights(3, [1.0] * 4))
    np.testing.assert_array_equal(ours, values)
    assert carry == 0


def test_weighted_least_squares_against_numpy() -> None:
    """Unequal level variances, which opendp does not have."""
    random = np.random.default_rng(2)
    for _ in range(20):
        fanout, levels, trees = random.integers(2, 5), random.integers(2, 5), random.integers(1, 4)
        leaves = int(trees * fanout ** (levels - 1))
        variances = random.uniform(0.2, 20, size=levels)
        nodes = [
            random.integers(-(10**5), 10**5, size=leaves // fanout**level)
            for level in range(levels)
        ]
        rows = np.concatenate(
            [
                np.kron(np.eye(leaves // fanout**level), np.ones(fanout**level)) * variance**-0.5
                for level, variance in enumerate(variances)
            ]
        )
        right = np.concatenate(
            [node * variance**-0.5 for node, variance in zip(nodes, variances, strict=True)]
        )
        exact = np.linalg.lstsq(rows, right, rcond=None)[0]
        carry = float(random.uniform(-0.5, 0.5))
        ours, owed = consistent_leaves(
            nodes, int(fanout), own_weights(int(fanout), variances), carry
        )
        differences = np.cumsum(ours - exact)
        assert np.abs(differences - carry).max() <= 0.5 + 1e-4
        assert abs(differences[-1] - carry + owed) < 1e-4  # what rounding owes is handed on
        assert -0.5 <= owed <= 0.5
