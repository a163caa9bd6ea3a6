"""Looking back through all blocks of a kind at once, against one cell after the other."""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter

import numpy as np
import pytest

import tidegate as tg
from tests.adaptive.paths import HORIZON, blocks_of
from tests.depth import in_turn
from tidegate.estimate.mixture.cap_steps import moved_cap_step
from tidegate.estimate.mixture.kalman_filter import state_space_models as entry
from tidegate.estimate.mixture.kalman_filter.block_cells import BlockCells
from tidegate.estimate.mixture.kalman_filter.kalman_filters import KalmanFilters
from tidegate.estimate.mixture.kalman_filter.leaf_noise import NoisyLeaf
from tidegate.estimate.mixture.kalman_filter.state_space_models import StateTransition, models
from tidegate.estimate.mixture.smoother.block_batches import MeasuredBlock, block_batches
from tidegate.estimate.mixture.smoother.model_and_cycle_smoothers import ModelSmoother


class CellByCell:
    """The smoother as its formulas stand: forward over all cells, then backward."""

    def __init__(self, blocks: list[MeasuredBlock], horizon: int, model: int) -> None:
        one = models(horizon).only(model)
        filters = KalmanFilters(one)
        self.edges, misses = [blocks[0].start], []
        self.rows, self.levels, self.maps, self.informations = [], [], [], []
        transitions: dict[int, StateTransition] = {}
        closing = np.eye(entry.SIZE)
        cap_step = blocks[0].cells.tree.cap_step
        for block in blocks:
            cells = block.cells
            if cells.tree.cap_step != cap_step:
                filters.inflate_level(moved_cap_step(cap_step, cells.tree.cap_step))
                cap_step = cells.tree.cap_step
            for number in range(cells.count):
                begin = block.start + cells.edges[number]
                end = min(block.start + cells.edges[number + 1], block.end)
                if end <= begin:
                    break
                if end - begin not in transitions:
                    transitions[end - begin] = StateTransition(one, end - begin)
                cell = transitions[end - begin]
                opened = cells.opens[number]
                if opened is not None:
                    filters.open_leaf(opened)
                filters.predict(cell)
                self.edges.append(end)
                self.maps.append(passing(opened, cell) @ closing)
                self.rows.append(filters.augmented[entry.SUM, :, 0].copy())
                self.levels.append(filters.augmented[entry.LEVEL, :, 0].copy())
                leaf, index = cells.closes[number], number // cells.per_leaf
                closing, information = np.eye(entry.SIZE), np.zeros((entry.SIZE, entry.SIZE + 1))
                if leaf is not None and index < block.sums.size:
                    filters.update(leaf, block.sums.item(index) / cells.unit)
                    miss, variance, gain = (part[..., 0] for part in filters.last_update())
                    seen = np.zeros(entry.SIZE)
                    seen[entry.LEAF], seen[entry.INNER] = 1 - leaf.share, leaf.share
                    information[:, : entry.SIZE] = np.outer(seen, seen) / variance
                    information[:, entry.SIZE] = -seen * miss / variance
                    closing -= np.outer(gain, seen)
                    closing[entry.LEAF] = 0
                    misses.append((len(self.rows), miss**2 / variance))
                self.informations.append(information)
        self.misses = misses
        self.mean_misfit = max(1.0, float(np.mean([miss for _, miss in misses] or [0.0])))
        self.backward()

    def backward(self) -> None:
        count = len(self.rows)
        seen, state = (
            np.zeros((count, entry.SIZE, entry.SIZE + 1)),
            np.zeros((entry.SIZE, entry.SIZE + 1)),
        )
        for at in range(count - 1, -1, -1):
            if at + 1 < count:
                state = self.maps[at + 1].T @ state
                state[:, : entry.SIZE] = state[:, : entry.SIZE] @ self.maps[at + 1]
            state = seen[at] = state + self.informations[at]
        rows, levels = np.array(self.rows), np.array(self.levels)
        self.sums = rows[:, entry.SIZE] - (rows[:, : entry.SIZE] * seen[:, :, entry.SIZE]).sum(
            axis=1
        )
        self.level = levels[:, entry.SIZE] - (levels[:, : entry.SIZE] * seen[:, :, entry.SIZE]).sum(
            axis=1
        )
        # Cov[x_k, x_j] = P_k C_kᵀ … C_{j−1}ᵀ (I − Λ_j P_j), its entry for two sums.
        ends = (
            np.eye(entry.SIZE)[entry.SUM]
            - (seen[:, :, : entry.SIZE] @ rows[:, : entry.SIZE, np.newaxis])[..., 0]
        )
        self.ends, self.own = (
            ends,
            np.concatenate(([0], (rows[:, : entry.SIZE] * ends).sum(axis=1))),
        )

    def variances(self, first: int) -> np.ndarray:
        """Of the sums from the edge `first` to all edges from there on."""
        shared = [self.own[first]]
        vector = self.rows[first - 1][: entry.SIZE]
        for last in range(first, len(self.rows)):
            vector = self.maps[last] @ vector
            shared.append(vector @ self.ends[last] if first else 0.0)
        found = self.own[first] + self.own[first:] - 2 * np.array(shared)
        return found * [self.misfit(first, last) for last in range(first, len(self.own))]

    def misfit(self, first: int, last: int) -> float:
        """Reduced χ² over the leaves that end in a range and three to both sides, shrunk by two."""
        begun, ended = (
            bisect_right(self.misses, place, key=itemgetter(0)) for place in (first, last)
        )
        near = [miss for _, miss in self.misses[max(begun - 3, 0) : ended + 3]]
        return max(1.0, (sum(near) + 2 * self.mean_misfit) / (len(near) + 2))


