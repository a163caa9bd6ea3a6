"""The errors to expect of an adaptive release, which chooses its trees block by block.

They depend on the stream, which is unknown beforehand. So there is one stated assumption: the level
of the stream drifts by `roughness`·θ (one standard deviation) over a horizon, and the estimator
knows this. A release under that assumption is simulated without data: each block gets the tree that
the cost tables prefer, and the answers' errors are those that `query` would show at the end of the
horizon. Answers about the newest values, given at once, have larger errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from tidegate.estimate.mixture.kalman_filter.model_weights import packed_weights
from tidegate.estimate.mixture.kalman_filter.state_space_models import COUNT, LEVEL_MEAN, WALKS
from tidegate.estimate.mixture.tree_choice import tree_costs
from tidegate.exact_numbers import whole
from tidegate.lattice import IntArray
from tidegate.record.segments.segment import Segment
from tidegate.record.segments.segment_method import SegmentMethod
from tidegate.stages import NO_NUMBERS, Estimator, Excess, Layout, Noisy, Parts, Perturber

_STARTS = 256

_CALM = 1  # the last of the models whose level hardly moves


def assumed_adaptive_model(roughness: float) -> int:
    """The model whose level drifts nearly as much as assumed; 0 is the constant one.

    >>> [assumed_adaptive_model(roughness) for roughness in (0, 0.01, 1 / 3, 1, 50)]
    [0, 1, 4, 5, 7]
    """
    if roughness <= 0:
        return 0
    distances = [abs(math.log(walk / roughness**2)) for walk in WALKS[1:]]
    return 1 + distances.index(min(distances))


def played_adaptive(
    stage: Perturber,
    estimator: Estimator,
    threshold: int,
    bounds: tuple[int, int],
    roughness: float,
    below: int,
) -> Segment:
    """The simulated record of one horizon of a stream that fits the assumptions, in lattice units.

    `bounds`: how far above and below 0 values can count.
    """
    model, (ceiling, depth) = assumed_adaptive_model(roughness), bounds
    history = stage.horizon + 1
    method = SegmentMethod(stage, estimator, ceiling, step=1.0, history=history, depth=depth)
    record = Segment(method, threshold=threshold, origin=0, epoch="", below=below)
    # Where the level hardly moves, nobody can tell that values do not scatter widely around it.
    calm = model <= _CALM
    model_weights = packed_weights([(model, 2 / 3), (COUNT - 1, 1 / 3)] if calm else [(model, 1.0)])
    age = 0
    for length in stage.lengths(0):
        options = stage.layouts(length, threshold, ceiling + below)
        choice = _preferred_adaptive_tree(stage, options, threshold, model, age=age)
        age += length
        tree = options[choice]
        record.begin(tree, choice, model_weights)
        edges = np.array([tree.edge(leaf) for leaf in range(tree.leaves + 1)])
        # As expected: larger innovations would widen all intervals.
        sums: IntArray = np.rint(np.diff(edges) * LEVEL_MEAN * threshold).astype(np.int64)
        record.extend(Noisy(sums), NO_NUMBERS, length)
    return record


def _preferred_adaptive_tree(
    stage: Perturber, options: tuple[Layout, ...], threshold: int, model: int, *, age: int
) -> int:
    """The tree with the least expected error, with the lowest caps: θ is assumed to fit."""
    lowest = [index for index, tree in enumerate(options) if tree.cap_step == options[0].cap_step]
    if len(lowest) == 1:
        return lowest[0]
    costs = tree_costs(stage, threshold, options[0].length, age=age)
    return min(lowest, key=lambda index: costs[options[index].nodes][model])


def mean_adaptive_errors(record: Segment, horizon: int, lengths: Iterable[int]) -> Iterable[Parts]:
    """Mean variances per length, over evenly spaced starts, in units².

    Horizons follow each other nearly without correlation: what a longer range has beyond whole
    ones is added as if it lay in one of its own.
    """
    for given in lengths:
        length = whole("length", given, minimum=1)
        times, rest = divmod(length, horizon)
        noise = prediction = largest = 0.0
        excess = None
        for weight, part in ((times, horizon), (1, rest)):
            if weight and part:
                starts: IntArray = np.unique(
                    np.linspace(0, horizon - part, _STARTS).astype(np.int64)
                )
                found = record.parts(starts, starts + part)
                noise += weight * float(found.noise_variance.mean())
                prediction += weight * float(found.prediction_variance.mean())
                largest = found.largest_variance
                excess = _added_adaptive_errors(excess, found.excess, weight)
        yield Parts(np.zeros(1), np.array([noise]), np.array([prediction]), largest, excess)


def _added_adaptive_errors(excess: Excess | None, more: Excess | None, times: int) -> Excess | None:
    """Add the mean over all ranges, `times` times. None: it is unknown."""
    if more is None:
        return None
    means = [np.array([times * part.mean()]) for part in more]
    if excess is not None:
        means = [old + new for old, new in zip(excess, means, strict=True)]
    return Excess(*means)
