r"""The geometry of a forest: complete trees without a common root, over one horizon.

A horizon of `leaves` blocks is covered by top trees of `fanout`**(`levels` − 1) leaves each; the
last one may stick out (its surplus leaves are never used). Top trees are independent, so they are
made lazily, one *grove* at a time: one top tree, or several if they are tiny.

    level 1 (top)      o               o               o         fanout 3, levels 2,
                     / | \           / | \           / | \       leaves 8: 3 top trees,
    level 0 (leaf)  o  o  o        o  o  o        o  o  ·        one leaf unused
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from tidegate.lattice import FloatArray, IntArray, divmod_by_number
from tidegate.noise import discrete_laplace, discrete_laplace_variance
from tidegate.perturb.consistency import (
    consistent_groves,
    consistent_leaves,
    own_weights,
    prefix_leaves,
)
from tidegate.randomness import Keystream

# Making this many leaves at once takes about as long as the fixed cost of making any.
# Part of the noise's identity: it decides which words a leaf gets.
_GROVE_LEAVES = 4096


def level_count(fanout: int, leaves: int) -> int:
    """⌈log_fanout(leaves)⌉ in integers, at least 1: the paper's h.

    >>> level_count(16, 2**20), level_count(16, 257), level_count(2, 1)
    (5, 3, 1)
    """
    levels, reach = 1, fanout
    while reach < leaves:
        levels, reach = levels + 1, reach * fanout
    return levels


@dataclass(frozen=True)
class Forest:
    """One horizon's noise: `scales[l]` is the discrete Laplace scale of a node at level l."""

    fanout: int
    leaves: int
    scales: tuple[Fraction, ...]
    consistent: bool = True
    grove: int = _GROVE_LEAVES

    @property
    def identity(self) -> str:
        """Every scale, and the addresses of its words. Part of the noise key: never change it.

        Names are written out, so that renaming a class or a field changes no noise.
        """
        return (
            f"Forest(fanout={self.fanout}, leaves={self.leaves}, scales={self.scales}, "
            f"consistent={self.consistent}, grove={self.grove})"
        )

    @property
    def levels(self) -> int:
        """The number of levels; level 0 is that of the leaves."""
        return len(self.scales)

    @cached_property
    def tree_leaves(self) -> int:
        """The number of leaves of one top tree."""
        return int(self.fanout ** (self.levels - 1))

    @cached_property
    def grove_leaves(self) -> int:
        """The number of leaves whose noise is made at once, which bounds the memory."""
        trees = -(-self.leaves // self.tree_leaves)
        return self.tree_leaves * min(trees, max(1, self.grove // self.tree_leaves))

    @cached_property
    def variances(self) -> tuple[float, ...]:
        """Exact variance of a node's noise per level, in units²."""
        # Above 0 even where noise is so small that its variance vanishes: weights divide by it.
        return tuple(max(discrete_laplace_variance(scale), 1e-150) for scale in self.scales)

    @cached_property
    def weights(self) -> tuple[float, ...]:
        """`own_weights` of this forest."""
        return own_weights(self.fanout, self.variances)

    def nodes(self, keystream: Keystream, chunk: int, grove: int) -> list[IntArray]:
        """Independent noise for every node of one grove, leaves first."""
        return [
            discrete_laplace(
                keystream.at(chunk=chunk, tree=grove, level=level),
                self.grove_leaves // self.fanout**level,
                scale,
            )
            for level, scale in enumerate(self.scales)
        ]

    def combine(self, nodes: list[IntArray], carry: float) -> tuple[IntArray, float]:
        """The published leaves for these nodes (noise, or noisy sums), and the carry."""
        if self.consistent:
            return consistent_leaves(nodes, self.fanout, self.weights, carry)
        return prefix_leaves(nodes, self.fanout), 0.0

    def combine_groves(
        self, nodes: list[IntArray], carries: FloatArray
    ) -> tuple[IntArray, FloatArray]:
        """`combine` of many groves at once: one row of nodes for each."""
        if self.consistent:
            return consistent_groves(nodes, self.fanout, self.weights, carries)
        leaves = prefix_leaves(nodes, self.fanout)
        return leaves.reshape(carries.size, -1), np.zeros(carries.size)

    # -- the law of the noise, for error bars ---------------------------------------------------

    @property
    def largest_variance(self) -> float:
        """Variance of the noisiest node."""
        return max(self.variances)

    def range_variance(self, starts: IntArray, ends: IntArray) -> FloatArray:
        """Exact variance of the noise in the sum of leaves [start, end), over any number of
        horizons.

        Horizons are independent. (Integer rounding, less than one unit in a range, is left out.)
        """
        return over_horizons(self._within, self.leaves, starts, ends)

    def _within(self, starts: IntArray, ends: IntArray) -> FloatArray:
        return self._consistent(starts, ends) if self.consistent else self._minimal(starts, ends)

    @cached_property
    def _eigenvalues(self) -> list[float]:
        """Variance of the least-squares leaves along level-l contrasts (times leaves per node).

        A vector that is constant on level-l nodes and sums to zero over siblings is seen by the
        levels 0…l only; its information is Σ_{j≤l} fanout^j/σ_j². The covariance of the consistent
        leaves is therefore Σ_l λ_l (P_l − P_{l+1}) with λ_l = 1/information and P_l = averaging
        over level-l nodes.
        """
        information, eigenvalues = 0.0, []
        for level, variance in enumerate(self.variances):
            information += self.fanout**level / variance
            eigenvalues.append(1.0 / information)
        return eigenvalues

    def _consistent(self, starts: IntArray, ends: IntArray) -> FloatArray:
        eigenvalues = self._eigenvalues
        total: FloatArray = eigenvalues[0] * (ends - starts).astype(np.float64)
        for level in range(1, self.levels):
            total += (eigenvalues[level] - eigenvalues[level - 1]) * _squared_overlap(
                starts, ends, self.fanout**level
            )
        return total

    def _minimal(self, starts: IntArray, ends: IntArray) -> FloatArray:
        """The nodes that the prefixes of start and end do not share, level by level."""
        total = np.zeros(starts.shape, dtype=np.float64)
        for level, variance in enumerate(self.variances):
            left, right = starts // self.fanout**level, ends // self.fanout**level
            if level == self.levels - 1:  # top nodes have no parent: prefixes share from the left
                total += variance * (right - left)
                continue
            (parent, left), (other, right) = (
                divmod_by_number(one, self.fanout) for one in (left, right)
            )
            total += variance * np.where(parent == other, right - left, right + left)
        return total


def over_horizons(
    within: Callable[[IntArray, IntArray], FloatArray],
    leaves: int,
    starts: IntArray,
    ends: IntArray,
) -> FloatArray:
    """The variance of ranges over independent horizons, from that `within` one horizon."""
    first, start = divmod_by_number(starts, leaves)
    last, end = divmod_by_number(ends, leaves)
    across = first != last
    if not across.any():
        return within(start, end)
    beginning, ending = np.zeros_like(start), np.full_like(end, leaves)
    in_first = within(start, np.where(across, ending, end))
    in_last = within(beginning, np.where(across, end, 0))
    between = np.where(across, last - first - 1, 0)
    whole = float(within(np.array([0]), np.array([leaves]))[0])
    return in_first + in_last + between * whole


def _squared_overlap(starts: IntArray, ends: IntArray, width: int) -> FloatArray:
    """Σ over nodes of `width` leaves of (leaves of the node inside [start, end))² / width."""
    start_node, into = divmod_by_number(starts, width)
    end_node, beyond = divmod_by_number(ends, width)
    one = np.square((ends - starts).astype(np.float64)) / width
    several = (
        np.square((width - into).astype(np.float64)) + np.square(beyond.astype(np.float64))
    ) / width + (end_node - start_node - 1) * float(width)
    return np.where(start_node == end_node, one, several)