def passing(opened: NoisyLeaf | None, cell: StateTransition) -> np.ndarray:
    """What opening a leaf and passing a cell do to the state."""
    opening, moving = np.eye(entry.SIZE), np.eye(entry.SIZE)
    if opened is not None and opened.inner is not None:
        share = opened.inner_share
        opening[entry.INNER] = 0
        if opened.outer is not None:
            opening[entry.OUTER, entry.OUTER] = 0
        opening[entry.INNER, entry.OUTER] = share * opening[entry.OUTER, entry.OUTER]
        opening[entry.OUTER, entry.OUTER] *= 1 - share
    for row in (entry.SUM, entry.LEAF, entry.INNER):
        moving[row, entry.LEVEL], moving[row, entry.SWING] = cell.width, cell.swing_sums[0]
    moving[entry.SWING, entry.SWING] = cell.swing_decay
    return moving @ opening


@pytest.mark.parametrize(
    ("epsilon", "cut", "model"),
    in_turn([("1/50", 77, 0), ("1/50", 77, 9), ("1/2", 128, 4), ("1/2", 128, 8), ("5", 1, 7)], 0),
)
def test_all_blocks_at_once_are_one_cell_after_the_other(
    epsilon: str, cut: int, model: int
) -> None:
    blocks = blocks_of(epsilon, cut)
    assert len({block.cells.tree.nodes for block in blocks}) > 3
    slow, fast = CellByCell(blocks, HORIZON, model), ModelSmoother(blocks, HORIZON, model)
    assert fast.edges.tolist() == slow.edges
    np.testing.assert_allclose(fast.sums[1:], slow.sums, rtol=1e-9)
    np.testing.assert_allclose(fast.levels[1:], slow.level, rtol=1e-9, atol=1e-12)
    count = fast.edges.size
    # Differences of running sums' variances: exact to the last bits of those, not of their own.
    atol = 1e-12 * slow.own.max() * 10 * slow.mean_misfit
    for first in (0, 1, 40, 299, count - 2):
        ends = np.arange(first, count)
        found = fast.variances(np.full(ends.size, first), ends)
        np.testing.assert_allclose(found, slow.variances(first), rtol=1e-9, atol=atol)


def test_a_block_without_values_says_nothing() -> None:
    blocks = blocks_of("1/2", 40)
    last = blocks[-1]
    empty = MeasuredBlock(last.end, last.cells, last.sums[:0], last.end)
    alone = ModelSmoother([empty], HORIZON, 3)
    assert alone.edges.tolist() == [last.end]
    assert alone.sums.tolist() == alone.levels.tolist() == [0.0]
    assert alone.variances(np.array([0]), np.array([0])).tolist() == [0.0]
    with_it, without = (
        ModelSmoother([*blocks, empty], HORIZON, 3),
        ModelSmoother(blocks, HORIZON, 3),
    )
    np.testing.assert_array_equal(with_it.sums, without.sums)
    nothing = ModelSmoother([], HORIZON, 3)
    assert nothing.edges.tolist() == [0]


def test_blocks_of_one_kind_are_taken_together() -> None:
    """However many there are: what costs time is the number of kinds."""
    blocks = blocks_of("1/2", 40)
    one = models(HORIZON).only(2)
    kinds = block_batches([blocks], [one])
    numbers = np.concatenate([kind.numbers for kind in kinds])
    assert sorted(numbers.tolist()) == list(range(len(blocks)))
    # Caps and noise may differ: each block has its own.
    whole = {
        (block.cells.tree.length, block.cells.tree.nodes, block.end - block.start)
        for block in blocks
    }
    assert len(kinds) == len(whole) < len(blocks)


def test_cells_are_compared_by_what_they_are() -> None:
    tree = tg.perturb.AdaptiveTrees(epsilon=1, horizon=64).layouts(64, 9, 9)[0]
    assert BlockCells(tree, 9) == BlockCells(tree, 9) != BlockCells(tree, 8)
