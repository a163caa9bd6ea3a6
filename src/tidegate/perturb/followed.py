"""Forests that a forecaster can follow: fixed trees are guided ones without a choice.

horizon  |·-------·-------·------|·-------·-------·------|    groups of top trees, side by side
"""

from __future__ import annotations

from typing import Protocol

from tidegate.errors import SettingError
from tidegate.guided import Tree
from tidegate.perturb.forest import Forest
from tidegate.perturb.run import ForestRun
from tidegate.randomness import Keystream

# Groups of top trees per horizon: a forecaster has some work to do for each.
_GROUPS = 16


class _Stage(Protocol):
    """A perturber whose noise is a forest."""

    @property
    def block(self) -> int: ...

    def noise_law(self, threshold: int) -> Forest: ...


class Followed:
    """The second form (`tidegate.guided`) of a perturber whose noise is a forest.

    The noise, and the argument why it is enough, are those of the first form: `ForestRun` makes it,
    at the same addresses. A forecaster is only told by which tree each stretch is measured.
    """

    def lengths(self: _Stage, chunk: int) -> tuple[int, ...]:
        """Groups of whole top trees; the last one has what is left of the horizon's blocks."""
        forest = self.noise_law(1)
        group = _group(forest)
        whole, rest = divmod(forest.leaves, group)
        return (group * self.block,) * whole + ((rest * self.block,) if rest else ())

    def trees(self: _Stage, length: int, threshold: int, ceiling: int) -> tuple[Tree, ...]:
        """One: as many top trees as it takes, of which the last may be cut off."""
        forest = self.noise_law(min(threshold, ceiling))
        if not forest.consistent:
            raise SettingError("consistent", "must be true for a forecaster to follow the trees")
        used = -(-length // self.block)
        tops = -(-used // forest.tree_leaves)
        return (
            Tree(
                length=length,
                nodes=tuple(tops * forest.fanout**level for level in range(forest.levels)),
                cap=min(threshold, ceiling),
                scales=forest.scales[::-1],
                variances=forest.variances[::-1],
                used=used,
            ),
        )

    def noise_identity(self: _Stage, threshold: int, ceiling: int) -> str:
        """Every scale, and which words go where."""
        return self.noise_law(threshold).identity

    def start_guided(
        self: _Stage, threshold: int, ceiling: int, keystream: Keystream
    ) -> FollowedRun:
        """Begin; what `begin` chooses is always the same."""
        return FollowedRun(self, threshold, ceiling, keystream)


def _group(forest: Forest) -> int:
    """Leaves of a group of top trees."""
    tops = -(-forest.leaves // forest.tree_leaves)
    return -(-tops // _GROUPS) * forest.tree_leaves


class FollowedRun(ForestRun):
    """A forest at work that says by which tree the present stretch is measured."""

    def __init__(self, stage: _Stage, threshold: int, ceiling: int, keystream: Keystream) -> None:
        forest = stage.noise_law(threshold)
        super().__init__(forest, stage.block, threshold, keystream)
        self._lengths = Followed.lengths(stage, 0)
        self._options = {
            length: Followed.trees(stage, length, threshold, ceiling) for length in self._lengths
        }
        self._group = _group(forest)
        self.choice = 0

    @property
    def number(self) -> int:
        """Groups completed in this horizon."""
        return self.leaf // self._group

    @property
    def options(self) -> tuple[Tree, ...]:
        """The one tree of the present group."""
        return self._options[self._lengths[self.number]]

    def begin(self, choice: int) -> None:
        """Nothing to be decided."""
        if choice != 0:
            raise AssertionError("there is one tree only")
