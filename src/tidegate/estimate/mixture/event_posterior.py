"""Answers about sums of events: in the unit of the rate, with what truncation took away.

What is expected above θ by the rule that chose it, and what the numbers of events by size show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from tidegate.estimate.mixture.excess_of_counted_sizes import (
    CountedExcess,
    ExcessWeights,
    counted_excess,
)
from tidegate.estimate.mixture.kalman_filter.harmonics import Cycle
from tidegate.estimate.mixture.mixture_posterior import MixturePosterior
from tidegate.estimate.mixture.truncated_tail import (
    Places,
    Tail,
    TailLevels,
    tail_before_edges,
    tail_between_places,
)
from tidegate.lattice import FloatArray, IntArray
from tidegate.stages import Aim, Block, Excess, Parts, Ranges, Recorded
from tidegate.stages.size_bands import FALLEN, FAR_BELOW, GIVEN_UP

# The expected excess over the caps in what is added to every published tick for it (8·F in
# `truncated_tail`); and how many times as much it may be, at the end of a 95 % interval.
_CUT_TIMES, _UPPER = 4.0, 15.5
# A warm-up is at most this part of a horizon (LONGEST in `run`).
_LONGEST = 1 / 4
# The mean square of an excess over the square of its mean, and the mean in θ.
_SQUARE, _EACH = 4.0, 0.5
# The level may change within a cell by this part of itself and more: what a part of a cell has of
# its sum is less certain by that.
_WITHIN = 0.25
_LEAST_LEVEL = 1e-6
# A choice of θ is made for this many times the ticks before it (as STRETCH in `run`).
STRETCH = 16


class EventPosterior(MixturePosterior):
    """`MixturePosterior` for ticks: their sums have no upper end, and scatter by their number."""

    def __init__(
        self,
        recorded: Recorded,
        until: int,
        truncated: float,
        step: int,
        scatter: float,
        spread: float,
        cycle: Cycle = (),
    ) -> None:
        self._cap = 1.0 / (1 << step)  # θ, in the unit of the models
        self._spread_of_events = spread
        self._scatter = scatter
        super().__init__(recorded, until, truncated, recorded.threshold << step, scatter, cycle)

    @cached_property
    def _counted(self) -> CountedExcess | None:
        """What the numbers of events by size tell of what truncation took away."""
        return counted_excess(self._recorded, self._until)

    def parts_of_each(self, others: Sequence[Any], ranges: Sequence[Ranges]) -> list[Parts]:
        """The parts of this and of others; with what truncation surely took away."""
        every: list[EventPosterior] = [self, *others]
        found = super().parts_of_each(others, ranges)
        return [
            one._with_counted(part, *each)
            for one, part, each in zip(every, found, ranges, strict=True)
        ]

    @property
    def _levels_of_sums(self) -> TailLevels:
        """What an excess goes with."""
        return self._known

    def _with_counted(self, parts: Parts, starts: IntArray, ends: IntArray) -> Parts:
        counted, step = self._counted, self._recorded.step
        if counted is None or parts.excess is None:
            return parts
        weight = ExcessWeights(self._levels_of_sums)
        lost, variance, above, beneath = counted.between(starts, ends, weight) * step
        excess, low = parts.excess, counted.fallen
        upper = np.maximum(above, excess.expected if low else excess.upper)
        return replace(
            parts,
            estimate=parts.estimate + lost,
            prediction_variance=parts.prediction_variance + variance * step,
            excess=excess._replace(
                upper=upper,
                lower=np.maximum(excess.lower, beneath),
                most=np.maximum(excess.most, upper),
            ),
        )

    def _truncated_tail(
        self,
        recorded: Recorded,
        begun: Sequence[Block],  # the cap never moves
        truncated: float,
        aim: Aim,  # nothing tells the size of events from their number
    ) -> Tail | None:
        return self._tail_over(None, recorded, truncated)

    def _tail_over(
        self, levels: TailLevels | None, recorded: Recorded, truncated: float
    ) -> Tail | None:
        """What truncation took away, in proportion to these levels; None: to those of sums."""
        if recorded.threshold >= recorded.ceiling:
            return _UntruncatedEvents()  # all that lies within the public bound counts as it is
        if not truncated:
            return None
        room = recorded.ceiling / recorded.threshold - 1.0
        # θ was chosen for a stretch of the stream: an early one leaves more of it above.
        horizon, first = recorded.perturber.horizon, recorded.blocks[0].layout.length
        stretch = min(horizon, STRETCH * max(recorded.origin, first))
        levels = self._known if levels is None else levels
        low = recorded.threshold <= FALLEN * recorded.grain
        # A warm-up that took its longest found too few events: θ is chance, wherever it lies.
        chance = recorded.origin == 0 and first >= math.floor(_LONGEST * horizon)
        fallen = (low or chance) and room >= FAR_BELOW
        truncated *= horizon / stretch
        times = GIVEN_UP if recorded.sizes else 1.0
        return EventTail(levels, self._cap, truncated, room, fallen=fallen, times=times)

    @property
    def _spread_facts(self) -> tuple[float, ...]:
        return self._spread_of_events * self._cap, self._scatter

    @staticmethod
    def _spread(level: FloatArray, width: IntArray, share: FloatArray, *facts: Any) -> FloatArray:
        """Variance, in units², of a part of a cell whose sum is known.

        Events that come by chance, twice as scattered as independent ones; and a level that moves
        within the cell.
        """
        each, scatter = facts
        level = np.maximum(level, _LEAST_LEVEL)
        chance = 2.0 * np.maximum(each * level, scatter)
        within = share * (1 - share)
        found: FloatArray = chance * width * within
        found += np.square(_WITHIN * level * width * within) * (width > 1)
        return found


class _UntruncatedEvents:
    """What truncation took away where nothing was truncated."""

    def between(self, places: Places, unit: float) -> Excess:
        """Nothing was taken away."""
        (starts, _), _ = places
        return Excess.nothing(starts.size)


class EventTail:
    """What truncation took from ticks: as much as the rule for θ leaves, in proportion to the sum.

    The rule leaves a number of events of a horizon above θ. More events mean more of them, not
    larger ones, so the excess goes with the level. At most level/θ events of a tick lie above θ. If
    most events are 0, chance may leave θ where the choice began, and all others lie above it: the
    upper end reaches as far as they may then. (Values below 0 hide how many there are.) Where
    events are counted by size those above θ give less than θ: `times` as much is missing.
    """

    def __init__(
        self,
        known: TailLevels,
        cap: float,
        truncated: float,
        room: float,
        *,
        fallen: bool = False,
        times: float = 1.0,
    ) -> None:
        edges = known.edges
        widths: FloatArray = np.diff(edges).astype(np.float64)
        sums = np.maximum(np.diff(known.sums), 0.0) + _LEAST_LEVEL * widths
        if not widths.size:
            edges, widths, sums = np.array([0, 1]), np.ones(1), np.full(1, _LEAST_LEVEL)
        expected = _CUT_TIMES * truncated * cap * sums * (widths.sum() / sums.sum())
        self._edges = edges
        squares, most = _SQUARE * _EACH * cap * expected, np.maximum(room * sums, expected)
        self._before = tail_before_edges(np.stack((expected, squares, most)))
        self._fallen, self._times = fallen, times

    def between(self, places: Places, unit: float) -> Excess:
        """The excess of the ticks of ranges; `unit`: that of the models, in the data's."""
        sums, squares, room = tail_between_places(places, self._edges, self._before)
        nothing = np.zeros(sums.size)
        most = np.maximum(room, sums)
        upper = most if self._fallen else np.minimum(_UPPER * sums, most)
        sums = np.minimum(self._times * sums, upper)
        parts = (sums, nothing, squares * unit, room, upper, nothing)
        return Excess(*(part * unit for part in parts))
