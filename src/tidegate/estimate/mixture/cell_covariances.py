"""Posterior covariances between any two cells, without a product over all cells between them.

And how far they are to be trusted (`Misfit`).

The covariance of the sums at cells k < j is rows_k C_kᵀ … C_{j−1}ᵀ ends_j. Cells are gathered in
groups of 256, and the products from a cell to the end of its group, from the beginning of a group
to a cell, and from group to group are computed once. Products are sums in a fixed order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tidegate.lattice import FloatArray, IntArray

_GROUP = 256
# Pairs of cells that are handled at once, so that they stay in the processor's cache.
_PIECE = 1 << 13
# Leaves around a range that count in its misfit, and how many the mean over everything counts as.
_NEAR, _PRIOR = 3, 2.0


def product(left: FloatArray, right: FloatArray) -> FloatArray:
    """Matrix products, one for each entry of the last axis, term after term: no library decides.

    With the small matrices' own axes first, numpy's inner loop runs over all of them.
    """
    total: FloatArray = left[:, 0, np.newaxis] * right[0]
    for term in range(1, left.shape[1]):
        total += left[:, term, np.newaxis] * right[term]
    return total


def applied(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """One matrix to one vector, for each entry of the last axis."""
    total: FloatArray = matrices[:, 0] * vectors[0]
    for term in range(1, matrices.shape[1]):
        total += matrices[:, term] * vectors[term]
    return total


def _dots(vectors: FloatArray, rows: FloatArray) -> FloatArray:
    """The inner products of columns with rows, each summed as a row in one piece is."""
    found: FloatArray = (np.ascontiguousarray(vectors.T) * rows).sum(axis=1)
    return found


Chain = tuple[FloatArray, FloatArray, FloatArray]  # maps C (the last axis: cells), rows, ends


class CellCovariances:
    """Posterior covariances of the sums at cells k ≤ j, for arrays of k and j."""

    def __init__(self, chain: Chain, products: GroupProducts | None) -> None:
        """`products` if there is more than one group."""
        self._maps, self._rows, self._ends = chain
        if products is not None:
            self._leaving, self._arriving, self._between = products

    def between(self, first: IntArray, last: IntArray) -> FloatArray:
        """The covariance of the sums at the ends of the cells `first` and `last`."""
        group, later = first // _GROUP, last // _GROUP
        found = np.zeros(first.size)
        far = later > group
        pairs = np.flatnonzero(far)
        for start in range(0, pairs.size, _PIECE):
            piece = pairs[start : start + _PIECE]
            # From the beginning of the group after `first` to that of `last`; the diagonal is 1.
            between = self._between[..., group[piece] + 1, later[piece]]
            moved = applied(between, self._leaving[:, first[piece]])
            found[piece] = _dots(moved, self._arriving[last[piece] - _GROUP])
        near = ~far
        found[near] = self._within(first[near], last[near])
        return found

    def _within(self, first: IntArray, last: IntArray) -> FloatArray:
        steps = last - first
        vectors = self._rows[first].T.copy()
        for step in range(int(steps.max(initial=0))):
            (going,) = (steps > step).nonzero()
            vectors[:, going] = applied(self._maps[..., first[going] + step], vectors[:, going])
        return _dots(vectors, self._ends[last])


class GroupProducts(NamedTuple):
    """Products that pairs in different groups need."""

    leaving: FloatArray  # from each cell to the beginning of the next group, times its row: columns
    arriving: FloatArray  # from the beginning of its group to a cell of the second on: rows
    between: FloatArray  # from the beginning of each group to that of each later one


def cell_covariances(chains: Sequence[Chain]) -> list[CellCovariances]:
    """The covariances of each of many chains; groups of all of them are multiplied together."""
    # Of chains within one group, every pair lies within it: no products are needed.
    long = [at for at, (_, rows, _) in enumerate(chains) if len(rows) > _GROUP]
    products = dict(zip(long, _group_products([chains[at] for at in long]), strict=True))
    return [CellCovariances(chain, products.get(at)) for at, chain in enumerate(chains)]


def _group_products(chains: Sequence[Chain]) -> list[GroupProducts]:
    if not chains:
        return []
    groups = [-(-len(rows) // _GROUP) for _, rows, _ in chains]
    # One after the other, without the last group of each chain, which nothing leaves; and without
    # the first, in which nothing arrives.
    fewer = [count - 1 for count in groups]
    left = _by_place([maps for maps, _, _ in chains], fewer, first=0)
    entered = _by_place([maps for maps, _, _ in chains], fewer, first=_GROUP)
    after = np.empty_like(left)  # from a cell to the beginning of the next group
    after[-1] = left[-1]
    for inside in range(_GROUP - 2, -1, -1):
        after[inside] = product(after[inside + 1], left[inside])
    before = np.empty_like(entered)  # from the beginning of its group to a cell
    before[0] = np.eye(len(before[0]))[..., np.newaxis]
    for inside in range(1, _GROUP):
        before[inside] = product(entered[inside - 1], before[inside - 1])
    found, first = [], 0
    for count, (_, rows, ends) in zip(groups, chains, strict=True):
        mine = slice(first, first + count - 1)
        first += count - 1
        between = np.tile(np.eye(rows.shape[1])[..., np.newaxis, np.newaxis], (1, 1, count, count))
        for target in range(1, count):
            whole = after[0, ..., mine][..., target - 1 : target]
            between[..., :target, target] = product(whole, between[..., :target, target - 1])
        inside = (count - 1) * _GROUP
        leaving = applied(_in_a_row(after[..., mine]), rows[:inside].T)
        turned = _in_a_row(before[..., mine])[..., : len(rows) - _GROUP].transpose(1, 0, 2)
        arriving = np.ascontiguousarray(applied(turned, ends[_GROUP:].T).T)
        found.append(GroupProducts(leaving, arriving, between))
    return found


def _by_place(maps: Sequence[FloatArray], groups: Sequence[int], first: int) -> FloatArray:
    """So many groups of each from cell `first` on: by place in the group, the matrix, the group.

    Filled up with I.
    """
    size, at = len(maps[0]), 0
    padded = np.repeat(np.eye(size)[..., np.newaxis], sum(groups) * _GROUP, axis=2)
    for count, every in zip(groups, maps, strict=True):
        part = every[..., first : first + count * _GROUP]
        padded[..., at : at + part.shape[2]] = part
        at += count * _GROUP
    return padded.reshape(size, size, -1, _GROUP).transpose(3, 0, 1, 2).copy()


def _in_a_row(by_place: FloatArray) -> FloatArray:
    """The inverse: one cell after the other."""
    found = by_place.transpose(1, 2, 3, 0)
    return found.reshape(*found.shape[:2], -1)


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
