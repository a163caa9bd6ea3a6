"""The mixture for sums of events: models count in a unit that follows the rate of events."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from tidegate.estimate.mixture.event_posterior import EventPosterior
from tidegate.estimate.mixture.kalman_filter.harmonics import Cycle, harmonics_of_periods
from tidegate.estimate.mixture.kalman_filter.kalman_filters import mixed_filters
from tidegate.estimate.mixture.kalman_filter.state_space_models import models
from tidegate.estimate.mixture.mixture import Mixture, MixturePeriods, Share
from tidegate.estimate.mixture.rescaled_run import RescaledRun
from tidegate.estimate.mixture.tree_choice import tree_costs
from tidegate.settings import Exact, Flag
from tidegate.stages import Layout, Perturber, Recorded, Saved
from tidegate.stages.size_bands import GIVEN_UP_IN_ROWS

# The unit of the models is about this many times the mean of a tick: the mean of readings is about
# a tenth of θ, and the models were made for that.
_TIMES = 10
# The scatter of a tick is at least this, in units²: a tenth of its mean, on top of chance.
_LEAST_SCATTER = 1e-4
# By which part of itself the level may move where θ is doubled or halved. (Readings move by 0.3:
# many of them lie near θ.)
_MOVED = 0.1


def step_of_event_unit(level: float, cap: int, highest: int) -> int:
    """The step k of the unit 2^k·θ for this mean of a tick: nearest to ten means, at least θ."""
    exponent = math.frexp(max(_TIMES * level / cap, 1.0) * math.sqrt(0.5))[1]
    return min(max(0, exponent), highest)


def scatter_of_events(spread: float, step: int) -> float:
    """Variance of a tick around its level, in units², where the level is a tenth of the unit.

    The sum of independent events of rate r has the variance r·E[v²] = level·θ·spread.
    """
    return max(spread / (_TIMES << step), _LEAST_SCATTER)


@dataclass(frozen=True, kw_only=True, repr=False)
class EventMixture(Mixture):
    """`Mixture` for ticks with any number of events. Post-processing, like `Mixture`.

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
    catch_up: ClassVar[None] = None  # type: ignore[misc]  # for values alone
    modulated: Flag = Flag(default=False)  # as records of earlier versions are read
    spread: Exact = Exact(default="1/5")

    @property
    def cycle(self) -> Cycle:
        """The harmonics of the periods."""
        return harmonics_of_periods(self.period or (), modulated=self.modulated)

    def settings(self) -> dict[str, Any]:
        """The specification as plain data; `modulated` only if set, so that noise keys stay."""
        found = super().settings()
        if not self.modulated:
            del found["modulated"]
        return found

    def begin(
        self, *, cap: int, step: int, perturber: Perturber, saved: Saved | None = None
    ) -> EventMixtureRun:
        """Begin with models in units of 2^step·θ, or continue."""
        facts = cap, step, self.truncated, float(self.spread), self.cycle
        return EventMixtureRun(*facts, perturber=perturber, saved=saved)

    def posterior(self, recorded: Recorded, until: int) -> EventPosterior:
        """The models' posterior given all leaf sums."""
        step = recorded.blocks[-1].layout.cap_step
        scatter = scatter_of_events(float(self.spread), step)
        facts = self.truncated, step, scatter, float(self.spread), self.cycle
        return EventPosterior(recorded, until, *facts)


class EventMixtureRun(RescaledRun):
    """A `RescaledRun` whose unit is not the cap: many events are not large events.

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
        self._counts_sizes: bool = getattr(perturber, "sizes", False)
        self.step: int = step if saved is None else saved.state["step"]
        facts = cap << self.step, truncated, perturber, saved
        super().__init__(*facts, scatter=scatter_of_events(spread, self.step), cycle=cycle)

    def state(self) -> dict[str, Any]:
        """The state to resume from."""
        return {**super().state(), "step": self.step}

    def _set_ends(self, below: int) -> None:
        self._above = self._threshold
        self._truncated = self._share * self._cap  # units per tick
        if self._counts_sizes:
            self._truncated *= GIVEN_UP_IN_ROWS

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
        """Change the unit: scale means by the ratio, covariances by its square.

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
