"""`AdaptiveTrees`: blocks measured with small trees: coarse where the stream is calm, else fine.

horizon  |·|·|·-|·--|·----|·--------|·----------------|·----------------| … 15 equal blocks
         doubling start: noise made early is cheap, a constant offset cancels in every range
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar

from tidegate.errors import SettingError
from tidegate.guarantee import Guarantee
from tidegate.perturb.adaptive.adaptive_run import AdaptiveRun
from tidegate.perturb.adaptive.tree_shapes import (
    BLIND,
    RANGE_ERROR,
    all_trees,
    shares_of_tree_levels,
)
from tidegate.perturb.level_scales import check_headroom
from tidegate.randomness import Keystream
from tidegate.settings import Epsilon, Setting, Spec, Whole
from tidegate.stages import Layout
from tidegate.state_as_bytes import State

# Blocks end at these fractions of the first horizon; later ones know the stream and need no start.
_FIRST_ENDS = tuple(Fraction(1, 512 >> k) for k in range(5)) + tuple(
    Fraction(k, 16) for k in range(1, 17)
)
_LATER_ENDS = tuple(Fraction(k, 16) for k in range(1, 17))
# Shorter blocks would buy noise for nothing: every block pays for at least one node.
_SHORTEST = 16


class _Nodes(Setting[tuple[int, ...] | None, Sequence[int] | None]):
    """One tree for all blocks, as its numbers of nodes per level."""

    def check(self, value: Sequence[int] | None) -> tuple[int, ...] | None:
        """Allow None, or one of the known shapes."""
        if value is None:
            return None
        whole = isinstance(value, list | tuple) and all(type(node) is int for node in value)
        if not whole or tuple(value) not in RANGE_ERROR:
            raise SettingError(self.name, f"must be one of {', '.join(map(str, RANGE_ERROR))}")
        return tuple(value)


@dataclass(frozen=True, kw_only=True, repr=False)
class AdaptiveTrees(Spec):
    """Noisy sums of blocks, each measured with a tree chosen before its first value.

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

    KIND: ClassVar[str] = "perturb.AdaptiveTrees"

    irregular: ClassVar[bool] = False

    epsilon: Epsilon = Epsilon()
    horizon: Whole = Whole(minimum=1)
    nodes: _Nodes = _Nodes(default=None)

    @property
    def block(self) -> int:
        """1: a stream may be cut after any value."""
        return 1

    @property
    def guarantee(self) -> Guarantee:
        """ε-DP, derived: levels in sequence (equal shares that add up to 1), blocks in parallel."""
        return Guarantee(epsilon=self.epsilon)

    def lengths(self, chunk: int) -> tuple[int, ...]:
        """The block lengths of a horizon: at least 16 values, unless the horizon is shorter."""
        return _adaptive_block_lengths(self.horizon, chunk == 0)

    def layouts(self, length: int, threshold: int, ceiling: int) -> tuple[Layout, ...]:
        """The trees that fit into `length` values, coarsest first, for every cap step."""
        return all_trees(self.shapes(length), self.epsilon, length, threshold, ceiling)

    def shapes(self, length: int) -> tuple[tuple[int, ...], ...]:
        """Nodes per level of the trees that fit into `length` values, coarsest first."""
        shapes = tuple(shape for shape in RANGE_ERROR if shape != BLIND)
        if self.nodes is not None:
            shapes = (self.nodes,)
        return tuple(shape for shape in shapes if shape[-1] <= length) or (BLIND,)

    def noise_law(self, threshold: int) -> None:
        """None: the noise depends on the trees that are chosen."""
        return

    def noise_identity(self, threshold: int, ceiling: int) -> str:
        """The caps and scales of all possible choices."""
        return _adaptive_noise_identity(self, threshold, ceiling)

    def check(self, ceiling: int) -> Fraction | int:
        """Refuse settings that could overflow 64-bit integers."""
        return max(
            check_headroom(
                ceiling,
                self.epsilon,
                shares_of_tree_levels(shape),
                draws=2 * shape[-1] * len(shape),
                values=2 * self.horizon,
            )
            for shape in RANGE_ERROR
        )

    def start(
        self, threshold: int, ceiling: int, keystream: Keystream, state: State | None = None
    ) -> AdaptiveRun:
        """Begin, or resume from `state`. The first block waits for `begin`."""
        return AdaptiveRun(self, threshold, ceiling, keystream, state)


@lru_cache(maxsize=16)
def _adaptive_noise_identity(stage: AdaptiveTrees, threshold: int, ceiling: int) -> str:
    lengths = sorted({*stage.lengths(0), *stage.lengths(1)})
    options = []
    for length in lengths:
        trees = [tree.identity for tree in stage.layouts(length, threshold, ceiling)]
        options.append(f"({length}, ({', '.join(trees)}{',' * (len(trees) == 1)}))")
    return f"[{', '.join(options)}]"


@lru_cache(maxsize=64)
def _adaptive_block_lengths(horizon: int, first: bool) -> tuple[int, ...]:
    edges = [0]
    for end in _FIRST_ENDS if first else _LATER_ENDS:
        edge = math.floor(horizon * end)
        if edge >= edges[-1] + _SHORTEST:
            edges.append(edge)
    if len(edges) > 1:  # the last block takes what is left
        edges.pop()
    edges.append(horizon)
    return tuple(end - start for start, end in pairwise(edges))
