"""Posterior covariances between any two cells, without a product over all cells between them.

And how far they are to be trusted (`Misfit`).

The covariance of the sums at cells k < j is rows_k C_kᵀ … C_{j−1}ᵀ ends_j. Cells are gathered in
groups of 256, and the products from a cell to the end of its group, from the beginning of a group
to a cell, and from group to group are computed once. Products are sums in a fixed order.
"""

from __future__ import annotations

import numpy as np

from tidegate.lattice import FloatArray, IntArray

_GROUP = 256
# Pairs of cells that are handled at once, so that they stay in the processor's cache.
_PIECE = 1 << 13
# Leaves around a range that count in its misfit, and how many the mean over everything counts as.
_NEAR, _PRIOR = 3, 2.0


def product(left: FloatArray, right: FloatArray) -> FloatArray:
    """Matrix product of (stacks of) small matrices, term after term: no library decides."""
    total: FloatArray = left[..., :, 0, np.newaxis] * right[..., 0, np.newaxis, :]
    for term in range(1, left.shape[-1]):
        total += left[..., :, term, np.newaxis] * right[..., term, np.newaxis, :]
    return total


def applied(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """One matrix to one vector, for each of a stack."""
    total: FloatArray = matrices[..., 0] * vectors[..., 0, np.newaxis]
    for term in range(1, matrices.shape[-1]):
        total += matrices[..., term] * vectors[..., term, np.newaxis]
    return total


class CellCovariances:
    """Posterior covariances of the sums at cells k ≤ j, for arrays of k and j."""

    def __init__(self, maps: FloatArray, rows: FloatArray, ends: FloatArray) -> None:
        count, size = rows.shape
        groups = -(-count // _GROUP)
        padded = np.tile(np.eye(size), (groups * _GROUP, 1, 1))
        padded[: len(maps)] = maps
        self._maps = padded.reshape(groups, _GROUP, size, size)
        self._rows, self._ends = rows, ends
        if groups == 1:  # every pair lies within it: no products between groups are needed
            return
        after = np.empty_like(self._maps)  # from a cell to the beginning of the next group
        before = np.empty_like(self._maps)  # from the beginning of its group to a cell
        before[:, 0] = np.eye(size)
        for inside in range(1, _GROUP):
            before[:, inside] = product(self._maps[:, inside - 1], before[:, inside - 1])
        after[:, -1] = self._maps[:, -1]
        for inside in range(_GROUP - 2, -1, -1):
            after[:, inside] = product(after[:, inside + 1], self._maps[:, inside])
        flat = (groups * _GROUP, size, size)
        self._leaving = applied(after.reshape(flat)[:count], rows)
        turned = before.reshape(flat)[:count].transpose(0, 2, 1)
        self._arriving = applied(turned, ends)
        self._between = np.tile(np.eye(size), (groups, groups, 1, 1))
        for target in range(1, groups):
            whole = after[target - 1, 0]
            self._between[:target, target] = product(whole, self._between[:target, target - 1])

    def between(self, first: IntArray, last: IntArray) -> FloatArray:
        """The covariance of the sums at the ends of the cells `first` and `last`."""
        group, later = first // _GROUP, last // _GROUP
        found = np.zeros(first.size)
        far = later > group
        pairs = np.flatnonzero(far)
        for start in range(0, pairs.size, _PIECE):
            piece = pairs[start : start + _PIECE]
            # From the beginning of the group after `first` to that of `last`; the diagonal is 1.
            between = self._between[group[piece] + 1, later[piece]]
            moved = applied(between, self._leaving[first[piece]])
            found[piece] = (moved * self._arriving[last[piece]]).sum(axis=1)
        near = ~far
        found[near] = self._within(first[near], last[near])
        return found

    def _within(self, first: IntArray, last: IntArray) -> FloatArray:
        vectors = self._rows[first]
        here, group = first % _GROUP, first // _GROUP
        steps = last - first
        for step in range(int(steps.max(initial=0))):
            going = np.flatnonzero(steps > step)
            maps = self._maps[group[going], here[going] + step]
            vectors[going] = applied(maps, vectors[going])
        found: FloatArray = (vectors * self._ends[last]).sum(axis=1)
        return found


class Misfit:
    """How much larger innovations were than a model expects, over ranges of cells: reduced χ².

    If a model expects too little, so may all that it says. Innovations are public, so variances can
    be scaled by them. How wrong a model is changes: after a level has moved, the newest answers are
    worse than all answers are in the mean. So the scale is that of the range: the mean of e²/s over
    its leaves and three more to both sides, shrunk towards the mean over everything. It is never
    below 1: noise is the larger part of most innovations, and its variance is known.

    `distances[k]` is e²/s at the end of cell k − 1, and `leaves[k]` whether a leaf ended there.
    """

    def __init__(self, distances: FloatArray, leaves: IntArray) -> None:
        self._leaf_of = np.cumsum(leaves)  # leaves that ended by each edge
        ended = distances[leaves > 0]
        self._sums = np.concatenate(([0.0], np.cumsum(ended)))
        self._mean = max(1.0, float(self._sums[-1]) / max(ended.size, 1))

    def between(self, starts: IntArray, ends: IntArray) -> FloatArray:
        """The misfit of the ranges between these edges (indices)."""
        first = np.maximum(self._leaf_of[starts] - _NEAR, 0)
        last = np.minimum(self._leaf_of[ends] + _NEAR, self._sums.size - 1)
        found = self._sums[last] - self._sums[first] + _PRIOR * self._mean
        found /= last - first + _PRIOR
        result: FloatArray = np.maximum(found, 1.0)
        return result
