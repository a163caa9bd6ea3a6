"""Posterior variances of sums between any two cells, computed from profiles and blocks.

Given the state x₀ in which a block begins (the running sum, the level, the swing), the running sum
S at the end of a cell has the response ρ to x₀, a variance v and covariances c with the state x₁ in
which the block ends: `ProfileCells`. With P⁺ the covariance of x₀ given all blocks up to this one,
F the block's transition, and Λ what later blocks tell of the level and the swing in x₁,

    A = P⁺·Fᵀ,    X = A·Λ,    V = P⁺ − X·Aᵀ,

the covariance of two such sums S and S′ of one block is, given everything,

    v(S, S′) − c·Λ·c′ + ρ·V·ρ′ − ρ·X·c′ − ρ′·X·c.

Between blocks only x is handed on: so a pair in two blocks needs what leaves the one, c + ρ·A; what
arrives in the other, (ρ − (c + ρ·A)·Λ·F)·(I − G·J), G the gain of the block; and a product of 3×3
matrices F·(I − G·J) between them. Products over 1, 2, 4, … blocks are computed once. Everything is
elementwise, in a fixed order. `CellMisfits` says how far variances are to be trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.estimate.mixture.kalman_filter import state_space_models as entry
from tidegate.estimate.mixture.smoother.block_batches import BlockBatch
from tidegate.estimate.mixture.smoother.profile_cells import ProfileCells
from tidegate.lattice import FloatArray, IntArray

if TYPE_CHECKING:
    from tidegate.estimate.mixture.smoother.smoothed_blocks import SmoothedBlocks

# Pairs of cells that are handled at once, so that they stay in the processor's cache.
_PIECE = 1 << 13
# Leaves around a range that count in its misfit, and how many the mean over everything counts as.
_NEAR, _PRIOR = 3, 2.0


def cell_products(left: FloatArray, right: FloatArray) -> FloatArray:
    """Matrix products, one for each entry of the last axis, summed in a fixed order.

    With the small matrices' own axes first, numpy's inner loop runs over all of them.
    """
    total: FloatArray = left[:, 0, np.newaxis] * right[0]
    for term in range(1, left.shape[1]):
        total += left[:, term, np.newaxis] * right[term]
    return total


def applied_to_cells(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """Matrix times vector for each entry of the last axis."""
    total: FloatArray = matrices[:, 0] * vectors[0]
    for term in range(1, matrices.shape[1]):
        total += matrices[:, term] * vectors[term]
    return total


def cell_inner_products(one: FloatArray, other: FloatArray) -> FloatArray:
    """The inner product of two vectors for each entry of the last axis."""
    total: FloatArray = one[0] * other[0]
    for term in range(1, len(one)):
        total += one[term] * other[term]
    return total


def _pieces_of_cells(wanted: NDArray[np.bool_]) -> Iterator[IntArray]:
    """Split the places where `wanted` holds into pieces."""
    (places,) = wanted.nonzero()
    for start in range(0, places.size, _PIECE):
        yield places[start : start + _PIECE]


class CellPairEnds(NamedTuple):
    """The terms that the covariance of two cells in different blocks takes from each cell.

    Attributes:
        variances: of the running sum at the end of a cell.
        leaving: what leaves the block of the first cell.
        arriving: what arrives at the last one.
    """

    variances: Callable[[IntArray], FloatArray]
    leaving: Callable[[IntArray], FloatArray]
    arriving: Callable[[IntArray], FloatArray]

    def tabulated(self, count: int) -> CellPairEnds:
        """Compute the terms once for all `count` cells: for more pairs than cells."""
        pieces = list(_pieces_of_cells(np.ones(count, dtype=bool)))
        tables = (np.concatenate([of(cells) for cells in pieces], axis=-1) for of in self)
        return CellPairEnds(*(partial(np.take, table, axis=-1) for table in tables))


class CellVariances:
    """Posterior variances of sums between cells k ≤ j of one chain, for arrays of k and j.

    Args:
        blocks: what is known of all blocks.
        batches: the same blocks.
        block_of: the block of each cell of all chains.
        profile_of: its entry in `ProfileCells`.
    """

    def __init__(
        self,
        blocks: SmoothedBlocks,
        batches: Sequence[BlockBatch],
        block_of: IntArray,
        profile_of: IntArray,
    ) -> None:
        self.blocks, self._batches = blocks, batches
        self.block_of, self.profile_of = block_of, profile_of
        self._across = [blocks.across]  # over 1, 2, 4, … blocks

    @cached_property
    def cells(self) -> ProfileCells:
        """What blocks of one profile share, cell by cell."""
        found = ProfileCells.of(self._batches)
        self._batches = ()  # they are large
        return found

    def of(self, cells: IntArray) -> FloatArray:
        """The variance of the running sum at the ends of these cells."""
        at, own = self.profile_of[cells], self.cells.own
        found: FloatArray = self._given_state(self.block_of[cells], *self._parts(at), own[at])
        return found

    def between(self, first: IntArray, last: IntArray) -> FloatArray:
        """The variance of the sums between the ends of the cells `first` and `last`."""
        found: FloatArray = np.empty(first.size)
        ends = CellPairEnds(self.of, self._leaving, self._arriving)
        if first.size > self.block_of.size:
            ends = ends.tabulated(self.block_of.size)
        apart = self.block_of[last] - self.block_of[first]
        for some in _pieces_of_cells(apart == 0):
            found[some] = self._within_a_block(first[some], last[some])
        for some in _pieces_of_cells(apart > 0):
            found[some] = self._of_two_blocks(first[some], last[some], ends)
        return found

    def _parts(self, at: IntArray) -> tuple[FloatArray, FloatArray]:
        """ρ without its entry for the running sum, and c without it."""
        return self.cells.arriving[:, at], self.cells.leaving[1:, at]

    def _given_state(
        self, block: IntArray, arriving: FloatArray, leaving: FloatArray, own: FloatArray
    ) -> FloatArray:
        """ρ·V·ρ − 2·ρ·X·c − c·Λ·c + v for running sums."""
        blocks = self.blocks
        response = np.concatenate((np.ones((1, block.size)), arriving))
        parts = (blocks.covariances, blocks.crossed, blocks.told)
        return quadratic_of_cells(response, leaving, own, *(part[..., block] for part in parts))

    def _within_a_block(self, first: IntArray, last: IntArray) -> FloatArray:
        """The variance of the difference of two running sums in one block."""
        one, other = self.profile_of[first], self.profile_of[last]
        (arriving, leaving), (before, passed) = self._parts(other), self._parts(one)
        own = self.cells.own[one] + self.cells.own[other]
        own -= 2 * _between_cells(self.cells, one, other)
        blocks, block = self.blocks, self.block_of[last]
        parts = (blocks.covariances[1:, 1:], blocks.crossed[1:], blocks.told)
        return quadratic_of_cells(
            arriving - before, leaving - passed, own, *(part[..., block] for part in parts)
        )

    def _of_two_blocks(self, first: IntArray, last: IntArray, ends: CellPairEnds) -> FloatArray:
        one, other = self.block_of[first], self.block_of[last]
        vectors = ends.leaving(first)
        at, over = one + 1, other - one - 1
        for power in range(int(over.max(initial=0)).bit_length()):
            (going,) = (over >> power & 1).nonzero()
            if going.size:
                between = self._over(power).take(at[going], axis=-1)
                vectors[:, going] = applied_to_cells(between, vectors.take(going, axis=-1))
                at[going] += 1 << power
        shared = vectors[0] + cell_inner_products(vectors[1:], ends.arriving(last))
        found: FloatArray = ends.variances(first) + ends.variances(last) - 2 * shared
        return found

    def _leaving(self, cells: IntArray) -> FloatArray:
        """Covariances of running sum and state after the block, given the blocks so far."""
        found, block, at = self.blocks.leaving, self.block_of[cells], self.profile_of[cells]
        vectors: FloatArray = self.cells.leaving[:, at] + found[0][:, block]
        vectors += applied_to_cells(
            found[1:, :, block].transpose(1, 0, 2), self.cells.arriving[:, at]
        )
        return vectors

    def _arriving(self, cells: IntArray) -> FloatArray:
        """The response of the smoothed sum to a unit of level, and of swing, before the block."""
        block = self.block_of[cells]
        blocks, (response, leaving) = self.blocks, self._parts(self.profile_of[cells])
        with_end = leaving + blocks.leaving[0, 1:, block].T
        with_end += applied_to_cells(blocks.leaving[1:, 1:, block].transpose(1, 0, 2), response)
        told = applied_to_cells(blocks.told[..., block], with_end)
        left = response - applied_to_cells(blocks.forward[:, 1:, block].transpose(1, 0, 2), told)
        gain = blocks.gain[..., block]
        met = gain[0] + applied_to_cells(gain[1:].transpose(1, 0, 2), left)
        found: FloatArray = left - applied_to_cells(blocks.information[..., block], met)
        return found

    def _over(self, power: int) -> FloatArray:
        """C over the next 2^power blocks from each one; meaningless beyond the end of a chain."""
        while len(self._across) <= power:
            before, step = self._across[-1], 1 << (len(self._across) - 1)
            whole = before.copy()
            whole[..., :-step] = cell_products(before[..., step:], before[..., :-step])
            self._across.append(whole)
        return self._across[power]


def quadratic_of_cells(
    response: FloatArray,
    leaving: FloatArray,
    own: FloatArray,
    covariances: FloatArray,
    crossed: FloatArray,
    told: FloatArray,
) -> FloatArray:
    """v + ρ·V·ρ − 2·ρ·X·c − c·Λ·c."""
    found = own + cell_inner_products(response, applied_to_cells(covariances, response))
    found -= 2 * cell_inner_products(response, applied_to_cells(crossed, leaving))
    found -= cell_inner_products(leaving, applied_to_cells(told, leaving))
    return found


def _between_cells(cells: ProfileCells, first: IntArray, last: IntArray) -> FloatArray:
    """v(S, S′) of two cells of one profile; cached, since many blocks need the same pair."""
    pairs, places = np.unique(first * cells.own.size + last, return_inverse=True)
    first, last = np.divmod(pairs, cells.own.size)
    # Sorted by number of steps, most first: unfinished pairs are then always the first ones.
    order = np.argsort(first - last, kind="stable")
    begin, steps = first[order], (last - first)[order]
    vectors = cells.rows[:, begin]
    left = np.searchsorted(-steps, -np.arange(int(steps.max(initial=0))), side="left")
    for step, going in enumerate(left.tolist()):
        _cell_variances_passed_on(vectors[:, :going], begin[:going] + step, cells)
    different: FloatArray = np.empty(pairs.size)
    different[order] = cell_inner_products(vectors, cells.ends[:, last[order]])
    found: FloatArray = different[places.reshape(-1)]
    return found


def _cell_variances_passed_on(vectors: FloatArray, at: IntArray, cells: ProfileCells) -> None:
    """Multiply vectors by C of the cells `at`, in place."""
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


class CellMisfits:
    """Reduced χ² over ranges of leaves: by how much innovations exceed what a model expects.

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
        """The misfit of ranges between `starts` and `ends`, given as numbers of ended leaves."""
        first, last = np.maximum(starts - _NEAR, 0), np.minimum(ends + _NEAR, self._counts[chains])
        begin = self._firsts[chains]
        found = self._sums[begin + last] - self._sums[begin + first]
        found += _PRIOR * self._means[chains]
        found /= last - first + _PRIOR
        result: FloatArray = np.maximum(found, 1.0)
        return result
