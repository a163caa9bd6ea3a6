"""Smooth under a mixture of models, each with its own smoother; many streams at once.

The noise of a sum is Laplace noise: some draws are much larger than Gaussian ones of the same
variance. A Laplace variable is a Gaussian one whose variance is itself random (a scale mixture),
and a large draw points to a large variance. So the smoother runs twice, as in iteratively
reweighted least squares: after a first pass, by the model of the largest weight, blocks whose noise
was probably large get a larger variance (`reweighted_mixture`), and count less in the second pass.
(1.05 to 1.1 times less error on calm streams; elsewhere noise cannot be told from the level.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from tidegate.estimate.mixture.kalman_filter.cycle_filters import prior_variances_of_cycle
from tidegate.estimate.mixture.kalman_filter.harmonics import Cycle, Harmonics
from tidegate.estimate.mixture.kalman_filter.kalman_filters import Weights
from tidegate.estimate.mixture.kalman_filter.model_weights import cycle_weights, unpacked_weights
from tidegate.estimate.mixture.kalman_filter.state_space_models import SCATTER
from tidegate.estimate.mixture.smoother.block_batches import MeasuredBlock
from tidegate.estimate.mixture.smoother.block_totals import BlockTotals, block_totals
from tidegate.estimate.mixture.smoother.forward_backward_passes import SmoothingTask
from tidegate.estimate.mixture.smoother.model_and_cycle_smoothers import (
    CycleResponses,
    CycleSmoother,
    ModelSmoother,
)
from tidegate.lattice import FloatArray, IntArray

# Variances are doubled, once or twice, so that many blocks still form one batch. They are never
# halved: intervals must not become too short.
_MOST_DOUBLINGS = 2
# A block is reweighted only if less than this part of its noise variance is left. Where the level
# may move, more is left, and a jump of the level must not be mistaken for a large draw.
_RESOLVED = 0.5
# A cycle that is likelier than not is taken into account when noise is looked for.
_LIKELY = 0.5
Smoothed = ModelSmoother | CycleSmoother


class MixtureToSmooth(NamedTuple):
    """The input of smoothing: the blocks of one stream, and the weights of the models."""

    blocks: Sequence[MeasuredBlock]
    horizon: int
    model_weights: int
    scatter: float = SCATTER
    cycle: Cycle = ()

    def task(self, model: int) -> SmoothingTask:
        """The task of smoothing under one model."""
        return SmoothingTask(self.blocks, self.horizon, model, self.scatter)

    @property
    def weights(self) -> Weights:
        """The weights of the models; `shares` has those of cycles."""
        return unpacked_weights(self.model_weights)

    @property
    def shares(self) -> list[float]:
        """The weights of models with a cycle, by its amplitude."""
        return cycle_weights(self.model_weights)


class MixtureViews(NamedTuple):
    """The smoothers of all models with weight, their weights, and the expected cycle.

    `coefficients` are those of `harmonics`, weighted too.
    """

    each: list[tuple[float, Smoothed]]
    harmonics: Harmonics
    coefficients: FloatArray


def mixture_views(questions: Sequence[MixtureToSmooth]) -> list[MixtureViews]:
    """The views of each stream; all streams and models are smoothed together."""
    likeliest = [max(one.weights, key=itemgetter(1))[0] for one in questions]
    tasks = [one.task(model) for one, model in zip(questions, likeliest, strict=True)]
    plain = [max(0.0, 1.0 - sum(one.shares)) >= _LIKELY for one in questions]
    totals = iter(block_totals([task for task, known in zip(tasks, plain, strict=True) if known]))
    weighed = []
    for one, task, known in zip(questions, tasks, plain, strict=True):
        found_totals = next(totals) if known else _mixture_smoother_with_cycle(one, task)
        weighed.append(one._replace(blocks=reweighted_mixture(one.blocks, found_totals)))
    found = iter(
        ModelSmoother.of_each([one.task(model) for one in weighed for model, _ in one.weights])
    )
    return [_mixture_views(one, [next(found) for _ in one.weights]) for one in weighed]


def _mixture_views(of: MixtureToSmooth, without: Sequence[ModelSmoother]) -> MixtureViews:
    """The views `without` a cycle: one for each model with weight."""
    shares, harmonics = of.shares, _mixture_harmonics(of.cycle)
    plain = max(0.0, 1.0 - sum(shares))
    found = MixtureViews([], harmonics, np.zeros(harmonics.count))
    for (_, weight), view in zip(of.weights, without, strict=True):
        if plain:
            found.each.append((weight * plain, view))
        if not any(shares):
            continue
        responses = CycleResponses(of.blocks, harmonics, view)
        for share, prior in zip(shares, prior_variances_of_cycle(harmonics), strict=False):
            if share:
                cycle = responses.smoother(prior)
                found.each.append((weight * share, cycle))
                found.coefficients[:] += weight * share * cycle.coefficients
    return found


def mixture_variances_of_each(
    asked: Sequence[tuple[Smoothed, IntArray, IntArray]],
) -> list[FloatArray]:
    """`variances` of many smoothers at once; those of one class together."""
    classes: dict[type[Smoothed], list[int]] = {}
    for at, (view, _, _) in enumerate(asked):
        classes.setdefault(type(view), []).append(at)
    found: dict[int, FloatArray] = {}
    for smoother, places in classes.items():
        alike: list[Any] = [asked[at] for at in places]
        found.update(zip(places, smoother.variances_of_each(alike), strict=True))
    return [found[at] for at in range(len(asked))]


@lru_cache(maxsize=64)
def _mixture_harmonics(cycle: Cycle) -> Harmonics:
    return Harmonics(cycle)


def _mixture_smoother_with_cycle(of: MixtureToSmooth, task: SmoothingTask) -> BlockTotals:
    """The smoother of the blocks that have begun, under the likeliest cycle."""
    harmonics = _mixture_harmonics(of.cycle)
    prior = prior_variances_of_cycle(harmonics)[of.shares.index(max(of.shares))]
    seen = CycleResponses(of.blocks, harmonics, ModelSmoother(*task)).smoother(prior)
    begun = [(block.start, block.end) for block in of.blocks if block.end > block.start]
    first, last = np.searchsorted(seen.edges, np.array(begun, dtype=np.int64).reshape(-1, 2)).T
    return BlockTotals(seen.sums[last] - seen.sums[first], seen.variances(first, last))


def reweighted_mixture(blocks: Sequence[MeasuredBlock], totals: BlockTotals) -> list[MeasuredBlock]:
    """The blocks, with a larger noise variance where the noise was probably large.

    With N the expected noise of the block's sum and V the variance that is left of it, the variance
    v is multiplied by √((N² + V)/v), to the nearest power of two.
    """
    known = iter(zip(totals.sums.tolist(), totals.variances.tolist(), strict=True))
    found = []
    for block in blocks:
        if block.end > block.start:
            expected, variance = next(known)
            if block.sums.size == block.cells.tree.nodes[-1]:
                found.append(_reweighted_mixture(block, expected, variance))
                continue
        found.append(block)
    return found


def _reweighted_mixture(block: MeasuredBlock, expected: float, variance: float) -> MeasuredBlock:
    cells = block.cells
    noise = cells.noise
    if variance >= _RESOLVED * noise:
        return block
    released = int(block.sums.sum()) / cells.unit
    square = ((released - expected) ** 2 + variance) / noise
    doublings = math.frexp(square)[1] // 2  # the nearest whole number to log₂ of the root
    if doublings <= 0:
        return block
    return replace(block, noise_factor=float(1 << min(doublings, _MOST_DOUBLINGS)))
