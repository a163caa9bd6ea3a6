"""The error of each tree under each model: public, computed from ε and block lengths only."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from tidegate.estimate.mixture.kalman_filter.kalman_filters import KalmanFilters
from tidegate.estimate.mixture.kalman_filter.leaf_noise import NoisyLeaf, leaf_noise_path
from tidegate.estimate.mixture.kalman_filter.state_space_models import (
    CELLS,
    ROUGHER,
    SCATTER,
    SUM,
    Models,
    StateTransition,
    models,
)
from tidegate.estimate.mixture.portable_exp_and_log import log
from tidegate.lattice import FloatArray
from tidegate.stages import Layout, Perturber

Shape = tuple[tuple[int, ...], tuple[float, ...]]  # nodes per level, and the levels' shares of ε
# A filter's covariance converges in a few blocks; that of the third is typical.
_BLOCKS = 3
# The noise that a block leaves in running sums is in the ranges that contain the block. On average
# over the places of a horizon, that is a third of the ranges with two random ends.
_ON_AVERAGE = 1 / 3
# Few ranges contain the beginning, so noise is cheap there. It must not be free: what looks like a
# moving level at first is then measured finely for long.
_AT_LEAST = 0.1


@lru_cache(maxsize=64)
def tree_range_errors(
    epsilon: float,
    horizon: int,
    lengths: tuple[int, ...],
    shapes: tuple[Shape, ...],
    scatter: float = SCATTER,
) -> dict[tuple[int, bool], FloatArray]:
    """A block's contribution to the mean squared error of ranges, by (length, first block of all).

    Each entry has a row per tree, with two parts, one entry per model. The first part is the
    variance that the block leaves in all later running sums: ranges that contain the block have it.
    The second is the mean error of the ends that lie inside the block.
    """
    every = _CandidateTrees(horizon, lengths, scatter)
    first = np.empty((len(shapes), 2, every.models.count))
    later = np.empty((len(shapes), 2, every.models.count))
    for index, (nodes, shares) in enumerate(shapes):
        variances = [2 / (share * epsilon) ** 2 for share in shares]
        first[index], later[index] = every.errors(nodes, variances)
    return {
        (length, is_first): errors[:, :, every.columns(number)]
        for number, length in enumerate(lengths)
        for is_first, errors in ((True, first), (False, later))
    }


class _CandidateTrees:
    """One Kalman filter for each model and block length."""

    def __init__(self, horizon: int, lengths: tuple[int, ...], scatter: float) -> None:
        rough, plain = models(horizon, ROUGHER, scatter), models(horizon, 1.0, scatter)
        side = len(lengths)
        self._count = plain.count
        self._walk = np.tile(plain.walk, side)
        self.models = Models(*(np.tile(part, side) for part in rough.parts))
        self._length = np.repeat(np.array(lengths, dtype=np.float64), plain.count)
        self._per_horizon = horizon / self._length

    def columns(self, number: int) -> slice:
        """The models for the length with this index."""
        return slice(number * self._count, (number + 1) * self._count)

    def errors(
        self, nodes: tuple[int, ...], variances: list[float]
    ) -> tuple[FloatArray, FloatArray]:
        """Both parts of the error, for the first block of all and for a later one.

        The Riccati recursion: a filter's covariance does not depend on the data, so the filter is
        run over a few blocks that are all measured by this tree.
        """
        path = leaf_noise_path(nodes, variances)
        per_leaf = max(1, CELLS // nodes[-1])
        count = nodes[-1] * per_leaf
        width = self._length / count
        over = StateTransition(self.models, width)
        unseen = self._inside_cell(width)
        filters = KalmanFilters(self.models)
        found = []
        for number in range(_BLOCKS):
            before = filters.covariance[SUM, SUM].copy()
            sum_variances = _tree_sum_variances(filters, over, path, per_leaf)
            after = filters.covariance[SUM, SUM]
            # Beyond a straight line from the variance before the block to that after it.
            line = before + (after - before) * (np.arange(1, count + 1) / count)[:, np.newaxis]
            inside = np.maximum(sum_variances - line, 0).mean(axis=0) + unseen
            left = after if number == 0 else after - before
            found.append(np.array((left, 2 * inside / self._per_horizon)))
        return found[0], found[-1]

    def _inside_cell(self, width: FloatArray) -> FloatArray:
        """Mean variance of a sum that ends inside a cell, where only its forecast is known."""
        several = self.models
        return 0.5 * (
            several.scatter * width
            + self._walk * width**3 / 1.5
            + several.variance * width**2 * np.minimum(1, several.relaxation / width)
        )


def _tree_sum_variances(
    filters: KalmanFilters, over: StateTransition, path: tuple[NoisyLeaf, ...], per_leaf: int
) -> FloatArray:
    """The variance of the running sum after each cell of one block."""
    sum_variances = np.empty((len(path) * per_leaf, filters.mahalanobis.size))
    for cell in range(len(sum_variances)):
        leaf, inside = divmod(cell, per_leaf)
        if inside == 0:
            filters.open_leaf(path[leaf])
        filters.predict(over)
        if inside == per_leaf - 1:
            filters.update(path[leaf], None)
        sum_variances[cell] = filters.covariance[SUM, SUM]
    return sum_variances


def tree_costs(
    stage: Perturber,
    threshold: int,
    length: int,
    *,
    age: int,
    unit: float = 1.0,
    scatter: float = SCATTER,
) -> dict[tuple[int, ...], FloatArray]:
    """Log of each tree's error relative to the best tree's, one entry for each model.

    For a block of `length` values after `age` others; a horizon of them: any later block. A length
    that the stage does not list costs as much as the nearest one that it does. Models count in
    `unit` caps, and noise is as much smaller in it.
    """
    lengths, shapes = _tree_choices(stage, threshold)
    nearest = min(lengths, key=lambda one: max(one / length, length / one))
    contained = _contained_in_ranges(age + length / 2, stage.horizon)
    epsilon = float(stage.epsilon) * unit
    return _log_costs_of_trees(
        epsilon, stage.horizon, lengths, shapes, nearest, age == 0, contained, scatter
    )


@lru_cache(maxsize=256)
def _log_costs_of_trees(
    epsilon: float,
    horizon: int,
    lengths: tuple[int, ...],
    shapes: tuple[Shape, ...],
    length: int,
    first: bool,
    contained: float,
    scatter: float,
) -> dict[tuple[int, ...], FloatArray]:
    costs = tree_range_errors(epsilon, horizon, lengths, shapes, scatter)
    left, inside = costs[length, first].swapaxes(0, 1)
    errors = np.maximum(left * contained + inside, 1e-300)
    nodes = [shape for shape, _ in shapes]
    return dict(zip(nodes, log(errors / errors.min(axis=0)), strict=True))


@lru_cache(maxsize=256)
def _tree_choices(stage: Perturber, threshold: int) -> tuple[tuple[int, ...], tuple[Shape, ...]]:
    """All possible block lengths, and all trees with the shares of ε of their levels."""
    longest = stage.layouts(stage.horizon, threshold, threshold)
    shapes = {tree.nodes: _level_shares_of_trees(tree, stage.epsilon) for tree in longest}
    return tuple(sorted({*stage.lengths(0), *stage.lengths(1)})), tuple(shapes.items())


def _contained_in_ranges(position: float, horizon: int) -> float:
    """Share of ranges that contain this position: 2p(1 − p) of those in the first horizon.

    From the middle on, the position is treated as one in an endless stream.
    """
    part = min(position / horizon, 0.5)
    return min(max(2 * part * (1 - part), _AT_LEAST), _ON_AVERAGE)


def _level_shares_of_trees(tree: Layout, epsilon: Fraction) -> tuple[float, ...]:
    """The shares of ε of the levels, to 1/1024, since scales are rounded."""
    return tuple(round(tree.cap / scale / epsilon * 1024) / 1024 for scale in tree.scales)
