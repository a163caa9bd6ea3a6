"""The state of a release without a hold-out: phases, open warm-up or blocks, snapshot."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tidegate.estimate import Mixture
from tidegate.estimate.mixture.outgrown_cap import CapWatch, FloorWatch
from tidegate.estimate.mixture.rescaled_run import RescaledRun
from tidegate.lattice import IntArray
from tidegate.perturb.adaptive.refinement_trees import RefinementTrees, RefinementTreesRun
from tidegate.record.rows_and_levels import Levels
from tidegate.record.segments.segment import Segment
from tidegate.run.first_choice_and_climbs import (
    CLIMBING,
    chose_first,
    refinement_climbs_from,
)
from tidegate.run.hold_out import HoldOut
from tidegate.run.phased_run import Phase, PhasedRun, PhaseKeys
from tidegate.run.refinement_blocks import RefinementBlocks
from tidegate.run.refinement_schedule import Refinement
from tidegate.run.selection_counts import SelectionCounts, stage_of_selection
from tidegate.run.two_sided_caps import LONGER, Ends
from tidegate.run.warm_up_length import later_length
from tidegate.stages import Layout, Noisy, Saved
from tidegate.stages.late_looks import room_far_above
from tidegate.state_as_bytes import restore, state_of
from tidegate.threshold import TailQuantile
from tidegate.threshold.least_threshold import how_fallen_threshold

if TYPE_CHECKING:
    pass

Past = tuple[list[Phase], list[Segment]]


class RefinementState(PhasedRun):
    """The parts of a refined release (`refinement_run` says what happens when).

    The state is secret: the raw values of an open warm-up, the counts of an open window, the raw
    sum of the open leaf.
    """

    # Plain numbers, all of them public.
    STATE: ClassVar[tuple[str, ...]] = (
        "number", "position", "start", "warm_up_start", "evidence", "floor", "prediction"
    )  # fmt: skip
    SIGNED: ClassVar[tuple[str, ...]] = ("least_below", "fell")  # where values below 0 count

    def __init__(
        self,
        keys: PhaseKeys,
        *,
        ends: Ends | None = None,
        evidence: int = 0,
        state: dict[str, Any] | None = None,
        past: Past | None = None,
    ) -> None:
        """Begin with a warm-up, begin with given caps, or continue from `state`.

        `past` is that of a `progress`, which has none.
        """
        super().__init__(keys)
        pipeline, origin = keys.pipeline, keys.origin
        refinement, estimator = pipeline.reselect, pipeline.estimator
        trees = pipeline.measurer
        if not (
            isinstance(refinement, Refinement)
            and isinstance(estimator, Mixture)
            and isinstance(trees, RefinementTrees)
        ):
            raise AssertionError("the pipeline was checked")
        self._step, self._signed = pipeline.lattice.step, pipeline.lattice.bottom > 0
        self._refinement, self._estimator = refinement, estimator
        self._trees = trees
        self._watch, self._floor_watch = CapWatch(), FloorWatch()
        self._follower: RescaledRun | None = None
        self._blocks: RefinementBlocks | None = None
        self._held: HoldOut | None = None  # the values of an open warm-up
        self.position = origin  # how many values have been released
        self.start = origin  # of the phase
        self.warm_up_start = origin  # where the warm-up that chose θ began
        self.evidence = evidence  # (share of ε) × (values) of the choice of θ, in sixteenths
        self.floor = 1  # the least θ for the rest of the horizon: a cap that was full
        self.least_below = 1  # the same for the lower cap
        self.fell = 0  # 1: the open warm-up began because values fell below the lower end
        self.prediction = 0.0  # what the phase began to publish, in units
        if state is not None:
            self._resume(state, past)
        elif ends is None:
            self._held = self._warm_up()
        else:
            self._follower = self._following(ends)
            self._settle(ends, 0.0, 0.0)
            self._begin_phase(ends)
            self.prediction = self._follower.prediction

    # -- facts -----------------------------------------------------------------------------------

    @property
    def warming(self) -> int:
        """How many more values the open warm-up needs; 0: none is open."""
        return 0 if self._held is None else self._held.missing

    @property
    def ends(self) -> Ends | None:
        """Both caps, in lattice units; None before they are chosen."""
        return None if self._blocks is None else self._latest_ends

    @property
    def _latest_ends(self) -> Ends:
        return Ends(self._watch.threshold, self._floor_watch.threshold if self._signed else 0)

    @property
    def _fallen(self) -> int:
        """`how_fallen_threshold`; 0 where values below 0 hide their number."""
        if self._signed:
            return 0
        known = Fraction(self.evidence, 16) * self._trees.epsilon
        watch, lattice = self._watch, self._pipeline.lattice
        first = chose_first(self._pipeline, self.evidence, self.warm_up_start - self._origin)
        places = watch.threshold // lattice.grain, lattice.grains
        return how_fallen_threshold(watch.home, *places, known, first=first)

    def _climbs_from(self, theta: int) -> bool:
        """Whether a fallen θ is so low that released sums raise it, without a window.

        Once: where a climb has ended, θ has a floor.
        """
        low = self._refinement.windows and refinement_climbs_from(self._pipeline.lattice, theta)
        return low and self.evidence > 0 and self.floor == 1 and self._fallen > 0

    def _settle(self, ends: Ends, lowest: float, highest: float) -> None:
        """Note the levels between which both caps were chosen, in units."""
        self._watch.settle(highest, ends.above)
        if self._signed:
            self._floor_watch.settle(-lowest, ends.below)

    @property
    def level(self) -> float:
        """The expected value of one more row, in lattice units, for display."""
        return self._known_follower().prediction if self._held is None else self.prediction

    def _levels(self) -> Levels:
        """The object that computes the levels of later values."""
        method = self._pipeline.method
        if self._held is not None:
            return Levels(method, None, self.prediction, self._held.units.size)
        follower = self._known_follower()
        return Levels(method, None, follower.prediction, follower.filled)

    def _begin_phase(
        self,
        ends: Ends,
        measured: tuple[Layout, int, int, IntArray] | None = None,
        due: tuple[int, Fraction] | None = None,  # a window that the schedule does not have
    ) -> RefinementBlocks:
        """Begin a record segment with the chosen θ, and with the warm-up if there was one."""
        segment = self._new_segment(ends, self.start)
        if measured is not None:
            layout, number, model_weights, sums = measured
            segment.begin(layout, number, model_weights)
            segment.extend(Noisy(sums), np.zeros(1), layout.length)
        self.forget_past()
        if due is None and self._climbs_from(ends.above):
            self.evidence, self._watch.old, self._watch.length = CLIMBING, 0.0, 0
        at, begun = self.position - self._origin, self.warm_up_start - self._origin
        due = due or self._refinement.window(
            self._trees.horizon,
            at=at,
            first=self._pipeline.warm_up,
            warm_up_start=begun,
            evidence=self.evidence,
            fallen=self._fallen,
        )
        high = room_far_above(ends.above, self._pipeline.lattice.top)
        if due is None and self.evidence > 0 and high and not self._fallen:
            due = self._refinement.look(self._trees, at, begun)
        window = None if due is None else self._window(*due, opened=self.position)
        self._blocks = blocks = self._measuring(ends, window)
        blocks.begin()
        return blocks

    # -- parts -----------------------------------------------------------------------------------

    def _following(self, ends: Ends, saved: Saved | None = None) -> RescaledRun:
        return self._estimator.follow(
            threshold=ends.width, below=ends.below, perturber=self._trees, saved=saved
        )

    def _choice(self, values: int, share: Fraction, *, age: int) -> tuple[TailQuantile, Fraction]:
        """The stage that chooses θ, or the scale of both caps; and the budget of their shape."""
        return stage_of_selection(self._pipeline, self._refinement, values, share, age=age)

    def _warm_up(self) -> HoldOut:
        """The hold-out of the warm-up that begins the present phase."""
        if self.number == 0:
            return HoldOut(self._pipeline.warm_up)
        at = self.start - self._origin
        length = later_length(self._trees.epsilon, self._trees.horizon, at=at)
        return HoldOut(math.ceil(length * LONGER) if self._signed else length)

    def _window(self, values: int, share: Fraction, *, opened: int) -> SelectionCounts:
        stage, shape = self._choice(values, share, age=opened + values - self.warm_up_start)
        return SelectionCounts(stage, share, self._pipeline.lattice, shape)

    def _measuring(
        self, ends: Ends, window: SelectionCounts | None, state: dict[str, Any] | None = None
    ) -> RefinementBlocks:
        share = Fraction(0) if window is None else window.share
        run = RefinementTreesRun(
            self._trees,
            ends.width,
            self._pipeline.ceiling + ends.below,
            self._keys.noise("perturb", self.number, ends, self.start, share=str(share)),
            state,
            part=1 - share,
            warm_up_start=self.warm_up_start - self._origin,
            position=self.position - self._origin,
        )
        follower, segment = self._known_follower(), self.segments[-1]
        return RefinementBlocks(run, follower, segment, window, signed=self._signed)

    @property
    def open_blocks(self) -> RefinementBlocks:
        """The blocks of the present phase."""
        if self._blocks is None:
            raise AssertionError("a warm-up is open")
        return self._blocks

    def _known_follower(self) -> RescaledRun:
        if self._follower is None:
            raise AssertionError("nothing was measured yet")
        return self._follower

    # -- state -----------------------------------------------------------------------------------

    def state(self, brief: bool) -> dict[str, Any]:
        """The state to resume from; `brief` omits what only queries about the past need."""
        return {**self._kept(brief), **self.progress()}

    def progress(self) -> dict[str, Any]:
        """The state without the past, for `state` of a run that is given phases and segments."""
        blocks = self._blocks
        return {
            **state_of(self),
            **({"signed": self._signed_state()} if self._signed else {}),
            "held": None if self._held is None else self._held.units,
            "window": blocks and blocks.window and blocks.window.state(),
            "watch": state_of(self._watch),
            "estimator": self._follower and self._follower.state(),
            "level": 0.0 if blocks is None else blocks.level,
            "blocks": blocks and blocks.perturber.state(),
        }

    def _signed_state(self) -> dict[str, Any]:
        facts = {name: getattr(self, name) for name in self.SIGNED}
        return {**facts, "watch": state_of(self._floor_watch)}

    def _resume(self, state: dict[str, Any], past: Past | None) -> None:
        restore(self, {name: state[name] for name in self.STATE})
        restore(self._watch, {"highest": 0, **state["watch"]})  # states before 0135 have none
        if self._signed:
            self.least_below, self.fell = (state["signed"][name] for name in self.SIGNED)
            restore(self._floor_watch, state["signed"]["watch"])
        if past is None:
            self._restore_kept(state)
        else:
            self.phases, self.segments = past
        ends = self._latest_ends
        layout, warming = None, state["held"] is not None
        if warming:
            self._held = self._warm_up()
            self._held.add(state["held"])
        else:
            layout = self.segments[-1].blocks[-1].layout
        if state["estimator"] is not None:
            self._follower = self._following(ends, Saved(state["estimator"], layout))
        if warming:
            return
        self._check_epoch(self.segments[-1])
        window = None
        if (counted := state["window"]) is not None:
            share, opened = SelectionCounts.share_of(counted), self.position - counted["taken"]
            window = self._window(counted["values"], share, opened=opened)
            window.restore(counted)
        self._blocks = self._measuring(ends, window, state["blocks"])
        self._blocks.level = state["level"]
