"""The run of a release without a hold-out: warm-ups and blocks, one phase per choice of θ.

phase 0                     phase 1         phase 2
├─warm-up─┼─block─┼─block─┬─┼─block─┼─ … ─┬─┼─warm-up─┼─block─ …    its own θ, epoch and segment
                          └ window ends    └ a leaf fills its cap
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from tidegate.estimate.mixture.outgrown_cap import WatchedEnd
from tidegate.lattice import FloatArray, IntArray
from tidegate.perturb.adaptive.refinement_trees import noisy_sum
from tidegate.record.segments.journal_entry import JournalEntry, JournalTrace
from tidegate.record.segments.segment import WARMING, Segment
from tidegate.run.first_choice_and_climbs import CLIMBING
from tidegate.run.hold_out import HoldOut
from tidegate.run.refinement_blocks import RefinementBlocks, Row
from tidegate.run.refinement_looks import RefinementLooks
from tidegate.run.refinement_schedule import ALIKE, KEEP, LIKELY
from tidegate.run.selection_counts import SelectionCounts
from tidegate.run.two_sided_caps import Ends, outside_caps, raised_values, shaped_caps
from tidegate.stages import NO_SUMS, Layout, late_from
from tidegate.stages.late_looks import is_look
from tidegate.threshold.least_threshold import least_threshold


class RefinementRun(RefinementLooks):
    """Passes values to the open warm-up or block, and begins what follows."""

    # -- data ------------------------------------------------------------------------------------

    def push(self, units: IntArray, out: FloatArray, levels: FloatArray | None = None) -> None:
        """Release these values into `out`; fill `levels` with theirs, in units."""
        push = self._push_piece
        self._fill(out, levels, lambda done: push(units[done:], out[done:]), self._levels)

    def _push_piece(self, units: IntArray, out: FloatArray) -> tuple[int, JournalTrace]:
        """Push values of the open warm-up or block; return their number and a journal trace."""
        start, first = self.start, self.prediction
        if self._held is not None:
            count = min(units.size, self._held.missing)
            self.position += count
            trace = self._warm(self._held, units[:count], out[:count])
        else:
            count, trace = self._measure(units, out)
        self._note(count, start, first, trace)
        return count, trace

    def push_units(self, units: IntArray, out: FloatArray) -> None:
        """Release values; the published values stay in units."""
        done = 0
        while done < units.size:
            done += self._push_piece(units[done:], out[done:])[0]

    def push_one(self, unit: int) -> float:
        """Release one value, without arrays where that is possible."""
        blocks, held, value = self._blocks, self._held, None
        if (
            self.log is None
            and blocks is not None
            and (blocks.perturber.room > 1 or self._only_ends_leaf(blocks, unit))
        ):
            self.position += 1
            value = blocks.push_one(unit) * self._step
        elif self.log is None and held is not None and held.missing > 1:
            self.position += 1
            held.add_one(unit)
            if self.segments:  # what stands for these values while nothing is known
                self.segments[-1].end = self.position
            value = self.prediction * self._step
        if value is not None:
            return value if self._remainder is None else self._remainder.settle_one(value)
        out = np.zeros(1)
        self.push(np.array([unit]), out)
        return out.item()

    def _only_ends_leaf(self, blocks: RefinementBlocks, unit: int) -> bool:
        """Whether this value ends a leaf inside a block, and nothing else happens."""
        tree, leaf = blocks.perturber.tree, blocks.perturber.leaf
        if leaf + 1 == tree.leaves:
            return False
        sums = [blocks.next_sum(unit)]
        return all(end.first_full(tree, leaf, sums) is None for end in self._watched(tree))

    def finish(self) -> None:
        """End an open warm-up now: choose θ from the values so far, and measure their sum.

        Their rows are out, so what they add up to is in the record, and in the next rows if any
        follow. That no more values are to come must be public knowledge.
        """
        if self._held is None or not self._held.units.size:
            return
        start, first = self.start, self.prediction
        trace, _ = self._end_warm_up(self._held, publish=False)
        self._note(0, start, first, trace)

    def _warm(self, held: HoldOut, units: IntArray, out: FloatArray) -> JournalTrace:
        held.add(units)
        out[:] = self.prediction
        if self.segments:  # what stands for these values while nothing is known
            self.segments[-1].end = self.position
        if held.missing:
            return JournalTrace()
        count, (trace, total) = held.units.size, self._end_warm_up(held, publish=True)
        out[-1] = total - (count - 1) * self.prediction
        return trace

    def _measure(self, units: IntArray, out: FloatArray) -> tuple[int, JournalTrace]:
        """Measure values of the open block; at its end or a full cap, decide what follows."""
        blocks, segment = self.open_blocks, self.segments[-1]
        begun = [blocks.latest] if segment.end == segment.origin else []
        tree = blocks.perturber.tree
        watched = self._watched(tree)
        count, trace, outgrown = blocks.push(units, out, watched)
        self.position += count
        ended = outgrown is not None or not blocks.perturber.room
        if outgrown is not None:
            self._begin_warm_up(tree.cap, outgrown)
        elif ended and self._goes_on(blocks, tree, watched):
            blocks = self.open_blocks  # others, where a look has ended
            blocks.begin()
            begun.append(blocks.latest)
        if ended:
            trace.predictions[-1:] = self.level  # what follows the block
        trace.begun = _refinement_rows(begun)
        return count, trace

    def _note(self, count: int, start: int, first: float, trace: JournalTrace) -> None:
        if self.log is not None:
            end = self.position
            self.log.append(JournalEntry(end - count, end, start, first, True, trace))

    # -- what comes next -------------------------------------------------------------------------

    def _watched(self, tree: Layout) -> list[WatchedEnd]:
        """The caps that values can outgrow: those within the public bounds."""
        below, lattice = self.segments[-1].below, self._pipeline.lattice
        ends = ((self._watch, tree.cap - below, 1), (self._floor_watch, below, -1))
        room = tree.cap - below < lattice.top, below < lattice.bottom
        restarts = self._refinement.restarts
        return [WatchedEnd(*end) for end, some in zip(ends, room, strict=True) if restarts and some]

    def _goes_on(self, blocks: RefinementBlocks, tree: Layout, watched: list[WatchedEnd]) -> bool:
        """After a block: whether the next block belongs to the same phase."""
        mean, doubt = self._known_follower().measured
        if self.evidence == CLIMBING:
            return not self._climbs(mean, doubt, tree.length)
        for end in watched:
            if end.block(mean, doubt, blocks.level, tree.length):
                self._begin_warm_up(tree.cap, end)
                return False
        if (self.position - self._origin) % self._trees.horizon == 0:
            self.floor = self.least_below = 1  # a full cap says nothing about another horizon
            self._watch.highest = 0
        window = blocks.window
        if window is not None and window.full:
            if is_look(window.share):
                return not self._look_finds(window)
            self._choose_again(window, mean, doubt)
            return False
        chooses = window is not None and not is_look(window.share)
        return chooses or not self._opens_window(mean, doubt)

    def _begin_warm_up(self, full: int, outgrown: WatchedEnd) -> None:
        """A cap was outgrown: begin a phase whose caps are still to be chosen.

        Neither cap becomes narrower: a level that crossed one often comes back.
        """
        self.open_blocks.give_up()
        below, self.fell = self.segments[-1].below, int(outgrown.sign < 0)
        self.floor, self.least_below = full - below, max(below, 1)
        self.prediction = self._known_follower().prediction
        self.number, self.start = self.number + 1, self.position
        self._blocks, self._held = None, self._warm_up()
        self.segments.append(
            Segment(
                self._pipeline.method,
                threshold=full,
                below=below,
                origin=self.position,
                epoch=WARMING,
                prediction=self.prediction,
            )
        )

    def _end_warm_up(self, held: HoldOut, *, publish: bool) -> tuple[JournalTrace, int]:
        """Choose both caps, measure the warm-up's sum, correct the running sum, begin a block."""
        first, values, count = self.number == 0, held.units, held.units.size
        pipeline, refinement = self._pipeline, self._refinement
        share = refinement.warm_up_share(pipeline.threshold, pipeline.perturber, first=first)
        ends, kept = self._chosen(values, share)
        if not kept:
            self.warm_up_start, self.evidence = self.start, int(16 * share * count)
        widest = pipeline.ceiling + ends.below
        number, layout = self._trees.warm_up(1 - share, count, ends.width, widest)
        keystream = self._keys.noise("warm-up", self.number, ends, self.start, values=count)
        # Counted from the lower end next to the noise, from 0 again once it is released.
        noisy = noisy_sum(raised_values(values, ends.below), layout, keystream) - count * ends.below
        held.wipe()
        self._held = None
        if first:
            self._follower = follower = self._following(ends)
        else:
            follower = self._known_follower()
            follower.rescale(ends.width, ends.below)
            follower.forget_level(fell=bool(self.fell))
            if not self.fell:
                self.floor = max(self.floor, self._watch.least_after(ends.above))
            self.segments.pop()  # what stood for these values
        out = None if publish else count * self.prediction  # rows that are out
        total = follower.at_once(layout, noisy, forecast=self.prediction, published=out)
        doubt = math.sqrt(layout.variances[0])
        if publish and not first and not kept:
            total += self._hidden(noisy / count, doubt / count)
        self._settle(ends, (noisy - 2 * doubt) / count, (noisy + 2 * doubt) / count)
        model_weights = follower.model_weights
        sums = np.array([noisy])
        blocks = self._begin_phase(ends, measured=(layout, number, model_weights, sums))
        rows = _refinement_rows([(self.start, count, number, model_weights), blocks.latest])
        trace = JournalTrace(sums, rows, np.array([follower.prediction]))
        if publish:
            trace.totals, trace.widths = np.array([total]), np.array([count])
        return trace, total

    def _chosen(self, values: IntArray, share: Fraction) -> tuple[Ends, bool]:
        """Choose both caps from the values of a warm-up; also whether the old caps stay.

        A level that has grown without a tail fills its cap and is not cut: the cap was right. (If
        the choice of it knew far more than this one does, and of a level that was not far lower.)
        """
        first, count, lattice = self.number == 0, values.size, self._pipeline.lattice
        stage, shape = self._choice(count, share, age=count)
        keystream = self._keys.choice(self.number, count)
        at_least = Ends(self.floor, self.least_below if self._signed else 0)
        grid = lattice.scale if self._signed else lattice
        least = max(*at_least, least_threshold(stage, grid) if first else 1)
        sizes = np.abs(values) if self._signed else values
        # A cap was full: about half of the values, or more, lay near it.
        crowd = None if first or self._signed else count // 2
        above = stage.choose(
            sizes,
            grid,
            keystream,
            at_least=least,
            positive=crowd,
            climbing_from=1 if crowd is None else least,
            first=first,
        )
        ends = Ends(above)
        if self._signed:
            keystream = self._keys.choice(self.number, count, "shape")
            cut = outside_caps(values, [ends.above])[0]
            ends = shaped_caps(ends.above, cut, shape, lattice, keystream, stage.wanted)
            ends = ends.at_least(at_least)
        watch, outgrown = self._watch, ends.above
        if self.fell:
            watch, outgrown = self._floor_watch, ends.below
        near = not first and outgrown / stage.extrapolation <= KEEP * watch.cap
        alike = self._signed or watch.mean <= ALIKE * watch.home * watch.threshold
        kept = near and alike and self.evidence > 4 * int(16 * share * count)
        watch.judge(right=kept)
        if not kept:
            return ends, False
        old = self._latest_ends
        if self.fell:
            return old, True
        return Ends(max(old.above, watch.cap), old.below), True

    def _choose_again(self, window: SelectionCounts, level: float, doubt: float) -> None:
        """After a window: choose other caps; the estimator continues in their units."""
        self.number, self.start = self.number + 1, self.position
        number, values = self.number, window.values
        fallen, surely = self._fallen, level - 2 * doubt
        if fallen > 1:  # there is little to lose, and all blocks know more than the last one
            surely = max(surely, LIKELY * self._known_follower().mean)
        ends = window.chosen(
            lambda purpose: self._keys.choice(number, values, purpose),
            at_least=Ends(self.floor, self.least_below),
            before=self._latest_ends,
            positive=self._positive(surely),
            fallen=fallen > 0 and self.floor == 1,
            level=max(0.0, surely),
            late=self.position > late_from(self._trees.horizon),
        )
        self.evidence = int(16 * window.share * window.values)
        window.wipe()
        follower = self._known_follower()
        follower.rescale(ends.width, ends.below)
        self._settle(ends, level - 2 * doubt, level + 2 * doubt)
        self._begin_phase(ends)
        self.prediction = follower.prediction


def _refinement_rows(begun: list[Row]) -> IntArray:
    return np.array(begun, dtype=np.int64).reshape(-1) if begun else NO_SUMS
