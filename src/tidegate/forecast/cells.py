"""How a block is cut into cells: stretches with one forecast, of which each leaf has some."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tidegate.forecast.models import CELLS
from tidegate.forecast.noise_path import Leaf, noise_path
from tidegate.guided import Tree


@dataclass(frozen=True)
class Cells:
    """The cells of a block that is measured by `tree`; `unit` (θ) is what variances count in."""

    tree: Tree
    unit: int

    @cached_property
    def per_leaf(self) -> int:
        """At least 16 cells in a block, if it has as many values."""
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

    def opens(self, cell: int) -> Leaf | None:
        """The leaf that begins with this cell."""
        leaf, inside = divmod(cell, self.per_leaf)
        return None if inside else self.path[leaf]

    def closes(self, cell: int) -> Leaf | None:
        """The leaf that ends with this cell."""
        leaf, inside = divmod(cell, self.per_leaf)
        return self.path[leaf] if inside == self.per_leaf - 1 else None

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

    def edge(self, cell: int) -> int:
        """Where a cell begins, counted from the beginning of the block."""
        return self.edges[cell]

    def width(self, cell: int) -> int:
        """Values in a cell."""
        return self.edges[cell + 1] - self.edges[cell]
