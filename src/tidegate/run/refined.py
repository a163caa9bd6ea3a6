"""What runs from the first value on: warm-ups and blocks, one phase for each choice of θ.

phase 0                     phase 1         phase 2
├─warm-up─┼─block─┼─block─┬─┼─block─┼─ … ─┬─┼─warm-up─┼─block─ …    its own θ, epoch and segment
                          └ window ends    └ a leaf fills its cap
"""

from __future__ import annotations

import math

import numpy as np

from tidegate.lattice import FloatArray, IntArray
from tidegate.perturb.adaptive.staged import noisy_sum
from tidegate.record.entry import JournalEntry, Trace
from tidegate.record.segment import WARMING, Segment
from tidegate.run.refined_blocks import Blocks, ReleasedLeaf, Row
from tidegate.run.refined_state import RefinedState
from tidegate.run.refinement import KEEP, least_threshold
from tidegate.run.selection_counts import SelectionCounts
from tidegate.run.warm_up import HoldOut
from tidegate.stages import NO_SUMS


class Refined(RefinedState):
    """Hands values to the open warm-up or block, and begins what comes next."""

    # -- data ------------------------------------------------------------------------------------

    def push(self, units: IntArray, out: FloatArray) -> None:
        """Release one piece, no longer than `reach` allows."""
        start, first = self.start, self.prediction
        self.position += units.size
        if self._held is not None:
            trace = self._warm(self._held, units, out)
        else:
            trace = self._measure(units, out)
        self._note(units.size, start, first, trace)
        out *= self._pipeline.lattice.step
        if self._remainder is not None:
            self._remainder.settle(out)

    def push_one(self, unit: int) -> float:
        """Release one value, without arrays where that is possible."""
        blocks = self._blocks
        if self.log is None and blocks is not None and blocks.perturber.room > 1:
            self.position += 1
            value = blocks.push_one(unit) * self._pipeline.lattice.step
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
        start, first = self.start, self.prediction
        trace, _ = self._end_warm_up(self._held, publish=False)
        self._note(0, start, first, trace)

    def _warm(self, held: HoldOut, units: IntArray, out: FloatArray) -> Trace:
        held.add(units)
        out[:] = self.prediction
        if self.segments:  # what stands for these values while nothing is known
            self.segments[-1].end = self.position
        if held.missing:
            return Trace()
        count = held.units.size
        trace, total = self._end_warm_up(held, publish=True)
        out[-1] = total - (count - 1) * self.prediction
        return trace

    def _measure(self, units: IntArray, out: FloatArray) -> Trace:
        """Values of the open leaf; if they complete it, decide what comes next."""
        blocks, segment = self._open_blocks(), self.segments[-1]
        begun = [blocks.latest] if segment.end == segment.origin else []
        trace, leaf = blocks.push(units, out)
        if leaf is not None and self._goes_on(blocks, leaf):
            blocks.begin()
            begun.append(blocks.latest)
            trace.predictions[-1:] = self._known_follower().prediction  # what follows the block
        trace.begun = _rows(begun)
        return trace

    def _note(self, count: int, start: int, first: float, trace: Trace) -> None:
        if self.log is not None:
            end = self.position
            self.log.append(JournalEntry(end - count, end, start, first, True, trace))

    # -- what comes next -------------------------------------------------------------------------

    def _goes_on(self, blocks: Blocks, leaf: ReleasedLeaf) -> bool:
        """A leaf is complete: whether another block follows in the same phase, now."""
        tree, watch = leaf.tree, self._watch
        watched = self._refinement.restarts and tree.cap < self._pipeline.ceiling
        if watched and watch.leaf(leaf.mean, leaf.doubt, tree.cap, leaf.old, leaf.width):
            self._begin_warm_up(tree.cap)
            return False
        if not leaf.last:
            return False
        mean, doubt = self._known_follower().measured
        if watched and watch.block(mean, doubt, tree.cap, blocks.level, tree.length):
            self._begin_warm_up(tree.cap)
            return False
        if (self.position - self._origin) % self._trees.horizon == 0:
            self.floor = 1  # a full cap says nothing about another horizon
        if blocks.window is not None and blocks.window.full:
            self._choose_again(blocks.window, mean + 2 * doubt)
            return False
        return True

    def _begin_warm_up(self, full: int) -> None:
        """The stream has outgrown its cap: a new phase, whose θ is still to be chosen."""
        self.floor, self.prediction = full, self._known_follower().prediction
        self.number, self.start = self.number + 1, self.position
        self._blocks, self._held = None, HoldOut(self._pipeline.warm_up)
        self.segments.append(
            Segment(
                self._pipeline.method,
                threshold=full,
                origin=self.position,
                epoch=WARMING,
                prediction=self.prediction,
            )
        )

    def _end_warm_up(self, held: HoldOut, *, publish: bool) -> tuple[Trace, int]:
        """Choose θ, measure the sum, set the running sum right; and begin a block."""
        first, values, count = self.number == 0, held.units, held.units.size
        pipeline, refinement, watch = self._pipeline, self._refinement, self._watch
        share = refinement.warm_up_share(pipeline.threshold, pipeline.perturber, first=first)
        stage = refinement.choice(pipeline.threshold, pipeline.perturber, count, share)
        floor = max(self.floor, least_threshold(stage, pipeline.lattice) if first else 1)
        keystream = self._keys.choice(self.number, count)
        threshold = stage.choose(values, pipeline.lattice, keystream, at_least=floor)
        spent = int(16 * share * count)
        # A level that has grown without a tail fills its cap and is not cut: the cap was right. (If
        # the choice of it knew far more than this one does.)
        near = not first and threshold / stage.extrapolation <= KEEP * watch.cap
        kept = near and self.known > 4 * spent
        if kept:
            threshold = max(watch.threshold, watch.cap)
        else:
            self.born, self.known = self.start, spent
        number, layout = self._trees.warm_up(1 - share, count, threshold, pipeline.ceiling)
        keystream = self._keys.noise("warm-up", self.number, threshold, self.start, values=count)
        noisy = noisy_sum(values, layout, keystream)
        held.wipe()
        self._held = None
        if first:
            self._follower = follower = self._following(threshold)
        else:
            follower = self._known_follower()
            follower.rescale(threshold)
            follower.forget_level()
            self.segments.pop()  # what stood for these values
        total = follower.at_once(layout, noisy, publish=publish)
        doubt = math.sqrt(layout.variances[0])
        if publish and not first and not kept:
            total += math.floor(watch.missing(noisy / count, doubt / count) + 0.5)
        watch.settle((noisy + 2 * doubt) / count, threshold)
        model_weights = follower.model_weights
        sums = np.array([noisy])
        blocks = self._begin_phase(threshold, measured=(layout, number, model_weights, sums))
        rows = _rows([(self.start, count, number, model_weights), blocks.latest])
        trace = Trace(sums, rows, np.array([follower.prediction]))
        if publish:
            trace.totals, trace.widths = np.array([total]), np.array([count])
        return trace, total

    def _choose_again(self, window: SelectionCounts, level: float) -> None:
        """A window is complete: another θ, and the forecaster goes on in units of it."""
        self.number, self.start = self.number + 1, self.position
        keystream = self._keys.choice(self.number, window.values)
        threshold = window.chosen(keystream, at_least=self.floor)
        self.known = int(16 * window.share * window.values)
        window.wipe()
        follower = self._known_follower()
        follower.rescale(threshold)
        self._watch.settle(level, threshold)
        self._begin_phase(threshold)
        self.prediction = follower.prediction


def _rows(begun: list[Row]) -> IntArray:
    return np.array(begun, dtype=np.int64).reshape(-1) if begun else NO_SUMS
