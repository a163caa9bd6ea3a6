"""The base of perturbers with forest noise: values are summed into leaves, noise is added.

horizon  |·-------·-------·------|·-------·-------·------|    groups of top trees, side by side
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Protocol

import numpy as np

from tidegate.lattice import IntArray
from tidegate.perturb.forest_geometry import Forest
from tidegate.perturb.one_layout import OneLayoutBlocks, OneLayoutRun, OneLayoutStage
from tidegate.randomness import Keystream
from tidegate.stages import NO_SUMS, Layout, Noisy


class LeafNoise(Protocol):
    """The noise of the leaves of one horizon, made grove by grove; a `Forest` is one."""

    @property
    def leaves(self) -> int:
        """The number of leaves in a horizon."""
        ...

    @property
    def grove_leaves(self) -> int:
        """The number of leaves whose noise is made at once."""
        ...

    def nodes(self, keystream: Keystream, chunk: int, grove: int) -> list[IntArray]:
        """Independent draws."""
        ...

    def combine(self, nodes: list[IntArray], carry: float) -> tuple[IntArray, float]:
        """The noise of the leaves, and the carry into the next grove."""
        ...


class ForestLike(OneLayoutBlocks, Protocol):
    """A perturber whose noise is made grove by grove."""

    @property
    def block(self) -> int:
        """The number of values in a leaf."""
        ...

    def noise_law(self, threshold: int) -> LeafNoise:
        """The noise of the leaves."""
        ...


class ForestRun(OneLayoutRun):
    """Releases the noisy sum of every block of `block` values; each horizon has a new forest.

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
        self._first = self._last = 0  # the leaves of this horizon that `_noise` belongs to
        self._next_carry = 0.0
        self.chunk = 0  # horizons completed
        self.leaf = 0  # blocks completed in this horizon
        self.carry = 0.0  # rounding carried into the present grove
        self.total = 0  # raw sum of the open block
        self.filled = 0  # values in the open block

    @property
    def number(self) -> int:
        """The number of groups of top trees completed in this horizon."""
        return self.leaf * self._block // self._lengths[0]

    def push(self, values: IntArray) -> Noisy:
        """Take raw units; return the noisy sums of the blocks that they completed."""
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
        """Add one value to the open block; return its noisy sum if that completes it, else None."""
        threshold = self._threshold
        self.total += value if value < threshold else threshold
        self.filled = filled = self.filled + 1
        if filled < self._block:
            return None
        following = self.leaf + 1
        if following < self._last:  # a leaf in the middle of a grove, whose noise is there
            noisy: int = self.total + self._noise.item(self.leaf - self._first)
            self.leaf = following
        else:
            noise, index = self._grove()
            noisy = self.total + noise.item(index)
            self._advance(1)
        self.total = self.filled = 0
        return noisy

    def _close_blocks(self, values: IntArray) -> IntArray:
        """The exact sums of the blocks that `values` complete; the rest stays in the open block."""
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
        """The noise of the present grove, made on first use, and the present leaf's index in it."""
        if not self._first <= self.leaf < self._last:
            grove, size = self.leaf // self._forest.grove_leaves, self._forest.grove_leaves
            nodes = self._forest.nodes(self._keystream, self.chunk, grove)
            self._noise, self._next_carry = self._forest.combine(nodes, self.carry)
            self._first = grove * size
            self._last = min(self._first + size, self._forest.leaves)
        return self._noise, self.leaf - self._first

    def _advance(self, count: int) -> None:
        self.leaf += count
        if self.leaf == self._forest.leaves:
            self.chunk += 1
            self.leaf = self._first = self._last = 0
            self.carry = 0.0
        elif self.leaf % self._forest.grove_leaves == 0:
            self.carry = self._next_carry


# Groups of top trees per horizon: an estimator with models has some work to do for each.
_GROUPS = 16


class _Stage(ForestLike, Protocol):
    def noise_law(self, threshold: int) -> Forest: ...


class ForestStage(OneLayoutStage):
    """A perturber with one option: a forest over leaves of `block` values.

    A block of the release is a group of whole top trees, of equal length but for the last one of a
    horizon. Which group a leaf belongs to changes neither its noise nor its sum.
    """

    irregular: ClassVar[bool] = False

    def lengths(self: _Stage, chunk: int) -> tuple[int, ...]:
        """Groups of whole top trees; the last one has the remaining leaves of the horizon."""
        forest = self.noise_law(1)
        group = _group(forest)
        whole, rest = divmod(forest.leaves, group)
        return (group * self.block,) * whole + ((rest * self.block,) if rest else ())

    def layouts(self: _Stage, length: int, threshold: int, ceiling: int) -> tuple[Layout, ...]:
        """The one layout: the top trees that cover `length` values; the last may be incomplete."""
        forest = self.noise_law(min(threshold, ceiling))
        return _forest_layouts(forest, self.block, length, min(threshold, ceiling))

    def noise_identity(self: _Stage, threshold: int, ceiling: int) -> str:
        """Every scale, and the addresses of its words."""
        return self.noise_law(threshold).identity

    def run(self: _Stage, threshold: int, ceiling: int, keystream: Keystream) -> ForestRun:
        """A new run, or one resumed from `state`."""
        return ForestRun(self, threshold, ceiling, keystream)


@lru_cache(maxsize=256)
def forest_of(
    fanout: int, leaves: int, scales: tuple[Fraction, ...], consistent: bool = True
) -> Forest:
    """The forest with these settings; cached, since many streams share their settings.

    (By a stage's settings alone it would not do: what is decided from them is part of the noise.)
    """
    return Forest(fanout, leaves, scales, consistent)


@lru_cache(maxsize=256)
def _forest_layouts(forest: Forest, block: int, length: int, cap: int) -> tuple[Layout, ...]:
    used = -(-length // block)
    tops = -(-used // forest.tree_leaves)
    return (
        Layout(
            length=length,
            nodes=tuple(tops * forest.fanout**level for level in range(forest.levels)),
            cap=cap,
            scales=forest.scales[::-1],
            variances=forest.variances[::-1],
            used=used,
            consistent=forest.consistent,
        ),
    )


def _group(forest: Forest) -> int:
    """The number of leaves of a group of top trees."""
    tops = -(-forest.leaves // forest.tree_leaves)
    return -(-tops // _GROUPS) * forest.tree_leaves
