"""What runs from the first value on: warm-ups and blocks, one phase for each choice of θ.

phase 0                     phase 1         phase 2
├─warm-up─┼─block─┼─block─┬─┼─block─┼─ … ─┬─┼─warm-up─┼─block─ …    its own θ, epoch and segment
                          └ window ends    └ a leaf fills its cap
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tidegate.errors import SnapshotError
from tidegate.estimate import Mixture
from tidegate.estimate.mixture.full_caps import CapWatch
from tidegate.lattice import FloatArray, IntArray
from tidegate.noise import discrete_laplace
from tidegate.perturb.adaptive.staged import StagedRun, block_length
from tidegate.randomness import Epoch, Keystream
from tidegate.record.codec import restored_segment, segment_state
from tidegate.record.entry import Piece, Trace
from tidegate.record.segment import WARMING, Segment
from tidegate.run.non_negative import Remainder
from tidegate.run.phases import Phase, forget
from tidegate.run.refinement import (
    AGAIN_SHARE,
    EARLY,
    EARLY_SHARE,
    GROWTH,
    KEEP,
    LATE_SHARE,
    UNTIL,
    Refinement,
)
from tidegate.run.warm_up import HoldOut
from tidegate.run.window_counts import WindowCounts
from tidegate.sealing import restore, state_of
from tidegate.settings import digest
from tidegate.stages import NO_SUMS, Layout

if TYPE_CHECKING:
    from tidegate.run.pipeline import Pipeline

_NONE = Fraction(0)
_Row = tuple[int, int, int, int]  # of a block that was begun: start, length, choice, opinion


class Refined:
    """Hands values to the open warm-up or block, and begins what comes next.

    The state is secret: the raw values of an open warm-up, the counts of an open window, the raw
    sum of the open leaf.
    """

    # Plain numbers, all of them public.
    STATE: ClassVar[tuple[str, ...]] = (
        "number", "position", "start", "born", "known", "closing", "floor", "level", "prediction"
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
        """Begin with a warm-up; or with a threshold, from a choice that knew so much; or go on."""
        refinement, estimator = pipeline.reselect, pipeline.estimator
        if not isinstance(refinement, Refinement) or not isinstance(estimator, Mixture):
            raise AssertionError("the pipeline was checked")
        self._pipeline, self._epoch, self._origin = pipeline, epoch, origin
        self._refinement, self._estimator = refinement, estimator
        self._trees = refinement.trees(pipeline.threshold, pipeline.perturber)
        self._remainder = Remainder() if pipeline.non_negative else None
        self._watch = CapWatch()
        self._follower = None if state is None else state["estimator"]
        self._blocks: StagedRun | None = None
        self._held: HoldOut | None = None  # the values of an open warm-up
        self._window: WindowCounts | None = None
        self.phases: list[Phase] = []
        self.segments: list[Segment] = []
        self.log: list[Piece] | None = None  # a journal wants to know what is released
        self.number = 0  # of the phase
        self.position = origin  # how many values have been released
        self.start = origin  # of the phase
        self.born = origin  # where the warm-up began that θ comes from
        self.known = known  # share × values that chose θ, in sixteenths
        self.closing = 0  # where the open window ends; 0: none is open
        self.floor = 1  # θ is never lower again in this horizon: a cap that was full
        self.level = 0.0  # expected when the open block began, in units
        self.prediction = 0.0  # what is published for a value of the open warm-up, in units
        self._first = 0.0  # what a phase without a warm-up began to publish
        if state is not None:
            self._resume(state)
        elif threshold is None:
            self._held = HoldOut(pipeline.threshold.holdout)
        else:
            self._follower = self._estimator.follow(threshold=threshold, perturber=self._trees)
            self._watch.settle(0.0, threshold)
            self._begin_phase(threshold)
            self._begin_block()

    # -- facts -----------------------------------------------------------------------------------

    @property
    def warming(self) -> int:
        """How many more values the open warm-up needs; 0: none is open."""
        return 0 if self._held is None else self._held.missing

    @property
    def threshold(self) -> int | None:
        """θ in lattice units; None while it is not chosen."""
        return None if self._held is not None else self._watch.threshold

    def reach(self, most: int) -> int:
        """How many of the next `most` values belong together."""
        room = self._blocks.room if self._held is None and self._blocks else self.warming
        return min(most, room)

    # -- data ------------------------------------------------------------------------------------

    def push(self, units: IntArray, out: FloatArray) -> None:
        """Release one piece, no longer than `reach` allows."""
        before, first = self.start, self.prediction
        self.position += units.size
        if self._held is not None:
            trace = self._warm(self._held, units, out)
        else:
            first = self._first
            trace = self._measure(units, out)
        self._note(units.size, before, first, trace)
        out *= self._pipeline.lattice.step
        if self._remainder is not None:
            self._remainder.settle(out)

    def push_one(self, unit: int) -> float:
        """Release one value, without arrays where that is possible."""
        blocks, follower = self._blocks, self._follower
        if self._held is None and self.log is None and blocks and blocks.room > 1:
            blocks.push_one(unit)
            value = follower.push_one(None) * self._pipeline.lattice.step
            self.position += 1
            self.segments[-1].end += 1
            if self._window is not None:
                self._window.add_one(unit)
            return value if self._remainder is None else self._remainder.settle_one(value)
        out = np.zeros(1)
        self.push(np.array([unit]), out)
        return out.item()

    def finish(self) -> None:
        """End an open warm-up now: choose from the values that came, and measure their sum.

        Their rows are out, so what they add up to is in the record, and in the next rows if any
        follow. That no more values are to come must be public knowledge.
        """
        if self._held is None or not self._held.units.size:
            return
        before, first = self.start, self.prediction
        trace, _ = self._end_warm_up(self._held, publish=False)
        self._note(0, before, first, trace)

    def _warm(self, held: HoldOut, units: IntArray, out: FloatArray) -> Trace:
        held.add(units)
        out[:] = prediction = self.prediction
        if self.segments and not self.segments[-1].measured:
            self.segments[-1].end = self.position
        if held.missing:
            return Trace()
        count = held.units.size
        trace, total = self._end_warm_up(held, publish=True)
        out[-1] = total - (count - 1) * prediction
        return trace

    def _measure(self, units: IntArray, out: FloatArray) -> Trace:
        """Values of the open leaf; if they complete it, decide what comes next."""
        blocks, follower, segment = self._blocks, self._follower, self.segments[-1]
        if blocks is None:
            raise AssertionError("a block is open, or a warm-up")
        begun = [self._latest()] if segment.end == segment.origin else []
        tree, leaf = blocks.open_leaf
        old, whole = follower.mean, units.size == blocks.room
        noisy = blocks.push(units)
        cells = follower.push(noisy, out)
        segment.extend(noisy.sums, cells.predictions, units.size)
        if self._window is not None:
            self._window.add(units)
        if whole and self._went_on(tree, leaf, noisy.sums.item(0), old):
            begun.append(self._latest())
            cells.predictions[-1:] = follower.prediction  # what follows the block
        rows = np.array(begun, dtype=np.int64).reshape(-1) if begun else NO_SUMS
        return Trace(noisy.sums, rows, *cells)

    def _note(self, count: int, start: int, first: float, trace: Trace) -> None:
        if self.log is not None:
            end = self.position
            self.log.append(Piece(end - count, end, start, first, True, trace))

    # -- what comes next -------------------------------------------------------------------------

    def _went_on(self, tree: Layout, leaf: int, noisy: int, old: float) -> bool:
        """A leaf is complete: whether another block begins in the same phase."""
        width = tree.edge(leaf + 1) - tree.edge(leaf)
        mean, doubt = noisy / width, math.sqrt(tree.variances[-1]) / width
        watched = self._refinement.restarts and tree.cap < self._pipeline.ceiling
        if watched and self._watch.leaf(mean, doubt, tree.cap, old, width):
            self._begin_warm_up(tree.cap)
            return False
        if leaf + 1 < tree.leaves:
            return False
        mean, doubt = self._follower.measured
        if watched and self._watch.block(mean, doubt, tree.cap, self.level, tree.length):
            self._begin_warm_up(tree.cap)
            return False
        if (self.position - self._origin) % self._trees.horizon == 0:
            self.floor = 1  # a full cap says nothing about another horizon
        if self._window is not None and self.position == self.closing:
            self._choose_again(self._window, mean + 2 * doubt)
            return False
        self._begin_block()
        return True

    def _begin_warm_up(self, full: int) -> None:
        """The stream has outgrown its cap."""
        self.floor = full
        self.number += 1
        self.start = self.position
        self.prediction = self._follower.prediction
        self._blocks, self._window, self.closing = None, None, 0
        self._held = HoldOut(self._pipeline.threshold.holdout)
        gap = Segment(
            self._pipeline.method,
            threshold=full,
            origin=self.position,
            epoch=self._stream_epoch().id.hex() + WARMING,
            prediction=self.prediction,
        )
        self.segments.append(gap)

    def _end_warm_up(self, held: HoldOut, *, publish: bool) -> tuple[Trace, int]:
        """Choose θ, measure the sum, set the running sum right; and begin a block."""
        first, values, count = self.number == 0, held.units, held.units.size
        pipeline, refinement, watch = self._pipeline, self._refinement, self._watch
        share = AGAIN_SHARE
        if first:
            share = refinement.first_share(pipeline.threshold, pipeline.perturber)
        stage = refinement.choice(pipeline.threshold, pipeline.perturber, count, share)
        lattice, keystream = pipeline.lattice, self._choosing(count)
        threshold = stage.choose(values, lattice, keystream, at_least=self.floor)
        # A level that has grown without a tail fills its cap and is not cut: the cap was right. (If
        # the choice of it knew far more than this one does.)
        spent = int(16 * share * count)
        kept = not first and self.known > 4 * spent
        if kept and threshold / stage.extrapolation <= KEEP * watch.cap:
            threshold = max(watch.threshold, watch.cap)
        else:
            self.born, self.known, kept = self.start, spent, False
        part = 1 - share
        choice, layout = self._trees.warm_up(part, count, threshold, pipeline.ceiling)
        words = self._keystream("warm-up", threshold, count=count).at()
        (scale,) = layout.scales
        noisy = int(np.minimum(values, layout.cap).sum())
        noisy += discrete_laplace(words, 1, scale).item()
        held.wipe()
        self._held = None
        if first:
            follower = self._estimator.follow(threshold=threshold, perturber=self._trees)
            self._follower = follower
        else:
            follower = self._follower
            follower.rescale(threshold)
            follower.forget_level()
            self.segments.pop()  # what stood for these values while nothing was known
        total = follower.at_once(layout, noisy, publish=publish)
        doubt = math.sqrt(layout.variances[0])
        if not first and not kept and publish:
            total += math.floor(watch.missing(noisy / count, doubt / count) + 0.5)
        watch.settle((noisy + 2 * doubt) / count, threshold)
        opinion = follower.opinion
        self._begin_phase(threshold)
        segment = self.segments[-1]
        segment.begin(layout, choice, opinion)
        segment.extend(np.array([noisy]), np.zeros(1), count)
        self._begin_block()
        rows = np.array([(self.start, count, choice, opinion), self._latest()], dtype=np.int64)
        following = np.array([follower.prediction])
        sums = np.array([noisy])
        if not publish:
            return Trace(sums, rows.reshape(-1), following), total
        totals, widths = np.array([total]), np.array([count])
        return Trace(sums, rows.reshape(-1), following, totals, widths), total

    def _choose_again(self, window: WindowCounts, level: float) -> None:
        """A window is complete: another θ, and the forecaster goes on in units of it."""
        self.number += 1
        self.start = self.position
        values = window.values
        keystream = self._choosing(values)
        counts = window.counts
        threshold = window.stage.choose_from(
            counts, self._pipeline.lattice, keystream, at_least=self.floor
        )
        self.known = int(16 * window.share * values)
        window.wipe()
        self._follower.rescale(threshold)
        self._watch.settle(level, threshold)
        self._begin_phase(threshold)
        self._begin_block()

    def _begin_phase(self, threshold: int) -> None:
        """θ is known: a segment of the record, the budget of its blocks, and perhaps a window."""
        epoch, pipeline = self._stream_epoch(), self._pipeline
        segment = Segment(
            pipeline.method, threshold=threshold, origin=self.start, epoch=epoch.id.hex()
        )
        self.segments.append(segment)
        step = pipeline.lattice.step
        self.phases.append(Phase(self.start, threshold * step, epoch.id.hex()))
        self._window, self.closing = None, 0
        if self._refinement.windows:
            self._open_window()
        self._blocks = self._measuring(threshold)
        forget(self.segments, self.phases, self.log, pipeline.kept_history)

    def _open_window(self) -> None:
        """Values from here on pay for another choice of θ, if it will know enough more."""
        horizon, at = self._trees.horizon, self.position - self._origin
        born = self.born - self._origin
        share = EARLY_SHARE if at < horizon * EARLY else LATE_SHARE
        needed = at + -(-GROWTH * self.known // int(16 * share))
        if needed > min((at // horizon + 1) * horizon, born + horizon * UNTIL):
            return
        end = at
        while end < needed:
            end += block_length(horizon, end - born, end)
        self.closing = end + self._origin
        self._window = self._counting(end - at, share)

    def _begin_block(self) -> None:
        """Let the forecaster choose, before the first value of the block is seen."""
        blocks, follower = self._blocks, self._follower
        if blocks is None:
            raise AssertionError("no phase was begun")
        options = blocks.options
        choice = follower.choose(options, first=blocks.number == 0)
        number, opinion = blocks.first_number + choice, follower.opinion
        blocks.begin(choice)
        self.segments[-1].begin(options[choice], number, opinion)
        follower.begin(options[choice])
        self.level = follower.mean
        if self.position == self.start:
            self._first = follower.prediction

    def _latest(self) -> _Row:
        block = self.segments[-1].blocks[-1]
        return block.start, block.layout.length, block.choice, block.opinion

    # -- noise -----------------------------------------------------------------------------------

    def _stream_epoch(self) -> Epoch:
        return self._epoch if self.number == 0 else self._epoch.child(self.number)

    def _choosing(self, values: int) -> Keystream:
        facts = {**self._pipeline.resolved(), "phase": self.number, "values": values}
        return self._stream_epoch().keystream("threshold", digest(facts))

    def _keystream(self, purpose: str, threshold: int, **facts: Any) -> Keystream:
        """Noise of this phase alone, for this θ and these facts."""
        law = self._pipeline.noise_identity(threshold).hex()
        identity = digest({"law": law, "start": self.start - self._origin, **facts})
        return self._stream_epoch().keystream(purpose, identity)

    def _measuring(self, threshold: int, state: dict[str, Any] | None = None) -> StagedRun:
        """The blocks of this phase."""
        share = _NONE if self._window is None else self._window.share
        return StagedRun(
            self._trees,
            threshold,
            self._pipeline.ceiling,
            self._keystream("perturb", threshold, share=str(share)),
            state,
            part=1 - share,
            born=self.born - self._origin,
            position=self.position - self._origin,
        )

    def _counting(self, values: int, share: Fraction) -> WindowCounts:
        pipeline = self._pipeline
        stage = self._refinement.choice(pipeline.threshold, pipeline.perturber, values, share)
        return WindowCounts(stage, share, pipeline.lattice)

    # -- state -----------------------------------------------------------------------------------

    def state(self, brief: bool) -> dict[str, Any]:
        """All that is needed to go on; `brief` leaves out what only queries about the past need."""
        segments = self.segments[-2:] if brief else self.segments
        window = self._window
        return {
            **state_of(self),
            "phases": [[phase.start, phase.threshold, phase.epoch] for phase in self.phases],
            "warming": self._held is not None,
            "held": NO_SUMS if self._held is None else self._held.units,
            "window": None if window is None else window.state(),
            "watch": state_of(self._watch),
            "remainder": self._remainder and state_of(self._remainder),
            "estimator": self._follower and self._follower.state(),
            "blocks": self._blocks and self._blocks.state(),
            "segments": [segment_state(segment, brief) for segment in segments],
        }

    def _resume(self, state: dict[str, Any]) -> None:
        restore(self, {name: state[name] for name in self.STATE})
        restore(self._watch, state["watch"])
        if self._remainder is not None:
            restore(self._remainder, state["remainder"])
        self.phases = [Phase(*phase) for phase in state["phases"]]
        method = self._pipeline.method
        self.segments = [restored_segment(method, item) for item in state["segments"]]
        layout = None
        if state["warming"]:
            self._held = HoldOut(self._pipeline.threshold.holdout)
            self._held.add(state["held"])
        else:
            segment = self.segments[-1]
            if segment.epoch != self._stream_epoch().id.hex():
                raise SnapshotError("its parts do not belong together")
            layout = segment.blocks[-1].layout
            if (kept := state["window"]) is not None:
                share = EARLY_SHARE if kept["early"] else LATE_SHARE
                self._window = self._counting(kept["values"], share)
                self._window.restore(kept)
            self._blocks = self._measuring(self._watch.threshold, state["blocks"])
        self._first = self.prediction  # asked only of a phase whose first block is still to come
        if state["estimator"] is not None:
            self._follower = self._estimator.follow(
                threshold=self._watch.threshold,
                perturber=self._trees,
                state=state["estimator"],
                layout=layout,
            )
            self._first = self._follower.prediction
