"""The base of perturbers whose noise is a forest: blocks, layouts, run.

horizon  |·-------·-------·------|·-------·-------·------|    groups of top trees, side by side
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Protocol

from tidegate.perturb.forest import Forest
from tidegate.perturb.forest_run import ForestLike, ForestRun
from tidegate.perturb.one_layout import OneLayoutStage
from tidegate.randomness import Keystream
from tidegate.stages import Layout

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
        """Groups of whole top trees; the last one has what is left of the horizon's leaves."""
        forest = self.noise_law(1)
        group = _group(forest)
        whole, rest = divmod(forest.leaves, group)
        return (group * self.block,) * whole + ((rest * self.block,) if rest else ())

    def layouts(self: _Stage, length: int, threshold: int, ceiling: int) -> tuple[Layout, ...]:
        """The one layout: the top trees that cover `length` values; the last may be incomplete."""
        forest = self.noise_law(min(threshold, ceiling))
        return _layouts(forest, self.block, length, min(threshold, ceiling))

    def noise_identity(self: _Stage, threshold: int, ceiling: int) -> str:
        """Every scale, and which words go where."""
        return self.noise_law(threshold).identity

    def run(self: _Stage, threshold: int, ceiling: int, keystream: Keystream) -> ForestRun:
        """Begin to release."""
        return ForestRun(self, threshold, ceiling, keystream)


@lru_cache(maxsize=256)
def forest_of(
    fanout: int, leaves: int, scales: tuple[Fraction, ...], consistent: bool = True
) -> Forest:
    """The forest of these settings; cached, since many streams share their settings.

    (By a stage's settings alone it would not do: what is decided from them is part of the noise.)
    """
    return Forest(fanout, leaves, scales, consistent)


@lru_cache(maxsize=256)
def _layouts(forest: Forest, block: int, length: int, cap: int) -> tuple[Layout, ...]:
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
    """Leaves of a group of top trees."""
    tops = -(-forest.leaves // forest.tree_leaves)
    return -(-tops // _GROUPS) * forest.tree_leaves
