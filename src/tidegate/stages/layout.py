"""`Layout`: how one block of values is measured: leaves, tree, noise. Public data."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property


@dataclass(frozen=True)
class Layout:
    """How one block of values is measured: public, and decided before its first value arrives.

    Attributes:
        length: values in the block.
        nodes: nodes per level, coarsest first; each number divides the next, the last are leaves
            (of an irregular perturber: the most that there can be).
        cap: values are truncated here, in lattice units.
        scales: discrete Laplace scale of a node per level, in units; Σ cap/scale ≤ ε. (Of
            Gaussian noise: the Laplace scale of the same variance.) Empty where the noise is not
            that of a tree; `consistent` is false then.
        variances: the variances that follow from the scales, in units².
        used: leaves that the block has, the first ones; None: all. (A horizon may end before its
            last tree does.)
        cap_step: how high the cap is; options with the same one differ in the tree only.
        consistent: whether the leaves are made to agree with all nodes, by least squares.
    """

    length: int
    nodes: tuple[int, ...]
    cap: int
    scales: tuple[Fraction, ...]
    variances: tuple[float, ...]
    used: int | None = None
    cap_step: int = 0
    consistent: bool = True

    def __hash__(self) -> int:
        return self._hash  # kept: caches ask for it often, and that of a fraction takes long

    @cached_property
    def _hash(self) -> int:
        return hash((self.length, self.nodes, self.cap, self.scales, self.used))

    @property
    def identity(self) -> str:
        """The facts that determine the noise of the nodes. Part of its key: never change it.

        Names are written out, so that renaming a class or a field changes no noise. (`used` decides
        which nodes are needed, not which noise they get.)
        """
        return (
            f"Tree(length={self.length}, nodes={self.nodes}, cap={self.cap}, scales={self.scales}, "
            f"variances={self.variances}, rung={self.cap_step})"  # as it was first written
        )

    @property
    def leaves(self) -> int:
        """The number of released sums."""
        return self.nodes[-1] if self.used is None else self.used

    def edge(self, leaf: int) -> int:
        """The position in the block where a leaf begins."""
        return leaf * self.length // self.leaves

    def leaves_by(self, values: int) -> int:
        """How many leaves are complete after `values` values of the block: all with edge ≤ values.

        >>> layout = Layout(10, (4,), 1, (Fraction(1),), (2.0,))
        >>> (
        ...     [layout.edge(leaf) for leaf in range(5)],
        ...     [layout.leaves_by(n) for n in (0, 2, 4, 5, 10)],
        ... )
        ([0, 2, 5, 7, 10], [0, 1, 1, 2, 4])
        """
        return min(self.leaves, ((values + 1) * self.leaves - 1) // self.length)
