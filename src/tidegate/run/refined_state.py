"""What a refined release is made of: its phases, its open warm-up or blocks, and its state."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tidegate.errors import SnapshotError
from tidegate.estimate import Mixture
from tidegate.estimate.mixture.full_caps import CapWatch
from tidegate.estimate.mixture.rescaled_run import RescaledRun
from tidegate.lattice import IntArray
from tidegate.perturb.adaptive.staged import StagedRun
from tidegate.randomness import Epoch
from tidegate.record.codec import restored_segment, segment_state
from tidegate.record.entry import JournalEntry
from tidegate.record.segment import Segment
from tidegate.run.non_negative import Remainder
from tidegate.run.phases import Phase, forget
from tidegate.run.refined_blocks import Blocks
from tidegate.run.refined_keys import PhaseKeys
from tidegate.run.refinement import Refinement
from tidegate.run.selection_counts import SelectionCounts
from tidegate.run.warm_up import HoldOut
from tidegate.sealing import restore, state_of
from tidegate.stages import Layout, Noisy

if TYPE_CHECKING:
    from tidegate.run.pipeline import Pipeline


class RefinedState:
    """The parts of a refined release (`tidegate.run.refined.Refined` says what happens when).

    The state is secret: the raw values of an open warm-up, the counts of an open window, the raw
    sum of the open leaf.
    """

    # Plain numbers, all of them public.
    STATE: ClassVar[tuple[str, ...]] = (
        "number", "position", "start", "born", "known", "floor", "prediction"
    )  # fmt: skip

    def __init__(
        self,
        pipeline: Pipeline,
        epoch: Epoch,
        origin: int,
        *,
        threshold: int | None = None,
        known: int = 0,
        state: dict[str, Any] | None = None,
    ) -> None:
        """Begin with a warm-up; or with a threshold, whose choice knew so much; or go on."""
        refinement, estimator = pipeline.reselect, pipeline.estimator
        if not isinstance(refinement, Refinement) or not isinstance(estimator, Mixture):
            raise AssertionError("the pipeline was checked")
        self._pipeline, self._origin = pipeline, origin
        self._refinement, self._estimator = refinement, estimator
        self._trees = refinement.trees(pipeline.threshold, pipeline.perturber)
        self._keys = PhaseKeys(pipeline, epoch, origin)
        self._remainder = Remainder() if pipeline.non_negative else None
        self._watch = CapWatch()
        self._follower: RescaledRun | None = None
        self._blocks: Blocks | None = None
        self._held: HoldOut | None = None  # the values of an open warm-up
        self.phases: list[Phase] = []
        self.segments: list[Segment] = []
        self.log: list[JournalEntry] | None = None  # a journal wants to know what is released
        self.number = 0  # of the phase
        self.position = origin  # how many values have been released
        self.start = origin  # of the phase
        self.born = origin  # where the warm-up began that θ comes from
        self.known = known  # share × values that chose θ, in sixteenths
        self.floor = 1  # θ is never lower again in this horizon: a cap that was full
        self.prediction = 0.0  # what the phase began to publish, in units
        if state is not None:
            self._resume(state)
        elif threshold is None:
            self._held = HoldOut(pipeline.warm_up)
        else:
            self._follower = self._following(threshold)
            self._watch.settle(0.0, threshold)
            self._begin_phase(threshold)
            self.prediction = self._follower.prediction

    # -- facts -----------------------------------------------------------------------------------

    @property
    def warming(self) -> int:
        """How many more values the open warm-up needs; 0: none is open."""
        return 0 if self._held is None else self._held.missing

    @property
    def threshold(self) -> int | None:
        """θ in lattice units; None while it is not chosen."""
        return None if self._blocks is None else self._watch.threshold

    def reach(self, most: int) -> int:
        """How many of the next `most` values belong together."""
        room = self.warming if self._blocks is None else self._blocks.perturber.room
        return min(most, room)

    def _begin_phase(
        self, threshold: int, measured: tuple[Layout, int, int, IntArray] | None = None
    ) -> Blocks:
        """θ is known: a segment of the record, beginning with a warm-up if there was one."""
        pipeline, epoch = self._pipeline, self._keys.epoch(self.number).id.hex()
        segment = Segment(pipeline.method, threshold=threshold, origin=self.start, epoch=epoch)
        if measured is not None:
            layout, number, model_weights, sums = measured
            segment.begin(layout, number, model_weights)
            segment.extend(Noisy(sums), np.zeros(1), layout.length)
        self.segments.append(segment)
        self.phases.append(Phase(self.start, threshold * pipeline.lattice.step, epoch))
        forget(self.segments, self.phases, self.log, pipeline.kept_history)
        at, born = self.position - self._origin, self.born - self._origin
        due = self._refinement.window(self._trees.horizon, at=at, born=born, known=self.known)
        window = None if due is None else self._window(*due)
        self._blocks = blocks = self._measuring(threshold, window)
        blocks.begin()
        return blocks

    # -- parts -----------------------------------------------------------------------------------

    def _following(self, threshold: int, **state: Any) -> RescaledRun:
        return self._estimator.follow(threshold=threshold, perturber=self._trees, **state)

    def _window(self, values: int, share: Fraction) -> SelectionCounts:
        pipeline = self._pipeline
        stage = self._refinement.choice(pipeline.threshold, pipeline.perturber, values, share)
        return SelectionCounts(stage, share, pipeline.lattice)

    def _measuring(
        self, threshold: int, window: SelectionCounts | None, state: dict[str, Any] | None = None
    ) -> Blocks:
        share = Fraction(0) if window is None else window.share
        run = StagedRun(
            self._trees,
            threshold,
            self._pipeline.ceiling,
            self._keys.noise("perturb", self.number, threshold, self.start, share=str(share)),
            state,
            part=1 - share,
            born=self.born - self._origin,
            position=self.position - self._origin,
        )
        return Blocks(run, self._known_follower(), self.segments[-1], window)

    def _open_blocks(self) -> Blocks:
        if self._blocks is None:
            raise AssertionError("a warm-up is open")
        return self._blocks

    def _known_follower(self) -> RescaledRun:
        if self._follower is None:
            raise AssertionError("nothing was measured yet")
        return self._follower

    # -- state -----------------------------------------------------------------------------------

    def state(self, brief: bool) -> dict[str, Any]:
        """All that is needed to go on; `brief` leaves out what only queries about the past need."""
        segments = self.segments[-2:] if brief else self.segments
        blocks = self._blocks
        return {
            **state_of(self),
            "phases": [[phase.start, phase.threshold, phase.epoch] for phase in self.phases],
            "held": None if self._held is None else self._held.units,
            "window": blocks and blocks.window and blocks.window.state(),
            "watch": state_of(self._watch),
            "remainder": self._remainder and state_of(self._remainder),
            "estimator": self._follower and self._follower.state(),
            "level": 0.0 if blocks is None else blocks.level,
            "blocks": blocks and blocks.perturber.state(),
            "segments": [segment_state(segment, brief) for segment in segments],
        }

    def _resume(self, state: dict[str, Any]) -> None:
        restore(self, {name: state[name] for name in self.STATE})
        restore(self._watch, state["watch"])
        if self._remainder is not None:
            restore(self._remainder, state["remainder"])
        self.phases = [Phase(*phase) for phase in state["phases"]]
        method, theta = self._pipeline.method, self._watch.threshold
        self.segments = [restored_segment(method, item) for item in state["segments"]]
        layout, warming = None, state["held"] is not None
        if warming:
            self._held = HoldOut(self._pipeline.warm_up)
            self._held.add(state["held"])
        else:
            layout = self.segments[-1].blocks[-1].layout
        if state["estimator"] is not None:
            self._follower = self._following(theta, state=state["estimator"], layout=layout)
        if warming:
            return
        if self.segments[-1].epoch != self._keys.epoch(self.number).id.hex():
            raise SnapshotError("its parts do not belong together")
        window = None
        if (counted := state["window"]) is not None:
            window = self._window(counted["values"], SelectionCounts.share_of(counted))
            window.restore(counted)
        self._blocks = self._measuring(theta, window, state["blocks"])
        self._blocks.level = state["level"]
