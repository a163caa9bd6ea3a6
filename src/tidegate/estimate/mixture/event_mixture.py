"""The mixture for sums of events: models count in a unit that follows the rate of events.

Its posterior answers in that unit, and estimates what was cut off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from tidegate.estimate.mixture.excess_of_counted_sizes import (
    CountedExcess,
    WeightBefore,
    counted_excess,
)
from tidegate.estimate.mixture.kalman_filter.harmonics import Cycle, harmonics_of_periods
from tidegate.estimate.mixture.kalman_filter.kalman_filters import mixed_filters
from tidegate.estimate.mixture.kalman_filter.state_space_models import models
from tidegate.estimate.mixture.mixture import Mixture, MixturePeriods, Share
from tidegate.estimate.mixture.mixture_posterior import MixturePosterior
from tidegate.estimate.mixture.rescaled_run import RescaledRun
from tidegate.estimate.mixture.tree_choice import tree_costs
from tidegate.estimate.mixture.truncated_tail import (
    Places,
    Tail,
    TailLevels,
    tail_before_edges,
    tail_between_places,
)
from tidegate.lattice import FloatArray, IntArray
from tidegate.settings import Exact, Flag
from tidegate.stages import (
    Aim,
    Block,
    Excess,
    Layout,
    Parts,
    Perturber,
    Ranges,
    Recorded,
    Saved,
)
from tidegate.stages.size_bands import FALLEN, FAR_BELOW

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

    def _with_counted(self, parts: Parts, starts: IntArray, ends: IntArray) -> Parts:
        counted, step = self._counted, self._recorded.step
        if counted is None or parts.excess is None:
            return parts
        weight = WeightBefore(self._known.edges, self._known.sums)
        lost, variance, above, beneath = counted.between(starts, ends, weight) * step
        excess, low = parts.excess, counted.bands.fallen
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
        return EventTail(levels, self._cap, truncated, room, fallen=fallen)

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
    upper end reaches as far as they may then. (Values below 0 hide how many there are.)
    """

    def __init__(
        self, known: TailLevels, cap: float, truncated: float, room: float, *, fallen: bool = False
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
        self._fallen = fallen

    def between(self, places: Places, unit: float) -> Excess:
        """The excess of the ticks of ranges; `unit`: that of the models, in the data's."""
        sums, squares, room = tail_between_places(places, self._edges, self._before)
        nothing = np.zeros(sums.size)
        most = np.maximum(room, sums)
        upper = most if self._fallen else np.minimum(_UPPER * sums, most)
        parts = (sums, nothing, squares * unit, room, upper, nothing)
        return Excess(*(part * unit for part in parts))


# The unit of the models is about this many times the mean of a tick: the mean of readings is about
# a tenth of θ, and the models were made for that.
_TIMES = 10
# The scatter of a tick is at least this, in units²: a tenth of its mean, on top of chance.
_LEAST_SCATTER = 1e-4
# By which part of itself the level may move where θ is doubled or halved. (Readings move by 0.3:
# many of them lie near θ.)
_MOVED = 0.1


def step_of_event_unit(level: float, cap: int, highest: int) -> int:
    """The step k of the unit 2^k·θ for ticks of this mean: the nearest to ten means, at least θ."""
    exponent = math.frexp(max(_TIMES * level / cap, 1.0) * math.sqrt(0.5))[1]
    return min(max(0, exponent), highest)


def scatter_of_events(spread: float, step: int) -> float:
    """Variance of a tick around its level, in units², where the level is a tenth of the unit.

    The sum of independent events of rate r has the variance r·E[v²] = level·θ·spread.
    """
    return max(spread / (_TIMES << step), _LEAST_SCATTER)


@dataclass(frozen=True, kw_only=True, repr=False)
class EventMixture(Mixture):
    """`Mixture` for ticks that hold any number of events. Post-processing, as that is.

    Args:
        truncated: what truncation takes from a tick on average, by estimate, as a share of θ.
        period: as in `Mixture`, in ticks.
        modulated: whether shorter periods change with longer ones: days with the week
            (`harmonics`). It needs more than one period.
        spread: E[v²]/(θ·E[v]) of the truncated events: 1 where each counts as one, about 1/5 for
            values with a tail.
    """

    KIND: ClassVar[str] = "estimate.EventMixture"
    of_ticks: ClassVar[bool] = True  # a row is the sum of all events of a tick
    truncated: Share = Share(default=0)  # again: mypy does not see through inherited descriptors
    period: MixturePeriods = MixturePeriods(default=None)
    modulated: Flag = Flag(default=False)  # as records of earlier versions are read
    spread: Exact = Exact(default="1/5")

    @property
    def cycle(self) -> Cycle:
        """What is learnt of the periods."""
        return harmonics_of_periods(self.period or (), modulated=self.modulated)

    def settings(self) -> dict[str, Any]:
        """The specification as plain data; `modulated` only where it is: noise keys stay."""
        found = super().settings()
        if not self.modulated:
            del found["modulated"]
        return found

    def begin(
        self, *, cap: int, step: int, perturber: Perturber, saved: Saved | None = None
    ) -> EventMixtureRun:
        """Begin with models in units of 2^step·θ, or continue."""
        facts = self.truncated, float(self.spread), self.cycle
        return EventMixtureRun(cap, step, *facts, perturber=perturber, saved=saved)

    def posterior(self, recorded: Recorded, until: int) -> EventPosterior:
        """The models' posterior, given every leaf sum."""
        step = recorded.blocks[-1].layout.cap_step
        scatter = scatter_of_events(float(self.spread), step)
        facts = self.truncated, step, scatter, float(self.spread), self.cycle
        return EventPosterior(recorded, until, *facts)


class EventMixtureRun(RescaledRun):
    """A `RescaledRun` whose unit is not the cap: many events are not large ones.

    The cap never moves: nothing that is released tells the size of an event from their number.
    """

    def __init__(
        self,
        cap: int,
        step: int,
        truncated: float,
        spread: float,
        cycle: Cycle = (),
        *,
        perturber: Perturber,
        saved: Saved | None = None,
    ) -> None:
        self._cap, self._spread = cap, spread
        self.step: int = step if saved is None else saved.state["step"]
        scatter = scatter_of_events(spread, self.step)
        facts = cap << self.step, truncated, perturber, saved
        super().__init__(*facts, scatter=scatter, cycle=cycle)

    def state(self) -> dict[str, Any]:
        """The state: what is needed to continue."""
        return {**super().state(), "step": self.step}

    def _set_ends(self, below: int) -> None:
        self._above = self._threshold
        self._truncated = self._share * self._cap  # units per tick

    @property
    def _taken(self) -> float:
        return self._truncated  # their cap is chosen once

    def choose(self, options: tuple[Layout, ...], first: bool) -> int:
        """The option with the least posterior mean of the log relative error, in this unit."""
        if first:
            self._reconsider()
        here = [index for index, option in enumerate(options) if option.cap_step == self.step]
        if len(here) == 1:
            return here[0]
        costs = tree_costs(
            self._perturber,
            self._cap,
            options[0].length,
            age=self._age,
            unit=float(1 << self.step),
            scatter=self._scatter,
        )
        weights = self._careful_weights
        expected = [mixed_filters(weights, costs[options[index].nodes].tolist()) for index in here]
        return here[expected.index(min(expected))]

    def move(self, cap: int, step: int) -> None:
        """Go on in another unit: means by the ratio, covariances by its square.

        Where θ has changed the level is less certain: more or less of the events is cut off.
        """
        ratio, higher = self._threshold / (cap << step), max(cap / self._cap, self._cap / cap)
        augmented = self._filters.augmented
        augmented[:, :-1] *= ratio * ratio
        augmented[:, -1] *= ratio
        if self._cycle is not None:
            self._cycle.rescale(ratio)
        self._filters.inflate_level(min(1.0, _MOVED * (higher - 1)))
        self._cap, self.step, self._threshold = cap, step, cap << step
        self._scatter = scatter_of_events(self._spread, step)
        self._models = models(self._horizon, scatter=self._scatter)
        self._set_ends(0)
        self._transition = self._transition_over(1)
        self._give_up_block()
