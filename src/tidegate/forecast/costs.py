"""What each tree costs under each model: public numbers, from ε and the block length only."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from tidegate.forecast.beliefs import SUM, Beliefs, Cell
from tidegate.forecast.elementary import log
from tidegate.forecast.models import CELLS, ROUGHER, SCATTER, Models, models
from tidegate.forecast.noise_path import noise_path
from tidegate.guided import GuidedPerturber, Tree
from tidegate.lattice import FloatArray

Shape = tuple[tuple[int, ...], tuple[float, ...]]  # nodes per level, and the levels' shares of ε
# Beliefs settle after a few blocks; the third is typical.
_SETTLED = 3


@lru_cache(maxsize=64)
def log_costs(
    epsilon: float, horizon: int, lengths: tuple[int, ...], shapes: tuple[Shape, ...]
) -> dict[tuple[int, bool], FloatArray]:
    """Log of the expected error over that of the best tree, for (length, first block of all).

    Rows are trees, columns models. The error of ranges over a horizon is a third of what the prefix
    error has gathered by the end, plus the mean error inside blocks. All lengths are computed side
    by side, as models of their own.
    """
    rough, plain = models(horizon, ROUGHER), models(horizon)
    side = len(lengths)
    wide = Models(*(np.tile(part, side) for part in (rough.walk, rough.variance, rough.relaxation)))
    length = np.repeat(np.array(lengths, dtype=np.float64), plain.count)
    per_horizon = horizon / length
    first = np.empty((len(shapes), wide.count))
    later = np.empty((len(shapes), wide.count))
    for index, (shape, shares) in enumerate(shapes):
        path = noise_path(shape, [2 / (share * epsilon) ** 2 for share in shares])
        each = max(1, CELLS // shape[-1])
        count = shape[-1] * each
        width = length / count
        cell = Cell(wide, width)
        beliefs = Beliefs(wide)
        unseen = 0.5 * (
            SCATTER * width
            + np.tile(plain.walk, side) * width**3 / 1.5
            + wide.variance * width**2 * np.minimum(1, wide.relaxation / width)
        )
        error = unseen
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
            error = (after if repetition == 0 else after - before) / 3 + 2 * inner / per_horizon
            if repetition == 0:
                first[index] = error
        later[index] = error
    table = {}
    for number, one in enumerate(lengths):
        columns = slice(number * plain.count, (number + 1) * plain.count)
        for is_first, errors in ((True, first), (False, later)):
            here = np.maximum(errors[:, columns], 1e-300)
            table[one, is_first] = log(here / here.min(axis=0))
    return table


def tree_costs(
    stage: GuidedPerturber, threshold: int, length: int, *, first: bool
) -> dict[tuple[int, ...], FloatArray]:
    """The log costs of every tree of `stage` for a block of so many values, one for each model."""
    lengths = tuple(sorted({*stage.lengths(0), *stage.lengths(1)}))
    longest = stage.trees(stage.horizon, threshold, threshold)
    shapes = {tree.nodes: _shares(tree, stage.epsilon) for tree in longest}
    table = log_costs(float(stage.epsilon), stage.horizon, lengths, tuple(shapes.items()))
    return dict(zip(shapes, table[length, first], strict=True))


def _shares(tree: Tree, epsilon: Fraction) -> tuple[float, ...]:
    """The parts of ε that the levels got; to 1/1024, since scales are rounded."""
    return tuple(round(tree.cap / scale / epsilon * 1024) / 1024 for scale in tree.scales)
