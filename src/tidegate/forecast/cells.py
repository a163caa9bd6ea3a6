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
    def path(self) -> list[Leaf]:
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

    def edge(self, cell: int) -> int:
        """Where a cell begins, counted from the beginning of the block."""
        leaf, inside = divmod(cell, self.per_leaf)
        start = self.tree.edge(leaf)
        if not inside:
            return start
        return start + inside * (self.tree.edge(leaf + 1) - start) // self.per_leaf

    def width(self, cell: int) -> int:
        """Values in a cell."""
        return self.edge(cell + 1) - self.edge(cell)
