"""The forecaster of the prototype for short streams: the real one, with a θ that may change."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar

from tidegate.estimate.mixture import tree_choice as costs
from tidegate.estimate.mixture.cap_steps import CapSteps, moved
from tidegate.estimate.mixture.kalman_filter.kalman_filters import mixed
from tidegate.estimate.mixture.kalman_filter.leaf_noise import noise_path
from tidegate.estimate.mixture.kalman_filter.state_space_models import LEVEL, SUM, StateTransition
from tidegate.estimate.mixture.mixture_run import MixtureRun
from tidegate.perturb.adaptive.adaptive_trees import AdaptiveTrees
from tidegate.perturb.adaptive.tree_shapes import BLIND, RANGE_ERROR, cap_factor, shares
from tidegate.perturb.level_scales import level_scales
from tidegate.stages import Layout

_SHAPES = tuple(shape for shape in RANGE_ERROR if shape != BLIND)


class Lengths(AdaptiveTrees):
    """Lengths for the table of costs."""

    KIND: ClassVar[str] = "benchmarks.short_follower.Lengths"

    def lengths(self, chunk: int) -> tuple[int, ...]:
        """Powers of two below a sixteenth of the horizon."""
        longest = max(16, self.horizon // 16)
        return tuple(sorted({max(16, longest >> k) for k in range(6)}))


class Follower(MixtureRun):
    """The forecaster, with a θ that may change."""

    def rescale(self, threshold: int, truncated: float) -> None:
        """Go on in units of another θ."""
        ratio = self._threshold / threshold
        table = self._filters.augmented
        table[:, :-1] *= ratio * ratio
        table[:, -1] *= ratio
        self._threshold, self._truncated = threshold, truncated * threshold
        self._cap_steps = CapSteps()
        self._measured = 0.0

    def select(self, epsilon: Fraction, length: int, ceiling: int) -> Layout:
        """The tree that measures a block of this length."""
        steps, before = self._cap_steps, self._cap_steps.step
        highest = max(0, math.ceil(2 * math.log2(ceiling / self._threshold)) + 1)
        if self._measured:
            steps.observe(self._measured / self._threshold, self._doubt / self._threshold, highest)
        if steps.step != before:
            self._filters.inflate_level(moved(before, steps.step))
        steps.step = min(steps.step, highest)
        options = trees_of(epsilon, length, self._threshold, ceiling, steps.step)
        if len(options) == 1:
            return options[0]
        known = self._perturber.lengths(0)
        near = min(known, key=lambda one: abs(math.log(one / length)))
        table = costs.tree_costs(self._perturber, 1 << 20, near, age=self._age)
        expected = [mixed(self._weights, table[option.nodes].tolist()) for option in options]
        return options[expected.index(min(expected))]

    def abandon(self) -> None:
        """The open block ends here."""
        self._cells = None
        self._total = self._filled = self._width = 0
        self._measured = 0.0

    def at_once(self, count: int, noisy: float, variance: float, centred: bool) -> float:
        """`count` values had this sum, of which nothing was known: how the running sum moves."""
        filters, threshold = self._filters, self._threshold
        leaf = noise_path(BLIND, [variance / threshold**2])[0]
        filters.open_leaf(leaf)
        filters.fade(count / (self._age + count))
        filters.predict(StateTransition(self._models, count))
        filters.update(leaf, noisy / threshold)
        self._weights = filters.weights()
        if centred:
            filters.augmented[SUM] *= 0.5
            filters.augmented[:, SUM] *= 0.5
        whole = math.floor(filters.expected_sum(self._weights) * threshold + 0.5)
        filters.subtract_published(whole / threshold)
        self._age = min(self._age + count, self._perturber.horizon)
        return whole

    def forget_level(self, mean: float, variance: float) -> None:
        """The level is a new one, in θ."""
        filters = self._filters
        filters.augmented[LEVEL] = 0.0
        filters.augmented[:, LEVEL] = 0.0
        filters.mean[LEVEL] = mean
        filters.covariance[LEVEL, LEVEL] = variance

    @property
    def measured(self) -> float:
        """The mean of the block before, in units; 0: none was measured."""
        return self._measured

    @property
    def doubt(self) -> float:
        """Its standard error."""
        return self._doubt

    @property
    def mean(self) -> float:
        """Of one value, as the models have it, in units."""
        levels = self._filters.mean[LEVEL].tolist()
        return mixed(self._weights, levels) * self._threshold


def trees_of(
    epsilon: Fraction, length: int, threshold: int, ceiling: int, cap_step: int
) -> list[Layout]:
    """As `all_trees`, for one cap step and with variances in floats: quick."""
    found = []
    for shape in [shape for shape in _SHAPES if shape[-1] <= length] or [BLIND]:
        cap = min(ceiling, max(1, round(threshold * cap_factor(shape, cap_step))))
        found.append(tree_of(length, shape, cap, epsilon, shares(shape), cap_step))
    return found


def tree_of(
    length: int,
    shape: tuple[int, ...],
    cap: int,
    epsilon: Fraction,
    parts: tuple[Fraction, ...],
    cap_step: int,
) -> Layout:
    """One tree, with exact scales."""
    scales = level_scales(cap, epsilon, parts)
    variances = tuple(2 * float(scale) ** 2 for scale in scales)
    return Layout(length, shape, cap, scales, variances, cap_step=cap_step)
