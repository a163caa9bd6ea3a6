"""A block that is given up between two leaves: what was left in its tree is released and used."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from tidegate.estimate.mixture.kalman_filter.state_space_models import SUM, WALKS
from tidegate.estimate.mixture.rescaled_run import RescaledRun
from tidegate.perturb.adaptive.refinement_trees import RefinementTrees, RefinementTreesRun

THETA, HORIZON = 1000, 2048
SHAPES = [(1, 8, 64), (1, 16), (4,), (1, 4)]


def begun(nodes: tuple[int, ...], seed: int) -> tuple[RefinementTrees, RefinementTreesRun]:
    """The trees, and a run whose first block is open."""
    part = Fraction(1)
    trees = RefinementTrees(
        epsilon=1, horizon=HORIZON, nodes=nodes, blocks=(part,), warm_ups=(part,)
    )
    run = RefinementTreesRun(
        trees,
        THETA,
        THETA,
        tg.seeded(seed).new_epoch().keystream("test", b""),
        part=part,
        warm_up_start=0,
        position=1024,
    )
    run.begin(0)
    return trees, run


@pytest.mark.parametrize("nodes", SHAPES)
def test_leaves_and_rest_are_what_the_tree_gives_if_zeros_follow(nodes: tuple[int, ...]) -> None:
    """Exactly: so the rest is a function of that tree, and spends what the tree spends."""
    random = np.random.default_rng(1)
    for leaves in range(1, nodes[-1]):
        _, whole = begun(nodes, 3)
        tree = whole.tree
        values = random.integers(0, 3 * THETA, size=tree.edge(leaves))
        zeros = np.zeros(tree.length - values.size, dtype=np.int64)
        expected = whole.push(np.concatenate((values, zeros))).sums
        _, cut = begun(nodes, 3)
        # Values beyond, in the same push, do not count: other pieces release them.
        beyond = random.integers(0, THETA, size=int(random.integers(zeros.size + 1)))
        found = cut.push(np.concatenate((values, beyond))).sums[:leaves]
        np.testing.assert_array_equal(found, expected[:leaves])
        rest = cut.rest(tree, leaves)
        width = tree.leaves // nodes[0]
        last = -(-leaves // width) * width  # of the coarsest node that is open
        assert (rest is None) == (last == leaves)
        assert (rest or 0) == expected[leaves:last].sum()


def given_up(seed: int, *, rest: bool) -> float:
    """The error of the running sum after ten of 16 leaves, in θ, as a level that walks has it."""
    trees, run = begun((1, 16), seed)
    follower = RescaledRun(THETA, 0.0, trees)
    tree, leaves, walking = run.tree, 10, len(WALKS) - 1
    follower.begin(tree)
    values = np.full(tree.edge(leaves), THETA // 10)
    out = np.zeros(values.size)
    follower.push(run.push(values), out)
    left = run.rest(tree, leaves)
    if rest and left is not None:
        follower.add_rest(tree, left)
    return follower._filters.mean.item(SUM, walking) + (out.sum() - values.sum()) / THETA


def test_a_given_up_block_is_known_nearly_as_well_as_its_coarsest_node() -> None:
    """Leaves gather noise of 5.8 θ (ε = 1), the node has 2·√2 θ."""
    known, not_known = (
        np.sqrt(np.mean([given_up(seed, rest=rest) ** 2 for seed in range(60)]))
        for rest in (True, False)
    )
    assert known < 4.2
    assert not_known > 1.3 * known
