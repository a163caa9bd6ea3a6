"""`RescaledRun`: the mixture across changes of threshold: filters are rescaled, not restarted."""

from __future__ import annotations

import math

from tidegate.estimate.mixture.cap_steps import CapSteps
from tidegate.estimate.mixture.catch_up import caught_up
from tidegate.estimate.mixture.kalman_filter.kalman_filters import mixed_filters
from tidegate.estimate.mixture.kalman_filter.leaf_noise import NoisyLeaf, leaf_noise_path
from tidegate.estimate.mixture.kalman_filter.state_space_models import INNER, LEVEL
from tidegate.estimate.mixture.mixture_run import MixtureRun
from tidegate.stages import Layout, late_from

# The level after a cap was full, in the new θ: the old one says little about it.
NEW_MEAN, NEW_VARIANCE = 0.2, 0.1

# A measurement of all the noise that is left in a tree, and of nothing else.
_REST = NoisyLeaf(outer=None, inner=None, inner_share=0.0, share=1.0, variance=0.0)

# How much the level may move, as a share of itself, where θ is doubled or halved: more or less of
# the values is cut off. Without it the step looks like a level that moves, and everything that
# follows is measured finely. (Caps that are tried expect half as much: they are near θ.)
MOVED = 0.3

# After a late choice of θ (`late_from`), the addition for truncation is larger by this factor:
# 25/ε values of a tail of index 5 exceed θ by θ/4 each, 6.25·θ/ε; before it is 3.2·θ/ε.
LATE_TAKEN = 125 / 64


class RescaledRun(MixtureRun):
    """A `MixtureRun` that can change to units of another θ, and take the sum of a whole warm-up."""

    @property
    def _taken(self) -> float:
        late = self._age > late_from(self._horizon)
        return self._truncated * LATE_TAKEN if late else self._truncated

    def rescale(self, threshold: int, below: int = 0) -> None:
        """Change to units of another θ: means by θ/θ′, covariances by its square, caps anew.

        The level is less certain by what θ and θ′ cut off differently.
        """
        ratio = self._threshold / threshold
        augmented = self._filters.augmented
        augmented[:, :-1] *= ratio * ratio
        augmented[:, -1] *= ratio
        if self._cycle is not None:
            self._cycle.rescale(ratio)
        self._filters.inflate_level(min(1.0, MOVED * (max(ratio, 1 / ratio) - 1)))
        self._threshold = threshold
        self._set_ends(below)
        self._cap_steps = CapSteps()
        self._give_up_block()

    def forget_level(self, *, fell: bool = False) -> None:
        """Forget the level: a cap was full, or the level `fell` below its floor."""
        self._set_level(-NEW_MEAN if fell else NEW_MEAN, NEW_VARIANCE)

    def expect_level(self, share: float) -> None:
        """θ moved to where the level is expected to be this share of it, or nothing at all."""
        self._set_level(share, share * share)

    def publish_later(self, amount: float) -> None:
        """Add this to the running sum in the next cell, in units."""
        self._filters.subtract_published(-amount / self._threshold)

    def _set_level(self, mean: float, variance: float) -> None:
        filters = self._filters
        filters.augmented[LEVEL] = 0.0
        filters.augmented[:, LEVEL] = 0.0
        filters.mean[LEVEL] = mean
        filters.covariance[LEVEL, LEVEL] = variance
        if self._cycle is not None:
            self._cycle.forget_level()

    def at_once(
        self, layout: Layout, noisy: int, *, forecast: float = 0.0, published: float | None = None
    ) -> int:
        """A warm-up had this noisy sum; how the running sum moves, in units.

        The sum is published by the last row of the warm-up, the others have the `forecast`; or, if
        its rows were all out when it ended, with the next cell: `published` is what they add up to,
        and not published again.
        """
        filters, threshold, count = self._filters, self._threshold, layout.length
        (leaf,) = leaf_noise_path(layout.nodes, [each / threshold**2 for each in layout.variances])
        over, part = self._transition_over(count), count / (self._age + count)
        cycle = self._cycle
        filters.open_leaf(leaf)
        filters.fade(part)
        filters.predict(over)
        filters.update(leaf, noisy / threshold)
        if cycle is not None:
            cycle.open_leaf(leaf)
            cycle.begin_cell(count)
            cycle.fade(part)
            cycle.predict(over, count)
            cycle.update(leaf, filters)
        self._weigh()
        expected = filters.expected_sum(self._weights)
        if cycle is not None:
            expected += cycle.expected_sum()
        known = expected * threshold
        if self._catch_up < 1.0:
            known = caught_up(known, count * forecast, self._catch_up)
        whole = math.floor(known + 0.5)
        filters.subtract_published((whole if published is None else published) / threshold)
        self._age = min(self._age + count, self._perturber.horizon)
        return whole

    def add_rest(self, layout: Layout, rest: int) -> None:
        """Give up the open block between two leaves; its tree has this much noise left.

        A noiseless measurement of the noise that is left in the open nodes. Leaves so far are then
        known as well as their coarsest node is; without it, what fine leaves had gathered by chance
        would stay in the running sum for ever.
        """
        filters, cycle = self._filters, self._cycle
        if len(layout.nodes) > 2:
            filters.join_open_nodes()
            if cycle is not None:
                cycle.join_open_nodes()
        if not (filters.covariance[INNER, INNER] > 0.0).all():
            return  # noise so small that rounding has taken its variance
        filters.update(_REST, rest / self._threshold)
        if cycle is not None:
            cycle.update(_REST, filters)
        self._weigh()

    def _give_up_block(self) -> None:
        self._cells = None
        self._total = self._filled = self._width = 0
        self._measured = 0.0

    @property
    def measured(self) -> tuple[float, float]:
        """The mean of the previous block, in units, and its standard error; 0: not measured."""
        return self._measured, self._doubt

    @property
    def mean(self) -> float:
        """The expected level, in units."""
        level = mixed_filters(self._weights, self._filters.mean[LEVEL].tolist())
        if self._cycle is not None:
            level += self._cycle.level()
        return level * self._threshold
