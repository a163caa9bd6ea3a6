"""Sums of events whose counts are released too: the smoother learns the mean of an event.

Sum and number of a tick rise and fall together: with m the mean of an event and N̂ what is known of
the numbers, m·N̂ tells most of a day. It is added up over each leaf and taken from the leaf's sum;
the smoother sees what is left, and answers get m·N̂ back. That is the same as smoothing around a
public profile: sums of noise stay as they are.

Privacy: post-processing. m, N̂ and leaf sums are released, and nothing else is read. Noise of sums
and of numbers is independent, so an error of N̂ is to the smoother a level that moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tidegate.estimate.mixture.event_mixture import EventMixture, scatter_of_events
from tidegate.estimate.mixture.event_posterior import EventPosterior
from tidegate.estimate.mixture.kalman_filter.cycle_filters import CycleFilters
from tidegate.estimate.mixture.kalman_filter.harmonics import Cycle
from tidegate.estimate.mixture.kalman_filter.kalman_filters import KalmanFilters
from tidegate.estimate.mixture.kalman_filter.state_space_models import LEVEL_MEAN, LEVEL_VARIANCE
from tidegate.estimate.mixture.portable_exp_and_log import one_log
from tidegate.estimate.mixture.rescaled_run import RescaledRun
from tidegate.estimate.mixture.truncated_tail import Tail
from tidegate.lattice import FloatArray, IntArray
from tidegate.stages import Aim, Block, Noisy, Parts, Recorded

Expected = Callable[[IntArray, IntArray], FloatArray]  # of [start, end), in the unit of the data


class SumsGivenCounts(EventPosterior):
    """`EventPosterior` of the residual sums after subtracting `expected`.

    `level` is the sum of an average tick, in the unit of the data.

    Attributes:
        unlikely: −log₂ of the likelihood of the leaf sums, up to a constant.
    """

    def __init__(
        self, recorded: Recorded, estimator: EventMixture, expected: Expected, level: float
    ) -> None:
        self._expected = expected
        theta, spread = recorded.threshold * recorded.step, float(estimator.spread)
        # Independent events of this level: the variance of a tick, in θ².
        most = spread * max(level, 0.0) / theta + _LEAST
        super().__init__(recorded, recorded.end, estimator.truncated, 0, most, 0.0, estimator.cycle)
        self._sums = left = self._left(recorded)
        found = []
        for part in SCATTERS:
            run = RestGivenCountsRun(recorded, estimator.cycle, part * most)
            run.follow(self._begun, lambda block: left[self._leaves_of(block)])
            found.append((run.unlikely, part * most, run.model_weights))
        self.unlikely, self._scatter, weights = min(found)
        self.unlikely += self._sums.size * _log2(recorded.threshold)
        self._models = weights, self._scatter, estimator.cycle

    def _left(self, recorded: Recorded) -> IntArray:
        """The leaf sums minus `expected`, in lattice units."""
        edges = [
            [block.start + block.layout.edge(leaf), block.start + block.layout.edge(leaf + 1)]
            for block in self._begun
            for leaf in range(block.layout.leaves_by(self._until - block.start))
        ]
        starts, ends = np.array(edges, dtype=np.int64).reshape(-1, 2).T
        expected = self._expected(starts, ends)
        left: IntArray = self._sums - np.rint(expected / recorded.step).astype(np.int64)
        return left

    def _leaves_of(self, block: Block) -> slice:
        first = block.first - self._oldest
        return slice(first, first + block.layout.leaves_by(self._until - block.start))

    def _truncated_tail(
        self, recorded: Recorded, begun: Sequence[Block], truncated: float, aim: Aim
    ) -> Tail | None:
        return self._tail_over(self._levels_of_sums, recorded, truncated)

    @cached_property
    def _levels_of_sums(self) -> LevelsGivenCounts:
        # What is cut off goes with the level, and most of that was expected.
        edges, unit = self._known.edges, self._recorded.threshold * self._recorded.step
        before = np.concatenate(([0.0], np.cumsum(self._expected(edges[:-1], edges[1:]))))
        return LevelsGivenCounts(edges, self._known.sums + before / unit)

    def parts(self, starts: IntArray, ends: IntArray) -> Parts:
        """The sums over [start, end)."""
        found = super().parts(starts, ends)
        return replace(found, estimate=found.estimate + self._expected(starts, ends))


# The scatter of a tick where nothing is expected of it: models need some.
_LEAST = 1e-4
# How much of it is left where numbers are known: all if these tell nothing, little where events are
# alike. The likeliest is taken.
SCATTERS = (1.0, 1 / 4, 1 / 16)
_PER_LOG = 1.4426950408889634  # 1/ln 2


@dataclass(frozen=True)
class LevelsGivenCounts:
    """Cells and the sums before them, in θ."""

    edges: IntArray
    sums: FloatArray


def unlikely_without_counts(recorded: Recorded, estimator: EventMixture) -> float:
    """`RestGivenCountsRun.unlikely` of the sums alone, as `EventMixture` models them."""
    step = recorded.blocks[-1].layout.cap_step
    run = RestGivenCountsRun(
        recorded,
        estimator.cycle,
        scatter_of_events(float(estimator.spread), step),
        LEVEL_MEAN,
        step,
    )
    leaves = recorded.leaves
    sums = np.diff(leaves.sums(np.arange(leaves.oldest, leaves.closed + 1)))

    def of_block(block: Block) -> IntArray:
        first = block.first - leaves.oldest
        found: IntArray = sums[first : first + block.layout.leaves_by(recorded.end - block.start)]
        return found

    run.follow(recorded.blocks, of_block)
    return run.unlikely + sums.size * _log2(recorded.threshold << step)


class RestGivenCountsRun(RescaledRun):
    """The filters over residual leaf sums, for the models' weights: in 2^step·θ, around `mean`."""

    def __init__(
        self, recorded: Recorded, cycle: Cycle, scatter: float, mean: float = 0.0, step: int = 0
    ) -> None:
        self._until = recorded.end
        unit = recorded.threshold << step
        super().__init__(unit, 0.0, recorded.perturber, scatter=scatter, cycle=cycle)
        self._set_level(mean, LEVEL_VARIANCE)
        if self._cycle is not None:
            self._cycle.begin_at(recorded.blocks[0].start)

    def follow(self, blocks: Sequence[Block], left: Callable[[Block], IntArray]) -> None:
        """Update with all leaves."""
        for block in blocks:
            length = min(block.layout.length, self._until - block.start)
            if length > 0:
                self.begin(block.layout)
                self.push(Noisy(left(block)), np.zeros(length))

    @property
    def unlikely(self) -> float:
        """−log₂ of the likelihood of the likeliest model, up to a constant."""
        parts: list[KalmanFilters | CycleFilters] = (
            [self._filters] if self._cycle is None else [self._filters, self._cycle]
        )
        return min(
            times + 0.5 * _log2(determinant)
            for part in parts
            for times, determinant in zip(part.halvings(), part.determinant.tolist(), strict=True)
        )


def _log2(value: float) -> float:
    return one_log(float(value)) * _PER_LOG
