"""One block after the other, each measured by the tree that was chosen for it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tidegate.lattice import IntArray
from tidegate.noise import discrete_laplace
from tidegate.perturb.adaptive.trees import RANGE_ERROR
from tidegate.perturb.consistency import consistent_leaves, own_weights
from tidegate.randomness import Keystream
from tidegate.stages import NO_SUMS, Layout, Noisy

if TYPE_CHECKING:
    from tidegate.perturb.adaptive.stage import AdaptiveTrees


class AdaptiveRun:
    """Releases the noisy leaf sums of one block after the other, a tree for each, for ever.

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

    Noise is addressed by (chunk, rung and block, tree and level): no two options share words.

    The state is secret: the open leaf's raw sum, and the position that addresses its noise.
    """

    # Room in the address of noise, for the levels of a tree and the blocks of a horizon.
    _MOST_LEVELS, _MOST_BLOCKS = 8, 64
    _COUNTS: ClassVar[tuple[str, ...]] = ("chunk", "number", "leaf", "total", "filled")

    def __init__(
        self,
        stage: AdaptiveTrees,
        threshold: int,
        ceiling: int,
        keystream: Keystream,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        known = state or {**dict.fromkeys(self._COUNTS, 0), "choice": None}
        self._stage = stage
        self._threshold = threshold
        self._ceiling = ceiling
        self._keystream = keystream
        self._noise: IntArray | None = None
        self._width = 0  # of the open leaf
        self.chunk: int = known["chunk"]  # horizons completed
        self.number: int = known["number"]  # blocks completed in this horizon
        self._leaf: int = known["leaf"]  # leaves completed in this block
        self._total: int = known["total"]  # raw sum of the open leaf
        self._filled: int = known["filled"]  # values in the open leaf
        self._choice: int | None = known["choice"]  # which option measures the present block
        self._open: Layout | None = None if self._choice is None else self.options[self._choice]

    def __repr__(self) -> str:
        return f"<AdaptiveRun at block {self.number} of horizon {self.chunk}>"  # public: positions

    def state(self) -> dict[str, Any]:
        """All that is needed to continue."""
        return {
            "chunk": self.chunk,
            "number": self.number,
            "choice": self._choice,
            "leaf": self._leaf,
            "total": self._total,
            "filled": self._filled,
        }

    @property
    def options(self) -> tuple[Layout, ...]:
        """The trees to choose from for the present block."""
        length = self._stage.lengths(self.chunk)[self.number]
        return self._stage.layouts(length, self._threshold, self._ceiling)

    def begin(self, choice: int) -> None:
        """Measure the block that comes next by this option."""
        if self._open is not None:
            raise AssertionError("a block is open: its tree must not change any more")
        self._open, self._choice, self._noise = self.options[choice], choice, None
        self._leaf = self._total = self._filled = self._width = 0

    def push(self, values: IntArray) -> Noisy:
        """Take raw units, not beyond the block's end; give the noisy sums of completed leaves."""
        tree = self._tree()
        capped = np.minimum(values, tree.cap)
        first = tree.edge(self._leaf) + self._filled  # where these values begin in the block
        ends = [tree.edge(leaf) - first for leaf in range(self._leaf + 1, tree.leaves + 1)]
        completed = bisect_right(ends, capped.size)
        if not completed:
            self._total += int(capped.sum())
            self._filled += capped.size
            return Noisy(NO_SUMS)
        body = ends[completed - 1]
        sums: IntArray = np.add.reduceat(capped[:body], [0, *ends[: completed - 1]])
        sums[0] += self._total
        sums += self._leaf_noise(tree)[self._leaf : self._leaf + completed]
        self._advance(tree, completed)
        self._total = int(capped[body:].sum())
        self._filled = capped.size - body
        return Noisy(sums)

    def push_one(self, value: int) -> int | None:
        """Add one value to the open leaf; give its noisy sum if that completes it, else None."""
        cap = self._tree().cap
        self._total += value if value < cap else cap
        self._filled += 1
        if self._room():
            return None
        return self._close()

    def _tree(self) -> Layout:
        if self._open is None:
            raise AssertionError("no tree was chosen for this block")
        return self._open

    def _room(self) -> int:
        """Values until the open leaf is complete."""
        if not self._width:
            tree = self._tree()
            self._width = tree.edge(self._leaf + 1) - tree.edge(self._leaf)
        return self._width - self._filled

    def _close(self) -> int:
        tree = self._tree()
        noisy: int = self._total + self._leaf_noise(tree).item(self._leaf)
        self._advance(tree, 1)
        return noisy

    def _advance(self, tree: Layout, completed: int) -> None:
        """Count released leaves; the block ends with its last one."""
        self._total = self._filled = self._width = 0
        self._leaf += completed
        if self._leaf == tree.leaves:
            self._open = self._choice = self._noise = None
            self._leaf = 0
            self._end_block(tree)

    def _end_block(self, tree: Layout) -> None:
        self.number += 1
        if self.number == len(self._stage.lengths(self.chunk)):
            self.chunk += 1
            self.number = 0

    def _leaf_noise(self, tree: Layout) -> IntArray:
        """The consistent noise of the present block's leaves, made when first needed."""
        if self._noise is None:
            self._noise = consistent_noise(self.nodes(tree), tree)
        return self._noise

    def nodes(self, tree: Layout) -> list[IntArray]:
        """Independent noise of every node of the present block, coarsest level first."""
        first = list(RANGE_ERROR).index(tree.nodes) * self._MOST_LEVELS
        place = tree.rung * self._MOST_BLOCKS + self.number
        return [
            discrete_laplace(
                self._keystream.at(chunk=self.chunk, tree=place, level=first + level),
                count,
                scale,
            )
            for level, (count, scale) in enumerate(zip(tree.nodes, tree.scales, strict=True))
        ]


def consistent_noise(nodes: list[IntArray], tree: Layout) -> IntArray:
    """Leaves that agree best with all the nodes (noise, or noisy sums), coarsest level first."""
    fanouts = [after // before for before, after in pairwise(tree.nodes)][::-1]
    weights = own_weights(fanouts, tree.variances[::-1])
    leaves, _ = consistent_leaves(nodes[::-1], fanouts, weights)
    return leaves
