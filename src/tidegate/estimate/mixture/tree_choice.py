"""What each tree costs under each model: public numbers, from ε and the block length only."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from tidegate.estimate.mixture.kalman import SUM, Beliefs, Cell
from tidegate.estimate.mixture.leaf_noise import noise_path
from tidegate.estimate.mixture.models import CELLS, ROUGHER, Models, models
from tidegate.estimate.mixture.portable_math import log
from tidegate.lattice import FloatArray
from tidegate.stages import Layout, Perturber

Shape = tuple[tuple[int, ...], tuple[float, ...]]  # nodes per level, and the levels' shares of ε
# Beliefs settle after a few blocks; the third is typical.
_SETTLED = 3
# What noise left by a block costs all ranges of a horizon, on average over where the block lies:
# a range of two random ends contains it with probability 1/3.
_ON_AVERAGE = 1 / 3
# A range seldom contains the beginning, so noise is cheap there; but not for nothing, since what
# looks like a moving level at first is measured finely for long.
_AT_LEAST = 0.1


@lru_cache(maxsize=64)
def range_errors(
    epsilon: float, horizon: int, lengths: tuple[int, ...], shapes: tuple[Shape, ...]
) -> dict[tuple[int, bool], FloatArray]:
    """What a block adds to the error of ranges, for (length, first block of all).

    An array of trees, two parts, and models. The first part is the variance that the block leaves
    in all later running sums, which ranges that contain the block are wrong by; the second is the
    mean error inside. All lengths are computed side by side, as models of their own.
    """
    rough, plain = models(horizon, ROUGHER), models(horizon)
    side = len(lengths)
    wide = Models(*(np.tile(part, side) for part in rough.parts))
    length = np.repeat(np.array(lengths, dtype=np.float64), plain.count)
    per_horizon = horizon / length
    first = np.empty((len(shapes), 2, wide.count))
    later = np.empty((len(shapes), 2, wide.count))
    for index, (shape, shares) in enumerate(shapes):
        path = noise_path(shape, [2 / (share * epsilon) ** 2 for share in shares])
        each = max(1, CELLS // shape[-1])
        count = shape[-1] * each
        width = length / count
        cell = Cell(wide, width)
        beliefs = Beliefs(wide)
        unseen = 0.5 * (
            wide.scatter * width
            + np.tile(plain.walk, side) * width**3 / 1.5
            + wide.variance * width**2 * np.minimum(1, wide.relaxation / width)
        )
        error = np.array((unseen, unseen))
        for repetition in range(_SETTLED):
            before = beliefs.covariance[SUM, SUM].copy()
            course = np.empty((count, wide.count))
            for at in range(count):
                leaf, inside = divmod(at, each)
                if inside == 0:
                    beliefs.open_leaf(path[leaf])
                beliefs.advance(cell)
                if inside == each - 1:
                    beliefs.measure(path[leaf], None)
                course[at] = beliefs.covariance[SUM, SUM]
            after = beliefs.covariance[SUM, SUM]
            line = before + (after - before) * (np.arange(1, count + 1) / count)[:, np.newaxis]
            inner = np.maximum(course - line, 0).mean(axis=0) + unseen
            left = after if repetition == 0 else after - before
            error = np.array((left, 2 * inner / per_horizon))
            if repetition == 0:
                first[index] = error
        later[index] = error
    table = {}
    for number, one in enumerate(lengths):
        columns = slice(number * plain.count, (number + 1) * plain.count)
        for is_first, errors in ((True, first), (False, later)):
            table[one, is_first] = errors[:, :, columns]
    return table


def tree_costs(
    stage: Perturber, threshold: int, length: int, *, age: int
) -> dict[tuple[int, ...], FloatArray]:
    """Log of every tree's error over the best one's, one for each model.

    For a block of `length` values after `age` others; a horizon of them: any later block. A length
    that the stage does not list costs as much as the nearest one that it does.
    """
    lengths, shapes = _choices(stage, threshold)
    nearest = min(lengths, key=lambda one: max(one / length, length / one))
    contained = _contained(age + length / 2, stage.horizon)
    return _log_costs(
        float(stage.epsilon), stage.horizon, lengths, shapes, nearest, age == 0, contained
    )


@lru_cache(maxsize=256)
def _log_costs(
    epsilon: float,
    horizon: int,
    lengths: tuple[int, ...],
    shapes: tuple[Shape, ...],
    length: int,
    first: bool,
    contained: float,
) -> dict[tuple[int, ...], FloatArray]:
    left, inside = range_errors(epsilon, horizon, lengths, shapes)[length, first].swapaxes(0, 1)
    errors = np.maximum(left * contained + inside, 1e-300)
    nodes = [shape for shape, _ in shapes]
    return dict(zip(nodes, log(errors / errors.min(axis=0)), strict=True))


@lru_cache(maxsize=256)
def _choices(stage: Perturber, threshold: int) -> tuple[tuple[int, ...], tuple[Shape, ...]]:
    """All lengths that blocks can have, and all trees with their levels' shares of ε."""
    longest = stage.layouts(stage.horizon, threshold, threshold)
    shapes = {tree.nodes: _shares(tree, stage.epsilon) for tree in longest}
    return tuple(sorted({*stage.lengths(0), *stage.lengths(1)})), tuple(shapes.items())


def _contained(position: float, horizon: int) -> float:
    """How often a range contains this position: 2p(1 − p) of those in the first horizon.

    From the middle on it is taken for a place in an endless stream.
    """
    part = min(position / horizon, 0.5)
    return min(max(2 * part * (1 - part), _AT_LEAST), _ON_AVERAGE)


def _shares(tree: Layout, epsilon: Fraction) -> tuple[float, ...]:
    """The parts of ε that the levels got; to 1/1024, since scales are rounded."""
    return tuple(round(tree.cap / scale / epsilon * 1024) / 1024 for scale in tree.scales)
