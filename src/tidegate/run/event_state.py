"""The state of an event stream: phases, open warm-up, window or block, snapshot."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar, cast

from tidegate.estimate.mixture.event_mixture import EventMixture, EventMixtureRun
from tidegate.lattice import FloatArray, IntArray, Lattice
from tidegate.perturb.adaptive.event_trees import EventTrees, EventTreesRun
from tidegate.record.rows_and_levels import Levels
from tidegate.run.event_log import EventLog
from tidegate.run.event_sizes import EventSizes
from tidegate.run.event_ticks import Ticks
from tidegate.run.phased_run import PhasedRun, PhaseKeys
from tidegate.run.refinement_blocks import RefinementBlocks
from tidegate.run.refinement_schedule import STRETCH, Refinement
from tidegate.run.selection_counts import SelectionCounts
from tidegate.run.two_sided_caps import Ends
from tidegate.stages import Saved
from tidegate.stages.size_bands import SizeBands, size_bands
from tidegate.state_as_bytes import restore, state_of
from tidegate.threshold import TailQuantile

_WINDOWS = Refinement(restarts=False)  # when a window opens, and with which share of ε


class EventState(PhasedRun):
    """The parts of an event stream (`event_run` says what happens when).

    The state is secret: the events of ticks that are not released, the counts of an open window,
    the raw sum of the open leaf.
    """

    # Plain numbers. All of them are public: positions, settings, and what was released.
    STATE: ClassVar[tuple[str, ...]] = (
        "number", "position", "start", "looked", "due", "looks", "counted", "first", "evidence",
        "cap", "total", "ticks", "prediction", "first_sum", "window_start", "window_end",
        "window_events",
    )  # fmt: skip

    def __init__(self, keys: PhaseKeys, *, state: dict[str, Any] | None = None) -> None:
        super().__init__(keys)
        pipeline = keys.pipeline
        ticks, trees, estimator = pipeline.ticks, pipeline.perturber, pipeline.estimator
        if not (
            isinstance(ticks, Ticks)
            and isinstance(trees, EventTrees)
            and isinstance(estimator, EventMixture)
        ):
            raise AssertionError("the pipeline was checked")
        self._trees, self._estimator = trees, estimator
        self._step = pipeline.lattice.step
        self._longest = ticks.longest_warm_up(pipeline)
        rule = pipeline.threshold
        private = rule.guarantee.epsilon > 0  # else θ is fixed
        self._rule = cast("TailQuantile", rule) if private else None
        self._follower: EventMixtureRun | None = None
        self._blocks: RefinementBlocks | None = None
        self._window: SelectionCounts | None = None
        self._sizes: EventSizes | None = None  # of the open piece, once θ is known
        self.cap = 0 if self._rule else self._grid.top  # θ in lattice units; 0: not chosen yet
        self.events = EventLog(trees.most, self.cap or None)
        self.position = self.start = 0  # ticks released; where the phase began
        self.looked, self.due = 0, ticks.warm_up(pipeline)  # of the open part of the warm-up
        self.looks, self.counted = 0, 0  # how many there were, and the noisy number of events
        self.first = self.first_sum = 0  # ticks of the warm-up, once it is over; their noisy sum
        self.evidence = 0  # share × ticks that chose θ, in sixteenths
        self.total, self.ticks = 0, 0  # released sums of how many ticks, for the unit of the models
        self.prediction = 0.0  # what the phase began to publish, in units
        self.window_start = self.window_end = 0  # ticks of the open window
        self.window_events = 0  # how many are expected in it
        if state is not None:
            self._resume(state)

    # -- facts -----------------------------------------------------------------------------------

    @property
    def _grid(self) -> Lattice:
        """The lattice of sizes: events are truncated at −θ and θ."""
        return self._pipeline.lattice.scale

    @property
    def _bands(self) -> SizeBands | None:
        """The bands in which events are counted, around the present θ; None: they are not."""
        if not self._trees.sizes:
            return None
        signed = self._pipeline.lattice.bottom > 0
        return size_bands(self.cap, self._grid.top, self._grid.grain, signed=signed)

    @property
    def warming(self) -> int:
        """How many more ticks the open warm-up needs, as far as known; 0: none is open."""
        return 0 if self._blocks else self.due - self.position

    @property
    def ends(self) -> Ends | None:
        """The bounds that events are truncated to, in lattice units; None before θ is chosen."""
        return Ends(self.cap) if self.cap else None

    @property
    def level(self) -> float:
        """The expected value of one more tick, in lattice units, for display."""
        return self._levels().level

    def _levels(self) -> Levels:
        method, follower = self._pipeline.method, self._follower
        if follower is None:
            return Levels(method, None, 0.0, self.position)
        return Levels(method, None, follower.prediction, follower.filled)

    def push(self, units: IntArray, out: FloatArray, levels: FloatArray | None = None) -> None:
        """Refuse: events are not rows."""
        raise AssertionError("events are taken with their times, and released by the clock")

    def push_one(self, unit: int) -> float:
        """Refuse: events are not rows."""
        raise AssertionError("events are taken with their times, and released by the clock")

    # -- parts -----------------------------------------------------------------------------------

    def _following(self, step: int, saved: Saved | None = None) -> EventMixtureRun:
        trees = self._trees
        follower = self._estimator.begin(cap=self.cap, step=step, perturber=trees, saved=saved)
        self._follower = follower
        return follower

    def _known_follower(self) -> EventMixtureRun:
        if self._follower is None:
            raise AssertionError("nothing was measured yet")
        return self._follower

    def _choice(self, share: Fraction, events: int, ticks: int, age: int) -> TailQuantile:
        """The stage that chooses θ from about `events` events in `ticks` ticks.

        Counts that it aims at are in proportion to time: 25/ε events above θ in a horizon, of which
        `ticks` of min(horizon, 16·age) are seen. So the number of events hardly matters.
        """
        if self._rule is None:
            raise AssertionError("θ is fixed")
        number, stretch = max(1, events), min(self._trees.horizon, STRETCH * age)
        horizon = max(number, number * stretch // ticks)
        epsilon = share * self._trees.epsilon
        return replace(self._rule, epsilon=epsilon, holdout=number, horizon=horizon)

    def _open_window(self) -> None:
        """If due, let the events of the next ticks pay for another choice of θ."""
        if self._rule is None or self._window is not None:
            return
        horizon, at, first = self._trees.horizon, self.position, self.first
        due = _WINDOWS.window(horizon, at=at, first=first, warm_up_start=0, evidence=self.evidence)
        if due is None and self._sizes is not None and (due := self._window_for_lower()):
            self._sizes.tried = at
        if due is None:
            if self._sizes is None:  # else a later θ may follow from counts
                self.events.settle(self.cap)
            return
        length, share = due
        before, now = max(self.first_sum, 1) / self.first, max(self.total, 1) / self.ticks
        rate = max(self.counted, 1) / self.first * min(max(now / before, 1 / 16), 16.0)
        if self._sizes is not None:
            rate = max(self._sizes.events, 1) / max(self._sizes.ticks, 1)
        self.window_start, self.window_end = self.position, self.position + length
        self.window_events = max(1, round(rate * length))
        self._window = self._counting(share)

    def _window_for_lower(self) -> tuple[int, Fraction] | None:
        """A window for a lower θ, where hardly an event was counted near the present one."""
        sizes, horizon, at = self._sizes, self._trees.horizon, self.position
        if sizes is None or not sizes.seems_low(at, horizon):
            return None
        return _WINDOWS.window_again(horizon, at, 0, self.evidence)

    def _counting(self, share: Fraction) -> SelectionCounts:
        length = self.window_end - self.window_start
        stage = self._choice(share, self.window_events, length, self.window_end)
        return SelectionCounts(stage, share, self._grid)

    def _measuring(self, state: dict[str, Any] | None = None) -> RefinementBlocks:
        ends = Ends(self.cap)
        share = Fraction(0) if self._window is None else self._window.share
        facts: dict[str, Any] = {"share": str(share)}
        if not self.number and self.first != self.due:  # `finish` ended the warm-up: blocks lie
            facts["first"] = self.first  # elsewhere than those that go on from a state of before
        run = EventTreesRun(
            self._trees,
            ends.width,
            self._pipeline.ceiling,
            self._keys.noise("perturb", self.number, ends, self.start, **facts),
            state,
            part=1 - share,
            warm_up_start=0,
            position=self.position,
        )
        return RefinementBlocks(run, self._known_follower(), self.segments[-1], None, signed=False)

    # -- state -----------------------------------------------------------------------------------

    def state(self, brief: bool) -> dict[str, Any]:
        """The state for `restore`; `brief` omits what only queries about the past need."""
        blocks, window = self._blocks, self._window
        return {
            **self._kept(brief),
            **state_of(self),
            "events": self.events.state(),
            "window": None if window is None else {**window.state(), "share": str(window.share)},
            "estimator": self._follower and self._follower.state(),
            "level": 0.0 if blocks is None else blocks.level,
            "blocks": blocks and blocks.perturber.state(),
            **({} if self._sizes is None else {"sizes": self._sizes.state()}),
        }

    def _resume(self, state: dict[str, Any]) -> None:
        restore(self, {name: state[name] for name in self.STATE})
        self._restore_kept(state)
        self.events.restore(state["events"])
        if state["estimator"] is None:
            return
        self._check_epoch(self.segments[-1])
        layout = self.segments[-1].blocks[-1].layout
        self._following(0, Saved(state["estimator"], layout))
        if (counted := state["window"]) is not None:
            self._window = self._counting(Fraction(counted["share"]))
            self._window.restore(counted)
        if (bands := self._bands) is not None:
            self._sizes = EventSizes(bands, self._trees.epsilon, self.start)
            self._sizes.restore(state["sizes"])
        self._blocks = self._measuring(state["blocks"])
        self._blocks.level = state["level"]
