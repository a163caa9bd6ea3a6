"""The cells of a block, each with one forecast; and the steps of the filter through many blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tidegate.estimate.mixture.catch_up import CALM_LEAVES
from tidegate.estimate.mixture.kalman_filter.leaf_noise import (
    NoisyLeaf,
    NoisyLeaves,
    leaf_noise_path,
    noisy_leaves_side_by_side,
)
from tidegate.estimate.mixture.kalman_filter.state_space_models import CELLS, Models
from tidegate.lattice import IntArray
from tidegate.stages import Layout


@dataclass(frozen=True)
class BlockCells:
    """The cells of a block that is measured with `tree`; variances are in `unit`² (θ²)."""

    tree: Layout
    unit: int

    @cached_property
    def per_leaf(self) -> int:
        """The number of cells in a leaf; a block of at least 16 values has at least 16 cells."""
        return max(1, min(CELLS, self.tree.length) // self.tree.leaves)

    @cached_property
    def calm(self) -> bool:
        """Whether the tree is coarse: the level was not thought to move by more than the noise."""
        return self.tree.leaves <= CALM_LEAVES

    @cached_property
    def count(self) -> int:
        """The number of cells in the block."""
        return self.per_leaf * self.tree.leaves

    @cached_property
    def path(self) -> tuple[NoisyLeaf, ...]:
        """The noise of the leaves, in order."""
        variances = [variance / self.unit**2 for variance in self.tree.variances]
        return leaf_noise_path(self.tree.nodes, variances)

    @cached_property
    def noise(self) -> float:
        """The noise variance of the block's sum."""
        return sum(leaf.coarsest for leaf in self.path)

    @cached_property
    def opens(self) -> list[NoisyLeaf | None]:
        """The leaf that begins with each cell, if any."""
        rest: list[NoisyLeaf | None] = [None] * (self.per_leaf - 1)
        return [found for leaf in self.path for found in (leaf, *rest)]

    @cached_property
    def closes(self) -> list[NoisyLeaf | None]:
        """The leaf that ends with each cell, if any."""
        rest: list[NoisyLeaf | None] = [None] * (self.per_leaf - 1)
        return [found for leaf in self.path for found in (*rest, leaf)]

    @cached_property
    def edges(self) -> list[int]:
        """The beginnings of the cells, counted from the beginning of the block; and its end."""
        found = []
        for leaf in range(self.tree.leaves):
            start, end = self.tree.edge(leaf), self.tree.edge(leaf + 1)
            found += [
                start + inside * (end - start) // self.per_leaf for inside in range(self.per_leaf)
            ]
        return [*found, self.tree.length]

    @cached_property
    def widths(self) -> list[int]:
        """The number of values in each cell."""
        return [end - start for start, end in pairwise(self.edges)]


@lru_cache(maxsize=64)
def cells_of(tree: Layout, unit: int) -> BlockCells:
    """The cells of a tree; cached, since most blocks reuse an earlier tree."""
    return BlockCells(tree, unit)


class CellProfile(NamedTuple):
    """The facts that determine the filter's covariances in a block."""

    one: Models
    cells: BlockCells
    noise_factor: float
    length: int  # values that have come


class CellStep(NamedTuple):
    """A step of the filter: the leaf that opens, the cell's values, the leaf measured at its end.

    One entry per block everywhere; None: no leaf opens, none is measured.
    """

    opened: NoisyLeaves | None
    widths: IntArray
    measured: NoisyLeaves | None

    def of(self, columns: IntArray) -> CellStep:
        """The steps of these blocks, in order."""
        opened, widths, measured = self
        return CellStep(
            opened and opened.of(columns), widths[columns], measured and measured.of(columns)
        )


def cell_steps_of(profiles: Sequence[CellProfile], measured_leaves: int) -> list[CellStep]:
    """The steps through the cells begun, for blocks of one kind with this many measured leaves.

    The last one may be incomplete. One entry per profile everywhere.
    """
    cells, steps = profiles[0].cells, []
    lengths = np.array([one.length for one in profiles], dtype=np.int64)
    for cell in range(cells.count):
        widths = np.minimum(cells.edges[cell + 1], lengths) - cells.edges[cell]
        if widths.item(0) <= 0:
            break
        opened = measured = None
        if cells.opens[cell] is not None:
            leaves = [one.cells.opens[cell] for one in profiles]
            opened = noisy_leaves_side_by_side(
                [
                    leaf if one.noise_factor == 1.0 else leaf.reweighted(one.noise_factor)
                    for leaf, one in zip(leaves, profiles, strict=True)
                    if leaf is not None
                ]
            )
        if cell // cells.per_leaf < measured_leaves and cells.closes[cell] is not None:
            closed = [one.cells.closes[cell] for one in profiles]
            measured = noisy_leaves_side_by_side([leaf for leaf in closed if leaf is not None])
        steps.append(CellStep(opened, widths, measured))
    return steps
