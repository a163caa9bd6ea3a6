"""Blocks that are measured by a small tree each: coarse where the stream is calm, fine elsewhere.

horizon  |·|·|·-|·--|·----|·--------|·----------------|·----------------| … 15 equal blocks
         doubling start: noise made early is cheap, a constant offset cancels in every range
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar

import numpy as np

from tidegate.errors import SettingError
from tidegate.guarantee import Guarantee
from tidegate.guided import Tree
from tidegate.lattice import IntArray
from tidegate.noise import discrete_laplace
from tidegate.perturb.budget import check_headroom, level_scales
from tidegate.perturb.consistency import consistent_leaves, own_weights
from tidegate.randomness import Keystream
from tidegate.settings import Epsilon, Setting, Spec, Whole
from tidegate.stages import Noisy, no_sums

# Nodes per level, and the error that the tree leaves in ranges over a horizon whose sixteenths are
# all measured by it, in (θ/ε)²: 16·V/3 for the prefix error at block ends, which walks by V a
# block, plus twice the mean variance of the bridge inside a block. Other shapes and level budgets
# came within 5 % of these.
RANGE_ERROR: dict[tuple[int, ...], float] = {
    (1,): 10.7,
    (1, 4): 12.1,
    (2,): 21.3,
    (4,): 42.7,
    (1, 8): 56.6,
    (1, 16): 80.2,
    (1, 8, 64): 163.6,
    (1, 16, 128): 211.4,
}
# How a tree's levels share ε: equally, but for the watchful tree (1, 4). It measures a block almost
# as well as a single node would, and sees with what is left if the level jumps inside.
SHARES: dict[tuple[int, ...], tuple[Fraction, ...]] = {(1, 4): (Fraction(15, 16), Fraction(1, 16))}
# A single node is blind for a sixteenth of the horizon: only where a block has no room for more.
_BLIND = (1,)
# The best number of truncated values grows as the square root of the noise variance, so for a tail
# of index κ the best cap goes as T^(−1/2κ): κ = 6 in between light and heavy tails, and 40 the
# error of the tree for which the hold-out's θ is about right.
_TYPICAL_ERROR = 40.0
_CAP_EXPONENT = 1 / 12
# Caps are θ times a whole number of these, so that they are the same on every machine.
_CAP_GRAIN = 1024
# Caps can be raised up to √2^16 = 256 times θ (`tidegate.forecast.ladder` says when they are).
_RUNGS = 18
_DIGITS = 60  # of decimals; scales may be as large as 2**40, and 1 − q loses as many digits twice

# Blocks end at these fractions of the first horizon; later ones know the stream and need no start.
_FIRST_ENDS = tuple(Fraction(1, 512 >> k) for k in range(5)) + tuple(
    Fraction(k, 16) for k in range(1, 17)
)
_LATER_ENDS = tuple(Fraction(k, 16) for k in range(1, 17))
# Shorter blocks would buy noise for nothing: every block pays for at least one node.
_SHORTEST = 16


class _Nodes(Setting[tuple[int, ...] | None, Sequence[int] | None]):
    """One tree for all blocks, by its nodes per level."""

    def check(self, value: Sequence[int] | None) -> tuple[int, ...] | None:
        """None, or one of the known shapes."""
        if value is None:
            return None
        if not isinstance(value, list | tuple) or tuple(value) not in RANGE_ERROR:
            raise SettingError(self.name, f"must be one of {', '.join(map(str, RANGE_ERROR))}")
        return tuple(value)


@dataclass(frozen=True, kw_only=True, repr=False)
class AdaptiveTrees(Spec):
    """Noisy sums of blocks, each measured by a tree that was chosen before its first value.

    Guarantee: pure ε-DP for one replaced value (argument: `AdaptiveRun`), whoever chooses the
    trees, as long as the choice sees released data only.

    Args:
        epsilon: the budget of the stream.
        horizon: the longest range that should be answered well.
        nodes: measure every block by this one tree, such as (1, 16); None: the forecaster chooses.

    >>> AdaptiveTrees(epsilon=0.1, horizon=2**20).lengths(0)[:6]
    (2048, 2048, 4096, 8192, 16384, 32768)
    >>> AdaptiveTrees(epsilon=0.1, horizon=20).lengths(0)
    (20,)
    """

    epsilon: Epsilon = Epsilon()
    horizon: Whole = Whole(minimum=1)
    nodes: _Nodes = _Nodes(default=None)

    @property
    def block(self) -> int:
        """1: a stream may be cut after any value."""
        return 1

    @property
    def guarantee(self) -> Guarantee:
        """ε-DP, derived: levels in sequence (equal shares that sum to 1), blocks in parallel."""
        return Guarantee(epsilon=self.epsilon)

    def lengths(self, chunk: int) -> tuple[int, ...]:
        """Block lengths of a horizon, at least 16 values each where the horizon has as many."""
        return _lengths(self.horizon, _FIRST_ENDS if chunk == 0 else _LATER_ENDS)

    def trees(self, length: int, threshold: int, ceiling: int) -> tuple[Tree, ...]:
        """The shapes that fit into `length` values, coarsest first; for every rung of caps."""
        shapes = tuple(shape for shape in RANGE_ERROR if shape != _BLIND)
        if self.nodes is not None:
            shapes = (self.nodes,)
        fitting = tuple(shape for shape in shapes if shape[-1] <= length) or (_BLIND,)
        return _trees(fitting, self.epsilon, length, threshold, ceiling)

    def noise_identity(self, threshold: int, ceiling: int) -> str:
        """All caps and scales that any choice can lead to."""
        return _noise_identity(self, threshold, ceiling)

    def check(self, ceiling: int) -> None:
        """Refuse settings that could overflow 64-bit integers."""
        for shape in RANGE_ERROR:
            check_headroom(
                ceiling,
                self.epsilon,
                shares(shape),
                draws=2 * shape[-1] * len(shape),
                values=2 * self.horizon,
            )

    def start_guided(self, threshold: int, ceiling: int, keystream: Keystream) -> AdaptiveRun:
        """Begin; the first block waits for `begin`."""
        return AdaptiveRun(self, threshold, ceiling, keystream)


@lru_cache(maxsize=16)
def _noise_identity(stage: AdaptiveTrees, threshold: int, ceiling: int) -> str:
    lengths = sorted({*stage.lengths(0), *stage.lengths(1)})
    return repr([(length, stage.trees(length, threshold, ceiling)) for length in lengths])


@lru_cache(maxsize=256)
def _trees(
    shapes: tuple[tuple[int, ...], ...],
    epsilon: Fraction,
    length: int,
    threshold: int,
    ceiling: int,
) -> tuple[Tree, ...]:
    found = []
    for rung in range(_RUNGS):
        caps = [
            min(ceiling, max(1, round(threshold * cap_factor(shape, rung)))) for shape in shapes
        ]
        found += [
            Tree(length, shape, cap, *_law(cap, epsilon, shares(shape)), rung=rung)
            for shape, cap in zip(shapes, caps, strict=True)
        ]
        if min(caps) == ceiling:  # no higher rung would differ
            break
    return tuple(found)


@lru_cache(maxsize=256)
def cap_factor(shape: tuple[int, ...], rung: int = 0) -> Fraction:
    """φ = (T/40)^(−1/12): finer trees have more noise, so a lower cap pays.

    So it is on rung 0. On rung 1 it is at least 1, for values that crowd just below θ; on each
    higher rung √2 more, for streams that have outgrown θ.
    """
    factor = (RANGE_ERROR[shape] / _TYPICAL_ERROR) ** -_CAP_EXPONENT
    if rung:
        factor = max(factor, 1.0) * math.sqrt(2.0) ** (rung - 1)
    return Fraction(round(factor * _CAP_GRAIN), _CAP_GRAIN)


@lru_cache(maxsize=64)
def _lengths(horizon: int, ends: tuple[Fraction, ...]) -> tuple[int, ...]:
    edges = [0]
    for end in ends:
        edge = math.floor(horizon * end)
        if edge >= edges[-1] + _SHORTEST:
            edges.append(edge)
    if len(edges) > 1:  # the last block takes what is left
        edges.pop()
    edges.append(horizon)
    return tuple(end - start for start, end in pairwise(edges))


@lru_cache(maxsize=1024)
def _law(
    cap: int, epsilon: Fraction, parts: tuple[Fraction, ...]
) -> tuple[tuple[Fraction, ...], tuple[float, ...]]:
    """Scales and variances per level, coarsest first."""
    scales = level_scales(cap, epsilon, parts)
    return scales, tuple(map(_variance, scales))


@lru_cache(maxsize=1024)
def _variance(scale: Fraction) -> float:
    """2q/(1 − q)², q = exp(−1/scale), the variance of the noise: the same bits on every machine.

    Forecasts, the choice of trees and the identity of noise hang on it. Above 0 even where noise is
    so small that its variance vanishes: weights divide by it.
    """
    with localcontext(Context(prec=_DIGITS)):
        steps = min(Decimal(scale.denominator) / Decimal(scale.numerator), Decimal(1000))
        kept = (-steps).exp()
        return max(float(2 * kept / (1 - kept) ** 2), 1e-150)


def shares(shape: tuple[int, ...]) -> tuple[Fraction, ...]:
    """The parts of ε that the levels get, coarsest first; they sum to 1."""
    return SHARES.get(shape, (Fraction(1, len(shape)),) * len(shape))


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

    STATE: ClassVar[tuple[str, ...]] = ("chunk", "number", "choice", "leaf", "total", "filled")
    # Room in the address of noise, for the levels of a tree and the blocks of a horizon.
    _MOST_LEVELS, _MOST_BLOCKS = 8, 64

    def __init__(
        self, stage: AdaptiveTrees, threshold: int, ceiling: int, keystream: Keystream
    ) -> None:
        self._stage = stage
        self._threshold = threshold
        self._ceiling = ceiling
        self._keystream = keystream
        self._open: Tree | None = None
        self._noise: IntArray | None = None
        self._width = 0  # of the open leaf
        self.chunk = 0  # horizons completed
        self.number = 0  # blocks completed in this horizon
        self.leaf = 0  # leaves completed in this block
        self.total = 0  # raw sum of the open leaf
        self.filled = 0  # values in the open leaf

    @property
    def options(self) -> tuple[Tree, ...]:
        """The trees to choose from for the present block."""
        length = self._stage.lengths(self.chunk)[self.number]
        return self._stage.trees(length, self._threshold, self._ceiling)

    @property
    def choice(self) -> int:
        """Which option measures the present block; −1: none was chosen yet."""
        return -1 if self._open is None else self.options.index(self._open)

    @choice.setter
    def choice(self, choice: int) -> None:
        self._open = None if choice < 0 else self.options[choice]
        self._noise = None

    def begin(self, choice: int) -> None:
        """Measure the block that comes next by this option."""
        if self._open is not None:
            raise AssertionError("a block is open: its tree must not change any more")
        self.choice = choice
        self.leaf = self.total = self.filled = 0
        self._width = 0

    def push(self, values: IntArray) -> Noisy:
        """Take raw units, not beyond the block's end; give the noisy sums of completed leaves."""
        tree = self._tree()
        capped = np.minimum(values, tree.cap)
        first = tree.edge(self.leaf) + self.filled  # where these values begin in the block
        ends = [tree.edge(leaf) - first for leaf in range(self.leaf + 1, tree.leaves + 1)]
        completed = bisect_right(ends, capped.size)
        if not completed:
            self.total += int(capped.sum())
            self.filled += capped.size
            return Noisy(no_sums())
        body = ends[completed - 1]
        sums: IntArray = np.add.reduceat(capped[:body], [0, *ends[: completed - 1]])
        sums[0] += self.total
        sums += self._leaf_noise(tree)[self.leaf : self.leaf + completed]
        self._advance(tree, completed)
        self.total = int(capped[body:].sum())
        self.filled = capped.size - body
        return Noisy(sums)

    def push_one(self, value: int) -> int | None:
        """The same for one value, without the cost of arrays."""
        cap = self._tree().cap
        self.total += value if value < cap else cap
        self.filled += 1
        if self._room():
            return None
        return self._close()

    def _tree(self) -> Tree:
        if self._open is None:
            raise AssertionError("no tree was chosen for this block")
        return self._open

    def _room(self) -> int:
        """Values until the open leaf is complete."""
        if not self._width:
            tree = self._tree()
            self._width = tree.edge(self.leaf + 1) - tree.edge(self.leaf)
        return self._width - self.filled

    def _close(self) -> int:
        tree = self._tree()
        noisy: int = self.total + self._leaf_noise(tree).item(self.leaf)
        self._advance(tree, 1)
        return noisy

    def _advance(self, tree: Tree, completed: int) -> None:
        """So many leaves were released."""
        self.total = self.filled = self._width = 0
        self.leaf += completed
        if self.leaf == tree.leaves:
            self._open = self._noise = None
            self.leaf = 0
            self.number += 1
            if self.number == len(self._stage.lengths(self.chunk)):
                self.chunk += 1
                self.number = 0

    def _leaf_noise(self, tree: Tree) -> IntArray:
        """The consistent noise of the present block's leaves, made when first needed."""
        if self._noise is None:
            self._noise = consistent_noise(self.nodes(tree), tree)
        return self._noise

    def nodes(self, tree: Tree) -> list[IntArray]:
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


def consistent_noise(nodes: list[IntArray], tree: Tree) -> IntArray:
    """Leaves that agree best with all the nodes (noise, or noisy sums), coarsest level first."""
    fanouts = [after // before for before, after in pairwise(tree.nodes)][::-1]
    weights = own_weights(fanouts, tree.variances[::-1])
    leaves, _ = consistent_leaves(nodes[::-1], fanouts, weights)
    return leaves
