"""A forest at work: sum values into blocks, add the noise that was made for each block."""

from __future__ import annotations

from typing import ClassVar, Protocol

import numpy as np

from tidegate.lattice import IntArray
from tidegate.perturb.one_layout import Blocks, OneLayoutRun
from tidegate.randomness import Keystream
from tidegate.stages import NO_SUMS, Noisy


class LeafNoise(Protocol):
    """Noise of the leaves of one horizon, made a grove at a time; a `Forest` is one."""

    @property
    def leaves(self) -> int:
        """Leaves of a horizon."""
        ...

    @property
    def grove_leaves(self) -> int:
        """Leaves whose noise is made at once."""
        ...

    def nodes(self, keystream: Keystream, chunk: int, grove: int) -> list[IntArray]:
        """Independent draws."""
        ...

    def combine(self, nodes: list[IntArray], carry: float) -> tuple[IntArray, float]:
        """The noise of the leaves, and what the next grove needs to know."""
        ...


class ForestLike(Blocks, Protocol):
    """A perturber whose noise is made a grove at a time."""

    @property
    def block(self) -> int:
        """Values in a leaf."""
        ...

    def noise_law(self, threshold: int) -> LeafNoise:
        """The noise of the leaves."""
        ...


class ForestRun(OneLayoutRun):
    """Releases the noisy sum of every block of `block` values, a new forest per horizon, for ever.

    Privacy. Released: for every block, its true sum plus the leaf noise of `Forest.combine`; by
    equivariance a function of the noisy trees. Values are truncated at θ *here*, next to the noise,
    so a replaced value moves each of its nodes, one per level, by at most θ; the levels' discrete
    Laplace scales satisfy Σ θ/scale ≤ ε exactly (`level_scales`). Horizons and blocks are disjoint
    and split by position: parallel composition. The noise is drawn independently of the values, so
    for any way of choosing later inputs from earlier outputs, shifting the noise by the change of
    one value is a bijection between the two worlds that costs at most e^ε: ε-DP with adaptive
    inputs.

    The state is secret: the open block's raw sum, and the position that addresses its noise.
    """

    STATE: ClassVar[tuple[str, ...]] = ("chunk", "leaf", "carry", "total", "filled")

    def __init__(
        self, stage: ForestLike, threshold: int, ceiling: int, keystream: Keystream
    ) -> None:
        super().__init__(stage, threshold, ceiling, keystream)
        self._forest = stage.noise_law(threshold)
        self._block = stage.block
        self._noise = NO_SUMS
        self._made: tuple[int, int] | None = None  # which (chunk, grove) `_noise` belongs to
        self._next_carry = 0.0
        self.chunk = 0  # horizons completed
        self.leaf = 0  # blocks completed in this horizon
        self.carry = 0.0  # rounding carried into the present grove
        self.total = 0  # raw sum of the open block
        self.filled = 0  # values in the open block

    @property
    def number(self) -> int:
        """Groups of top trees completed in this horizon."""
        return self.leaf * self._block // self._lengths[0]

    def push(self, values: IntArray) -> Noisy:
        """Take raw units; give the noisy sums of the blocks that they completed."""
        sums = self._close_blocks(np.minimum(values, self._threshold))
        done = 0
        while done < sums.size:
            noise, index = self._grove()
            count = min(sums.size - done, noise.size - index, self._forest.leaves - self.leaf)
            sums[done : done + count] += noise[index : index + count]
            self._advance(count)
            done += count
        return Noisy(sums)

    def push_one(self, value: int) -> int | None:
        """Add one value to the open block; give its noisy sum if that completes it, else None."""
        self.total += value if value < self._threshold else self._threshold
        self.filled += 1
        if self.filled < self._block:
            return None
        noise, index = self._grove()
        noisy: int = self.total + noise.item(index)
        self.total = self.filled = 0
        self._advance(1)
        return noisy

    def _close_blocks(self, values: IntArray) -> IntArray:
        """Exact sums of the blocks that `values` complete; the rest stays in the open block."""
        block, room = self._block, self._block - self.filled
        if values.size < room:
            self.total += int(values.sum())
            self.filled += values.size
            return NO_SUMS
        if block == 1:
            return values
        more = (values.size - room) // block
        body = room + more * block
        sums = np.empty(1 + more, dtype=np.int64)
        sums[0] = self.total + int(values[:room].sum())
        values[room:body].reshape(more, block).sum(axis=1, out=sums[1:])
        self.total = int(values[body:].sum())
        self.filled = values.size - body
        return sums

    def _grove(self) -> tuple[IntArray, int]:
        """The noise of the present grove, made when first needed, and the present leaf in it."""
        grove, index = divmod(self.leaf, self._forest.grove_leaves)
        if self._made != (self.chunk, grove):
            nodes = self._forest.nodes(self._keystream, self.chunk, grove)
            self._noise, self._next_carry = self._forest.combine(nodes, self.carry)
            self._made = (self.chunk, grove)
        return self._noise, index

    def _advance(self, count: int) -> None:
        self.leaf += count
        if self.leaf == self._forest.leaves:
            self.chunk += 1
            self.leaf = 0
            self.carry = 0.0
        elif self.leaf % self._forest.grove_leaves == 0:
            self.carry = self._next_carry
