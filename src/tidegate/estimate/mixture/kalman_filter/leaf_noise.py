"""The correlated noise of a tree's leaves as a Markov process, leaf by leaf.

The consistent leaves of a tree have the covariance Σ_l λ_l (P_l − P_{l−1}), P_l = averaging over
the nodes of level l, and 1/λ_l = Σ over l and all finer levels of (leaves per node)/variance. That
is the law of this path: the total noise of a coarsest node is drawn afresh; a node with noise T
hands T/r to the next of its r children that are still to come, plus a contrast of variance
v·(1 − 1/r), v = λ_l·(leaves per child), and keeps the rest. The last child gets all that is left.
So the state is two numbers, the noise that is left in the open nodes of the upper levels, and a
measurement costs the same whatever the tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from tidegate.lattice import FloatArray, IntArray

MOST_LEVELS = 3  # two open nodes above the leaf


@dataclass(frozen=True)
class NoisyLeaf:
    """The noise state before and after one leaf; variances in the caller's unit, squared.

    Attributes:
        outer: variance of an outer node that begins here; None: none begins.
        inner: variance of an inner node that begins here; None: none begins.
        inner_share: the part of the outer noise that the new inner node gets.
        share: the part of the inner noise that this leaf gets.
        variance: of the contrast that comes on top.
    """

    outer: float | None
    inner: float | None
    inner_share: float
    share: float
    variance: float

    @property
    def coarsest(self) -> float:
        """The variance of a coarsest node that begins here; 0: none does."""
        if self.outer is not None:
            return self.outer
        return 0.0 if self.inner is None or self.inner_share else self.inner

    def reweighted(self, times: float) -> NoisyLeaf:
        """The same leaf, with the variance of a coarsest node that begins here multiplied."""
        if not self.coarsest:
            return self
        coarsest = self.coarsest * times
        return replace(self, **{"inner" if self.outer is None else "outer": coarsest})

    @cached_property
    def contrast(self) -> FloatArray:
        """The variance as a 0-dimensional array, which numpy handles faster."""
        return np.array(self.variance)


class NoisyLeaves(NamedTuple):
    """`NoisyLeaf` for many blocks, one entry each; `inner`, `outer` are None where none begins."""

    outer: FloatArray | None
    inner: FloatArray | None
    inner_share: FloatArray | float
    share: FloatArray
    contrast: FloatArray

    def of(self, columns: IntArray) -> NoisyLeaves:
        """The leaves of these blocks, in order."""
        outer, inner, handed, share, contrast = self
        return NoisyLeaves(
            None if outer is None else outer[columns],
            None if inner is None else inner[columns],
            handed if isinstance(handed, float) else handed[columns],
            share[columns],
            contrast[columns],
        )


def noisy_leaves_side_by_side(leaves: Sequence[NoisyLeaf]) -> NoisyLeaves:
    """The leaf at the same place in several trees of one shape."""
    first = leaves[0]
    return NoisyLeaves(
        None if first.outer is None else np.array([leaf.outer for leaf in leaves]),
        None if first.inner is None else np.array([leaf.inner for leaf in leaves]),
        np.array([leaf.inner_share for leaf in leaves]) if first.inner_share else 0.0,
        np.array([leaf.share for leaf in leaves]),
        np.array([leaf.variance for leaf in leaves]),
    )


def leaf_noise_path(nodes: Sequence[int], variances: Sequence[float]) -> tuple[NoisyLeaf, ...]:
    """The leaves of a tree with at most three levels, in order; coarsest level first."""
    return _leaf_noise_path(tuple(nodes), tuple(variances))


@lru_cache(maxsize=64)
def _leaf_noise_path(nodes: tuple[int, ...], variances: tuple[float, ...]) -> tuple[NoisyLeaf, ...]:
    leaves = nodes[-1]
    eigenvalues = []
    information = 0.0
    for count, variance in zip(reversed(nodes), reversed(variances), strict=True):
        information += (leaves / count) / variance
        eigenvalues.append(1.0 / information)
    # Variance of a node's own contrast (of the whole node, at the coarsest level), per level.
    free = [
        value * (leaves / count) for value, count in zip(reversed(eigenvalues), nodes, strict=True)
    ]
    if len(nodes) == 1:
        return tuple(NoisyLeaf(None, free[0], 0.0, 1.0, 0.0) for _ in range(leaves))
    inner_width = leaves // nodes[-2]
    outer_width = leaves // nodes[0]
    path = []
    for index in range(leaves):
        outer: float | None = None
        inner: float | None = None
        inner_share = 0.0
        if index % inner_width == 0 and len(nodes) == 2:
            inner = free[0]
        elif index % inner_width == 0:
            left = (outer_width - index % outer_width) // inner_width
            outer = free[0] if index % outer_width == 0 else None
            inner, inner_share = free[1] * (1 - 1 / left), 1 / left
        left = inner_width - index % inner_width
        path.append(NoisyLeaf(outer, inner, inner_share, 1 / left, free[-1] * (1 - 1 / left)))
    return tuple(path)
