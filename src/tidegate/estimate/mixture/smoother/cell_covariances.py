"""Posterior covariances between any two cells, from the closed-loop transition C of every cell.

`Misfits` says how far they are to be trusted.

The covariance of the sums at cells k < j is rows_k C_kᵀ … C_{j−1}ᵀ ends_j. Between blocks only the
running sum, the level and the swing are handed on: so a pair in two blocks needs what leaves the
one, what arrives in the other (`SmoothedCells`), and a product of 3×3 matrices between them.
Products over 1, 2, 4, … blocks are computed once. Everything is elementwise, in a fixed order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.estimate.mixture.kalman_filter import state_space_models as entry
from tidegate.estimate.mixture.kalman_filter.block_cells import CellStep
from tidegate.estimate.mixture.smoother.block_batches import BlockBatch, FilterPass
from tidegate.lattice import FloatArray, IntArray


class CellUpdates(NamedTuple):
    """The updates at the ends of cells: one entry each, in the last axis."""

    measured: NDArray[np.bool_]
    shares: FloatArray  # of entry.INNER in h
    innovations: FloatArray
    variances: FloatArray  # of the innovations
    gains: FloatArray

    @classmethod
    def empty(cls, count: int) -> CellUpdates:
        """For `count` cells at which nothing is measured."""
        measured = np.zeros(count, dtype=np.bool_)
        shares, innovations = np.zeros((2, count))
        return cls(measured, shares, innovations, np.ones(count), np.zeros((entry.SIZE, count)))

    def of(self, cells: slice) -> CellUpdates:
        """Those of some cells."""
        measured, *numbers = self
        return CellUpdates(measured[cells], *(part[..., cells] for part in numbers))

    def keep(self, cells: IntArray, steps: Sequence[CellStep], passed: FilterPass) -> None:
        """Note the updates of blocks of one kind; `cells` of each block, a column each."""
        leaves = [step.measured for step in steps]
        self.measured[cells.T] = [leaf is not None for leaf in leaves]
        for at, leaf in enumerate(leaves):
            if leaf is not None:
                self.shares[cells[at]] = leaf.share
        self.innovations[cells] = passed.innovations
        self.variances[cells] = passed.variances
        self.gains[:, cells] = passed.gains.transpose(1, 0, 2)


def transition_entries(batch: BlockBatch) -> FloatArray:
    """The numbers that F of each cell consists of, with the opening of its leaf: six for each.

    What opening a leaf leaves of the inner and of the outer noise and hands from one to the other;
    then what a unit of level and of swing adds to the sums, and the decay of the swing. The first
    axis counts cells, the last one blocks.
    """
    found = np.empty((len(batch.steps), 6, batch.numbers.size))
    for each, step in zip(found, batch.steps, strict=True):
        each[:2], each[2] = 1.0, 0.0
        opened = step.opened
        if opened is not None and opened.inner is not None:
            kept = 0.0 if opened.outer is not None else 1.0
            each[0] = 0.0
            each[1] = kept * (1.0 - opened.inner_share)
            each[2] = kept * opened.inner_share
        each[3:] = batch.growth(step)
    return found


def closed_loop(updates: CellUpdates, entries: FloatArray) -> FloatArray:
    """C of every cell but the last: a matrix each, the last axis counts them."""
    cells = updates.measured.size
    found: FloatArray = np.tile(np.eye(entry.SIZE)[..., np.newaxis], (1, 1, cells))
    found[:, entry.LEAF] -= updates.gains * (1.0 - updates.shares)
    found[:, entry.INNER] -= updates.gains * updates.shares
    found[entry.LEAF, :, updates.measured] = 0.0
    return enter(found[..., :-1], entries[:, 1:])


def enter(updates: FloatArray, entries: FloatArray) -> FloatArray:
    """F times the columns of each matrix: from the update at the end of a cell into the next one.

    For the update I − K·hᵀ that is C. The last axis of both counts cells.
    """
    inner, outer, handed, length, swing_sum, decay = entries
    found = updates.copy()
    found[entry.INNER] = inner * found[entry.INNER] + handed * found[entry.OUTER]
    found[entry.OUTER] *= outer
    growth = length * found[entry.LEVEL] + swing_sum * found[entry.SWING]
    for row in (entry.SUM, entry.LEAF, entry.INNER):
        found[row] += growth
    found[entry.SWING] *= decay
    return found


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


def inner(one: FloatArray, other: FloatArray) -> FloatArray:
    """The inner product of two vectors, for each entry of the last axis."""
    total: FloatArray = one[0] * other[0]
    for term in range(1, len(one)):
        total += one[term] * other[term]
    return total


class ChainedCells(NamedTuple):
    """The cells of many chains, one chain after the other, in the last axis.

    Attributes:
        rows: the row of P of the running sum.
        ends: (I − Λ·P)·e_sum.
        leaving, arriving: to the block after, and from the one before (`SmoothedCells`).
        updates, entries: what C consists of.
        block_of: the number of each cell's block.
    """

    rows: FloatArray
    ends: FloatArray
    leaving: FloatArray
    arriving: FloatArray
    updates: CellUpdates
    entries: FloatArray
    block_of: IntArray


class CellCovariances:
    """Posterior covariances of the sums at cells k ≤ j of one chain, for arrays of k and j.

    `across` is C over each block: of the running sum, the level and the swing.
    """

    def __init__(self, cells: ChainedCells, across: FloatArray) -> None:
        self._cells, self._across = cells, [across]  # over 1, 2, 4, … blocks

    def between(self, first: IntArray, last: IntArray) -> FloatArray:
        """The covariance of the sums at the ends of the cells `first` and `last`."""
        found: FloatArray = np.empty(first.size)
        blocks = self._cells.block_of
        together = blocks.take(first) == blocks.take(last)
        # Those within a block go step by step: the fewer pieces, the fewer steps.
        for pairs, ask in ((together, self._within_a_block), (~together, self._of_two_blocks)):
            (some,) = pairs.nonzero()
            for start in range(0, some.size, _PIECE):
                piece = some[start : start + _PIECE]
                found[piece] = ask(first.take(piece), last.take(piece))
        return found

    def _of_two_blocks(self, first: IntArray, last: IntArray) -> FloatArray:
        cells = self._cells
        vectors = cells.leaving.take(first, axis=1)
        at = cells.block_of.take(first) + 1
        over = cells.block_of.take(last) - at
        for power in range(int(over.max(initial=0)).bit_length()):
            (going,) = (over >> power & 1).nonzero()
            if going.size:
                matrices = self._over(power).take(at.take(going), axis=2)
                vectors[:, going] = applied(matrices, vectors.take(going, axis=1))
                at[going] += 1 << power
        found: FloatArray = vectors[0] + inner(vectors[1:], cells.arriving.take(last, axis=1))
        return found

    def _over(self, power: int) -> FloatArray:
        """C over 2^power blocks from each on; beyond the end of a chain it means nothing."""
        while len(self._across) <= power:
            before, step = self._across[-1], 1 << (len(self._across) - 1)
            whole = before.copy()
            whole[..., :-step] = product(before[..., step:], before[..., :-step])
            self._across.append(whole)
        return self._across[power]

    def _within_a_block(self, first: IntArray, last: IntArray) -> FloatArray:
        cells = self._cells
        # The most steps first: those that go on are then the first ones.
        order = np.argsort(first - last, kind="stable")
        begin, steps = first[order], (last - first)[order]
        vectors = cells.rows[:, begin]
        left = np.searchsorted(-steps, -np.arange(int(steps.max(initial=0))), side="left")
        for step, going in enumerate(left.tolist()):
            _pass_through_cells(vectors[:, :going], begin[:going] + step, cells)
        found: FloatArray = np.empty(first.size)
        found[order] = inner(vectors, cells.ends[:, last[order]])
        return found


def _pass_through_cells(vectors: FloatArray, at: IntArray, cells: ChainedCells) -> None:
    """C of the cells `at` to vectors, one each, in place."""
    updates = cells.updates
    share = updates.shares[at]
    seen = (1.0 - share) * vectors[entry.LEAF]
    seen += share * vectors[entry.INNER]
    vectors -= updates.gains[:, at] * seen  # no gains where nothing was measured
    vectors[entry.LEAF][updates.measured[at]] = 0.0
    kept, left, handed, length, swing_sum, decay = cells.entries[:, at + 1]
    vectors[entry.INNER] *= kept
    vectors[entry.INNER] += handed * vectors[entry.OUTER]
    vectors[entry.OUTER] *= left
    growth = length * vectors[entry.LEVEL]
    growth += swing_sum * vectors[entry.SWING]
    vectors[: entry.GROWING] += growth
    vectors[entry.SWING] *= decay


class Misfits:
    """How much larger innovations were than a model expects, over ranges of leaves: reduced χ².

    If a model expects too little, so may all that it says. Innovations are public, so variances can
    be scaled by them. How wrong a model is changes: after a level has moved, the newest answers are
    worse than all answers are in the mean. So the scale is that of the range: the mean of e²/s over
    its leaves and three more to both sides, shrunk towards the mean over everything. It is never
    below 1: noise is the larger part of most innovations, and its variance is known.

    `distances` has e²/s of all leaves, one chain after the other, `counts` how many each has.
    """

    def __init__(self, distances: FloatArray, counts: IntArray) -> None:
        self._counts, ends = counts, np.cumsum(counts)
        # One more than leaves for each chain.
        self._firsts = ends - counts + np.arange(counts.size)
        self._sums: FloatArray = np.zeros(distances.size + counts.size)
        bounds = zip(ends.tolist(), counts.tolist(), self._firsts.tolist(), strict=True)
        for end, count, first in bounds:  # each by itself: the bits that it has alone
            np.cumsum(distances[end - count : end], out=self._sums[first + 1 : first + 1 + count])
        whole = self._sums[self._firsts + counts]
        self._means = np.maximum(whole / np.maximum(counts, 1), 1.0)

    def between(self, chains: IntArray, starts: IntArray, ends: IntArray) -> FloatArray:
        """The misfit of ranges between `starts` and `ends`: how many leaves ended by then."""
        first, last = np.maximum(starts - _NEAR, 0), np.minimum(ends + _NEAR, self._counts[chains])
        begin = self._firsts[chains]
        found = self._sums[begin + last] - self._sums[begin + first]
        found += _PRIOR * self._means[chains]
        found /= last - first + _PRIOR
        result: FloatArray = np.maximum(found, 1.0)
        return result
