"""`Hierarchy`: noisy block sums whose range sums stay accurate; `Flat`: the same without trees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np

from tidegate.errors import SettingError
from tidegate.exact_numbers import Number, exact, positive
from tidegate.guarantee import Guarantee
from tidegate.perturb.forest_geometry import Forest, level_count
from tidegate.perturb.forest_perturber import ForestStage, forest_of
from tidegate.perturb.level_scales import check_headroom, level_scales
from tidegate.settings import Epsilon, Flag, OptionalWhole, Setting, Spec, Whole

_MOST_LEVELS = 64
_MOST_LEAVES = 1 << 27  # draws of noise in memory: a gigabyte per array


class _HierarchyShares(Setting[tuple[Fraction, ...] | None, Sequence[Number] | None]):
    """Level budgets: relative weights, stored as fractions that add up to 1."""

    def check(self, value: Sequence[Number] | None) -> tuple[Fraction, ...] | None:
        """Allow None, or one positive weight per level."""
        if value is None:
            return None
        if not isinstance(value, list | tuple) or not 0 < len(value) <= _MOST_LEVELS:
            raise SettingError(self.name, "must be a list of one weight per level, leaves first")
        weights = [positive(self.name, weight) for weight in value]
        total = sum(weights)
        return tuple(exact(self.name, weight / total) for weight in weights)


@dataclass(frozen=True, kw_only=True, repr=False)
class Hierarchy(ForestStage, Spec):
    """Discrete Laplace noise on every node of a `fanout`-ary forest, made consistent.

    Guarantee: pure ε-DP for one replaced value. Each value lies in one node per level; levels share
    ε by `shares`, and horizons are disjoint (argument: `forest_perturber.ForestRun`).

    Args:
        epsilon: the budget of the stream.
        horizon: the longest range that should be answered well (the paper's r). One forest spans
            that many values, rounded up to whole blocks, and the next one follows.
        fanout: children per node (the paper's b).
        skipped: lowest levels left to the smoother (the paper's s): one measured block is
            fanout**skipped values. None: the paper's rule, `paper_skipped_levels`.
        levels: levels of the forest over blocks. None: the number with the least mean variance.
        shares: relative budgets of the levels, leaves first. None: equal.
        consistent: least-squares consistency (the paper's H^c); without it, ranges are answered by
            the fewest nodes.

    >>> Hierarchy(epsilon=0.1, horizon=2**20).block
    256
    """

    KIND: ClassVar[str] = "perturb.Hierarchy"

    epsilon: Epsilon = Epsilon()
    horizon: Whole = Whole(minimum=1)
    fanout: Whole = Whole(minimum=2, default=16)
    skipped: OptionalWhole = OptionalWhole(minimum=0)
    levels: OptionalWhole = OptionalWhole(minimum=1)
    shares: _HierarchyShares = _HierarchyShares(default=None)
    consistent: Flag = Flag(default=True)

    def __post_init__(self) -> None:
        if self.shares is not None and self.levels not in (None, len(self.shares)):
            raise SettingError("shares", f"must name {self.levels} weights, one per level")
        most = level_count(self.fanout, self.blocks) + 1  # a single root, at the most
        if self.tree_levels > most:
            raise SettingError("levels", f"must be at most {most} here, not {self.tree_levels}")

    @cached_property
    def block(self) -> int:
        """The number of values per measured sum."""
        skipped = self.skipped
        if skipped is None:
            skipped = paper_skipped_levels(self.epsilon, self.horizon, self.fanout)
        most = level_count(self.fanout, self.horizon)  # then a block is the whole horizon
        if skipped > most:
            raise SettingError("skipped", f"must be at most {most} here, not {skipped}")
        return int(self.fanout**skipped)

    @property
    def blocks(self) -> int:
        """The number of blocks per horizon."""
        return -(-self.horizon // self.block)

    @cached_property
    def tree_levels(self) -> int:
        """The number of levels of the forest."""
        if self.shares is not None:
            return len(self.shares)
        return self.levels or best_levels(self.fanout, self.blocks, self.consistent)

    @property
    def guarantee(self) -> Guarantee:
        """ε-DP, derived: levels in sequence (their shares add up to 1), horizons in parallel."""
        return Guarantee(epsilon=sum(self._shares, start=Fraction(0)) * self.epsilon)

    @property
    def _shares(self) -> tuple[Fraction, ...]:
        return self.shares or (Fraction(1, self.tree_levels),) * self.tree_levels

    def noise_law(self, threshold: int) -> Forest:
        """The forest for values truncated at `threshold` units."""
        scales = level_scales(threshold, self.epsilon, self._shares)
        return forest_of(self.fanout, self.blocks, scales, self.consistent)

    def check(self, ceiling: int) -> Fraction | int:
        """Refuse settings that could overflow 64-bit integers, or fill the memory with noise."""
        forest = self.noise_law(ceiling)
        if forest.grove_leaves > _MOST_LEAVES:
            raise SettingError(
                "horizon",
                f"is too long for one tree of {forest.grove_leaves:,} blocks, whose noise is made "
                f"at once (at most {_MOST_LEAVES:,}): skip more levels, or set fewer",
            )
        # Residuals sum all leaf draws below a node; prefixes sum siblings, level by level.
        summed = forest.grove_leaves if self.consistent else self.fanout
        return check_headroom(
            ceiling,
            self.epsilon,
            self._shares,
            draws=2 * summed * self.tree_levels,
            values=(self.blocks + forest.grove_leaves) * self.block,
        )


def paper_skipped_levels(epsilon: Fraction, horizon: int, fanout: int) -> int:
    """The paper's s: the minimum of `eq:mse_guess`, rounded to a whole number of levels.

    (b−1)(log_b r − s)³ · 2/ε² + b^(2s)/4 · 1/9, the common factor θ² left out: noise against the
    error of predicting inside a block. Like the authors' code, this rounds the real-valued minimum.
    The least over whole s is one level lower at some ε (0.04, 0.05, 1) and mostly less accurate
    there: the second term overstates the error of a prediction (decision 0018).

    >>> [paper_skipped_levels(Fraction(e), 2**20, 16) for e in ("0.01", "0.05", "0.1", "1")]
    [3, 3, 2, 2]
    """
    height = math.log(horizon, fanout)
    low, high = 0.0, height
    for _ in range(60):  # the slope of the error grows with s: halve towards its zero
        middle = (low + high) / 2
        noise = -6 * (fanout - 1) * (height - middle) ** 2 / float(epsilon) ** 2
        prediction = 2 * math.log(fanout) * float(fanout) ** (2 * middle) / 36
        low, high = (middle, high) if noise + prediction < 0 else (low, middle)
    return min(math.floor(low + 0.5), level_count(fanout, horizon) - 1)


@lru_cache(maxsize=256)
def best_levels(fanout: int, leaves: int, consistent: bool) -> int:
    """The number of levels with the least mean range variance under equal shares.

    ⌈log_b n⌉ is the right answer at powers of b and a poor one just above them (n = 257, b = 16:
    three levels are 1.7 times worse than two), so candidates are compared by exact variance.

    >>> best_levels(16, 4096, True), best_levels(16, 257, True)
    (3, 2)
    """
    # Multiples of two irrational numbers spread evenly over all pairs of range ends.
    spread = np.outer((0.754877666246693, 0.569840290998053), np.arange(4096)) % 1.0
    corners = (spread * (leaves + 1)).astype(np.int64)
    starts, ends = corners.min(axis=0), corners.max(axis=0)
    errors = []
    for levels in range(1, level_count(fanout, leaves) + 1):
        scale = Fraction(levels * 1000)  # large enough to be as good as continuous
        forest = Forest(fanout, leaves, (scale,) * levels, consistent)
        errors.append(forest.range_variance(starts, ends).mean())
    return 1 + int(np.argmin(errors))


_ALL = (Fraction(1),)


@dataclass(frozen=True, kw_only=True, repr=False)
class Flat(ForestStage, Spec):
    """Discrete Laplace noise of scale θ/ε on each block's sum; range errors grow as √length.

    Guarantee: pure ε-DP for one replaced value, which moves the sum of one block by at most θ.

    Args:
        epsilon: the budget of the stream.
        horizon: how many values share one part of the keystream; no effect on accuracy.
        block: values per measured sum.
    """

    KIND: ClassVar[str] = "perturb.Flat"

    epsilon: Epsilon = Epsilon()
    horizon: Whole = Whole(minimum=1, default=2**20)
    block: Whole = Whole(minimum=1, default=1)

    @property
    def guarantee(self) -> Guarantee:
        """ε-DP: blocks in parallel."""
        return Guarantee(epsilon=self.epsilon)

    def noise_law(self, threshold: int) -> Forest:
        """A forest of leaves only."""
        blocks = -(-self.horizon // self.block)
        return forest_of(2, blocks, level_scales(threshold, self.epsilon, _ALL))

    def check(self, ceiling: int) -> Fraction | int:
        """Refuse settings that could overflow 64-bit integers."""
        values = self.horizon + self.block
        return check_headroom(ceiling, self.epsilon, _ALL, draws=1, values=values)
