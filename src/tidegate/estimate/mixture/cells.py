"""How a block is divided into cells: each has one forecast, and a leaf has one or more."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

from tidegate.estimate.mixture.leaf_noise import Leaf, noise_path
from tidegate.estimate.mixture.models import CELLS
from tidegate.stages import Layout


@dataclass(frozen=True)
class Cells:
    """The cells of a block that is measured by `tree`; variances are in `unit`² (θ²)."""

    tree: Layout
    unit: int

    @cached_property
    def per_leaf(self) -> int:
        """Cells per leaf, so that a block of at least 16 values has at least 16 cells."""
        return max(1, min(CELLS, self.tree.length) // self.tree.leaves)

    @cached_property
    def count(self) -> int:
        """Cells of the block."""
        return self.per_leaf * self.tree.leaves

    @cached_property
    def path(self) -> tuple[Leaf, ...]:
        """The noise of the leaves, one after the other."""
        variances = [variance / self.unit**2 for variance in self.tree.variances]
        return noise_path(self.tree.nodes, variances)

    @cached_property
    def opens(self) -> list[Leaf | None]:
        """For every cell the leaf that begins with it, if one does."""
        rest: list[Leaf | None] = [None] * (self.per_leaf - 1)
        return [found for leaf in self.path for found in (leaf, *rest)]

    @cached_property
    def closes(self) -> list[Leaf | None]:
        """For every cell the leaf that ends with it, if one does."""
        rest: list[Leaf | None] = [None] * (self.per_leaf - 1)
        return [found for leaf in self.path for found in (*rest, leaf)]

    @cached_property
    def edges(self) -> list[int]:
        """Where the cells begin, counted from the beginning of the block; and its end."""
        found = []
        for leaf in range(self.tree.leaves):
            start, end = self.tree.edge(leaf), self.tree.edge(leaf + 1)
            found += [
                start + inside * (end - start) // self.per_leaf for inside in range(self.per_leaf)
            ]
        return [*found, self.tree.length]

    @cached_property
    def widths(self) -> list[int]:
        """Values in each cell."""
        return [end - start for start, end in pairwise(self.edges)]


@lru_cache(maxsize=64)
def cells_of(tree: Layout, unit: int) -> Cells:
    """The cells of a tree; cached, since most blocks repeat an earlier tree."""
    return Cells(tree, unit)
