"""`AdaptiveRun`: one block after another, each measured with the tree chosen for it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tidegate.lattice import IntArray
from tidegate.noise import discrete_laplace
from tidegate.perturb.adaptive.tree_shapes import RANGE_ERROR
from tidegate.perturb.consistency import consistent_groves, own_weights
from tidegate.randomness import Keystream
from tidegate.stages import NO_SUMS, Layout, Noisy
from tidegate.state_as_bytes import State

if TYPE_CHECKING:
    from tidegate.perturb.adaptive.adaptive_trees import AdaptiveTrees


# Room in the address of noise, for the levels of a tree and the blocks of a horizon.
_MOST_LEVELS, _MOST_BLOCKS = 8, 64


class AdaptiveRun:
    """Releases the noisy leaf sums of one block after another, each with its own tree, without end.

    Privacy. Released: for every leaf its sum of capped values plus the leaf noise that
    `consistent_leaves` makes of the tree's node noise; by equivariance a function of the noisy
    tree, whose nodes have independent exact discrete Laplace noise. Values are capped *here*, next
    to the noise, so a replaced value moves each of its nodes, one per level of one tree, by at most
    `cap`; the scales satisfy Σ cap/scale ≤ ε exactly (`level_scales`). Block borders are fixed by
    position. Tree and cap of a block are an input of `begin`; they are functions of θ, public
    settings and *earlier releases*, so given the same earlier releases they are the same for two
    neighbouring streams: blocks compose in parallel, adaptively. (Multiply the conditional
    probabilities of the blocks' releases, given those before: all factors but one are equal, and
    that of the block with the replaced value is within e^ε.)

    Noise is addressed by (chunk, cap step and block, tree and level): no two options share words.

    The state is secret: the open leaf's raw sum, and the position that addresses its noise.
    """

    _COUNTS: ClassVar[tuple[str, ...]] = ("chunk", "number", "leaf", "total", "filled")

    def __init__(
        self,
        stage: AdaptiveTrees,
        threshold: int,
        ceiling: int,
        keystream: Keystream,
        state: State | None = None,
    ) -> None:
        known = state or {**dict.fromkeys(self._COUNTS, 0), "choice": None}
        self._stage = stage
        self._threshold = threshold
        self._ceiling = ceiling
        self.keystream = keystream
        self._noise: IntArray | None = None
        self.chunk: int = known["chunk"]  # horizons completed
        self.number: int = known["number"]  # blocks completed in this horizon
        self.leaf: int = known["leaf"]  # leaves completed in this block
        self._total: int = known["total"]  # raw sum of the open leaf
        self._choice: int | None = known["choice"]  # the option that measures the present block
        self._open: Layout | None = None
        self._cap = 0  # of the present block
        self.room = 0  # values until the open leaf is complete; 0: no block is open
        if self._choice is not None:
            self._open_block(self.options[self._choice])
            self.room -= known["filled"]

    def __repr__(self) -> str:
        return f"<AdaptiveRun at block {self.number} of horizon {self.chunk}>"  # public: positions

    def state(self) -> dict[str, Any]:
        """The state to resume from."""
        return {
            "chunk": self.chunk,
            "number": self.number,
            "choice": self._choice,
            "leaf": self.leaf,
            "total": self._total,
            "filled": 0
            if self._open is None
            else _width_of_adaptive_tree(self._open, self.leaf) - self.room,
        }

    @property
    def options(self) -> tuple[Layout, ...]:
        """The trees to choose from for the present block."""
        length = self._stage.lengths(self.chunk)[self.number]
        return self._stage.layouts(length, self._threshold, self._ceiling)

    def begin(self, choice: int) -> None:
        """Begin the next block with this option."""
        if self._open is not None:
            raise AssertionError("a block is open: its tree must not change any more")
        self._choice, self._noise = choice, None
        self.leaf = self._total = 0
        self._open_block(self.options[choice])

    def _open_block(self, tree: Layout) -> None:
        self._open, self._cap, self.room = tree, tree.cap, _width_of_adaptive_tree(tree, self.leaf)

    def push(self, values: IntArray) -> Noisy:
        """Take raw units up to the end of the block; return the noisy sums of completed leaves."""
        tree, place, leaf = self.tree, self.place, self.leaf
        capped = self._capped(values, tree)
        if capped.size < self.room:
            self._total += int(capped.sum())
            self.room -= capped.size
            return Noisy(NO_SUMS)
        after = tree.leaves_by(place + capped.size)
        *begin, body = (tree.edge(each) - place for each in range(leaf + 1, after + 1))
        sums: IntArray = np.add.reduceat(capped[:body], [0, *begin])
        sums[0] += self._total
        sums += self._leaf_noise(tree)[leaf:after]
        self._advance(tree, after - leaf)
        if body < capped.size:
            self._total = int(capped[body:].sum())
            self.room -= capped.size - body
        return Noisy(sums)

    def _capped(self, values: IntArray, tree: Layout) -> IntArray:
        return np.minimum(values, tree.cap)

    def push_one(self, value: int) -> int | None:
        """Add one value to the open leaf; return its noisy sum if that completes it, else None."""
        cap = self._cap
        self._total += value if value < cap else cap
        self.room = room = self.room - 1
        if room > 0:
            return None
        tree = self.tree
        noisy: int = self._total + self._leaf_noise(tree).item(self.leaf)
        self._advance(tree, 1)
        return noisy

    def next_sum(self, value: int) -> int:
        """The result of `push_one` for a value that completes the open leaf, without taking it."""
        return self._total + min(value, self._cap) + int(self._leaf_noise(self.tree)[self.leaf])

    @property
    def tree(self) -> Layout:
        """The tree of the open block."""
        if self._open is None:
            raise AssertionError("no tree was chosen for this block")
        return self._open

    @property
    def place(self) -> int:
        """How many values of the open block have come."""
        return self.tree.edge(self.leaf + 1) - self.room

    def _advance(self, tree: Layout, completed: int) -> None:
        """Count released leaves; the last one ends the block."""
        self._total = 0
        self.leaf += completed
        if self.leaf < tree.leaves:
            self.room = _width_of_adaptive_tree(tree, self.leaf)
            return
        self._open = self._choice = self._noise = None
        self.leaf = self._cap = self.room = 0
        self._end_block(tree)

    def _end_block(self, tree: Layout) -> None:
        self.number += 1
        if self.number == len(self._stage.lengths(self.chunk)):
            self.chunk += 1
            self.number = 0

    def _leaf_noise(self, tree: Layout) -> IntArray:
        """The consistent noise of the present block's leaves, made on first use."""
        if self._noise is None:
            self._noise = consistent_adaptive_noise(self.nodes(tree), tree)
        return self._noise

    def nodes(self, tree: Layout) -> list[IntArray]:
        """Independent noise for every node of the present block, coarsest level first."""
        place, first = adaptive_noise_place(tree, self.number)
        return [
            discrete_laplace(
                self.keystream.at(chunk=self.chunk, tree=place, level=first + level),
                count,
                scale,
            )
            for level, (count, scale) in enumerate(zip(tree.nodes, tree.scales, strict=True))
        ]


def _width_of_adaptive_tree(tree: Layout, leaf: int) -> int:
    return tree.edge(leaf + 1) - tree.edge(leaf)


def adaptive_noise_place(tree: Layout, number: int) -> tuple[int, int]:
    """The address of the noise of block `number` of a horizon: the tree, and the level."""
    first = list(RANGE_ERROR).index(tree.nodes) * _MOST_LEVELS
    return tree.cap_step * _MOST_BLOCKS + number, first


def consistent_adaptive_noise(nodes: list[IntArray], tree: Layout) -> IntArray:
    """The least-squares leaves for all nodes (noise, or noisy sums), coarsest level first."""
    leaves: IntArray = consistent_adaptive_rows(nodes, tree, 1)[0]
    return leaves


def consistent_adaptive_rows(nodes: list[IntArray], tree: Layout, rows: int) -> IntArray:
    """The least-squares leaves of many blocks with this tree: one row for each."""
    fanouts = [after // before for before, after in pairwise(tree.nodes)][::-1]
    weights = own_weights(fanouts, tree.variances[::-1])
    leaves, _ = consistent_groves(nodes[::-1], fanouts, weights, np.zeros(rows))
    return leaves
