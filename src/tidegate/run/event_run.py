"""The run of an event stream: the warm-up, then blocks of ticks.

phase 0                                     phase 1        phase 2
├─warm-up───────────┼─block─┼─block─┼─ … ──┬┼─block─┼─ … ─┬┼─block─┼─ …
 look  look    look: θ, sum       window: θ ┘    the level has moved: models in another unit
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from tidegate.estimate.mixture.event_mixture import step_of_event_unit
from tidegate.lattice import FloatArray, IntArray
from tidegate.perturb.adaptive.event_trees import STEPS, noisy_event_total
from tidegate.record.segments.journal_entry import JournalEntry, JournalTrace
from tidegate.run.event_sizes import EventSizes
from tidegate.run.event_state import EventState
from tidegate.run.event_ticks import CHOICE_SHARE, COUNT_SHARE, EVIDENCE
from tidegate.run.refinement_blocks import RefinementBlocks
from tidegate.run.selection_counts import SelectionCounts
from tidegate.run.two_sided_caps import NO_ENDS, Ends
from tidegate.stages import Layout, Noisy
from tidegate.threshold.least_threshold import least_threshold

# The unit of the models moves where the mean of a tick has left it by this many doublings.
_DOUBLINGS = 2
_CERTAIN = 2.0  # standard errors
_NEARLY = Fraction(17, 20)  # of the bound: θ is the bound from here on


class EventRun(EventState):
    """Takes events, and releases ticks when told that they are over.

    Privacy: ε for one event that is added or removed. `advance` alone releases, tick by tick, and
    its argument is public; an event changes neither when rows come out nor how many. Given the
    same earlier releases, two neighbouring logs differ in one tick. The event in it pays

    - in a block, ε or the part of it that no window has: `EventTreesRun`, and the number of events
      of its size with it: `EventSizes`;
    - in a window, a quarter or a half of ε more for the choice of θ at its end;
    - in the warm-up, θ fixed: ε for one noisy sum, with sensitivity θ;
    - in the warm-up, θ private: ε/8 for the noisy number of events of a look, with sensitivity 1;
      5ε/8 for θ; and ε/4 for the noisy sum and the numbers by size: in sequence.

    θ is chosen by `TailQuantile` from the sizes of all events of the warm-up or the window. In its
    `above` an event adds between 0 and 1 to the count of every candidate: all scores move in one
    direction, by at most 1, which is what its argument for permute-and-flip needs. All else that it
    computes with (target, price, candidates) comes from settings and from noisy numbers, never from
    how many events there were. Each look counts other ticks, so an event is counted once; whether
    there is another look is decided by the noisy numbers. When windows open follows from positions,
    and from the numbers by size: they open one where θ seems too high, and raise θ themselves.

    Unit and scatter of the models, trees and phases are functions of released sums and numbers. A
    block whose θ is too low is given up between two leaves, as `RefinementTreesRun` argues; the
    piece whose events were counted ends there.
    """

    # -- data ------------------------------------------------------------------------------------

    def advance(self, out: FloatArray, levels: FloatArray | None = None) -> None:
        """Release as many ticks as fit into `out`; fill `levels` with theirs, in units."""
        self._fill(out, levels, lambda done: self._push_piece(out[done:]), self._levels)

    def finish(self) -> None:
        """End an open warm-up with the ticks that were released: for a log that is over."""
        start, first, sizes = self.start, self.prediction, self._sizes
        if self._blocks and sizes is not None and sizes.start < self.position:
            row = self._release_sizes(sizes, self._blocks.perturber.part)
            self._note(0, start, first, JournalTrace(sizes=row))
        if self._blocks or not self.position:
            return
        self._look(last=True)
        trace, _ = self._end_warm_up(publish=False)
        self._note(0, start, first, trace)

    def _note(self, count: int, start: int, first: float, trace: JournalTrace) -> None:
        if self.log is not None:
            end = self.position
            self.log.append(JournalEntry(end - count, end, start, first, True, trace))

    def _push_piece(self, out: FloatArray) -> tuple[int, JournalTrace]:
        """Release ticks of the open warm-up or block; return their number and a journal trace."""
        start, first = self.start, self.prediction
        count, trace = self._released(out)
        self._note(count, start, first, trace)
        return count, trace

    def _released(self, out: FloatArray) -> tuple[int, JournalTrace]:
        if self._blocks is not None:
            return self._measure(self._blocks, out)
        count = min(out.size, self.due - self.position)
        self.position += count
        out[:count] = 0.0
        if self.position < self.due or not self._look(last=False):
            return count, JournalTrace()
        trace, total = self._end_warm_up(publish=True)
        out[count - 1] = total
        return count, trace

    def _measure(self, blocks: RefinementBlocks, out: FloatArray) -> tuple[int, JournalTrace]:
        segment, run = self.segments[-1], blocks.perturber
        begun = [blocks.latest] if segment.end == segment.origin else []
        tree, count = run.tree, min(out.size, run.tree.length - run.place)
        sizes, bands = self._sizes, self._bands
        if sizes is not None:
            count = min(count, sizes.left(self.position, run.position, tree.length))
            if sizes.asked:  # the block ends at the next leaf, however ticks come
                count = min(count, tree.edge(run.leaf + 1) - run.place)
        sums, values = self.events.take(self.position, self.position + count, self.cap, bands)
        if self._window is not None:
            self._window.add(np.abs(values))
        _, trace, _ = blocks.push(sums, out[:count], ())
        self.position += count
        self.total += int(trace.sums.sum())
        self.ticks += count
        if sizes is not None:
            sizes.add(values)
            if not run.room or not sizes.left(self.position, run.position, tree.length):
                trace.sizes = self._release_sizes(sizes, run.part)
        if not run.room or self._gives_up(blocks, trace):
            if not self._another_phase():
                blocks.begin()
                begun.append(blocks.latest)
            trace.predictions[-1:] = self._levels().level  # what follows the block
        trace.begun = _event_rows(begun)
        return count, trace

    def _release_sizes(self, sizes: EventSizes, part: Fraction) -> IntArray:
        """End the open piece: release how many events there were, by size."""
        # The operator may end a piece (`finish`), and go on from a state of before: never may the
        # same noise hide the numbers of other ticks, so both ends of a piece are part of its key.
        facts = {
            "share": str(part),
            "piece": f"{sizes.start - self.start} {self.position - self.start}",
        }
        keystream = self._keys.noise("sizes", self.number, Ends(self.cap), self.start, **facts)
        row = sizes.release(self.position, part, keystream, self._trees.horizon)
        self.segments[-1].sizes += (row,)
        lost = math.floor(sizes.lost(row))
        if lost and self._blocks is not None:
            self.total += lost
            self._known_follower().publish_later(lost)
        return row

    def _gives_up(self, blocks: RefinementBlocks, trace: JournalTrace) -> bool:
        """Whether the open block ends here, between two leaves, since θ must be higher."""
        sizes, run = self._sizes, blocks.perturber
        if sizes is None or not sizes.asked or not blocks.at_leaf_start:
            return False
        if sizes.start < self.position:
            trace.sizes = self._release_sizes(sizes, run.part)
        rest = run.rest(run.tree, run.leaf)
        if rest is not None:
            self._known_follower().add_rest(run.tree, rest)
        return True

    # -- the warm-up -----------------------------------------------------------------------------

    def _look(self, *, last: bool) -> bool:
        """Whether the warm-up is long enough; if θ is private, this releases a noisy number."""
        if self._rule is None:
            return True
        scale = 1 / (COUNT_SHARE * self._trees.epsilon)
        keystream = self._keys.choice(self.number, self.position, "number")
        events = self.events.values(self.looked, self.position).size
        self.counted += noisy_event_total(events, scale, keystream, self.looks)
        self.looks += 1
        error = math.sqrt(2 * self.looks) * float(scale)
        enough = self.counted - _CERTAIN * error >= EVIDENCE / float(self._trees.epsilon)
        if last or enough or self.position >= self._longest:
            return True
        self.looked, self.due = self.position, min(2 * self.position, self._longest)
        return False

    def _choose_first(self) -> int:
        """Choose θ from the sizes of the warm-up's events; their noisy number is public."""
        length, grid = self.position, self._grid
        stage = self._choice(CHOICE_SHARE, self.counted, length, length)
        sizes = np.abs(self.events.values(0, length))
        keystream = self._keys.choice(self.number, length)
        least = least_threshold(stage, grid)
        return stage.choose(sizes, grid, keystream, at_least=least, first=True)

    def _end_warm_up(self, *, publish: bool) -> tuple[JournalTrace, int]:
        """Choose θ, measure the warm-up's sum, correct the running sum, begin a block."""
        length = self.position
        if self._rule is not None:
            self.cap = self._whole_cap(self._choose_first())
            self.evidence = int(16 * CHOICE_SHARE * length)
        cap, ends = self.cap, Ends(self.cap)
        _, layout = self._trees.warm_up_layout(length, cap, 0)
        keystream = self._keys.noise("warm-up", self.number, ends, self.start, ticks=length)
        bands = self._bands
        sums, values = self.events.take(0, length, cap, bands)
        noisy = noisy_event_total(int(sums.sum()), layout.scales[0], keystream)
        self.first, self.first_sum = length, noisy
        self.total, self.ticks = noisy, length
        error = math.sqrt(layout.variances[0])
        step = step_of_event_unit((max(noisy, 0) + error) / length, cap, STEPS - 1)
        number, layout = self._trees.warm_up_layout(length, cap, step)
        follower = self._following(step)
        moved = follower.at_once(layout, noisy, published=None if publish else 0.0)
        model_weights, measured = follower.model_weights, np.array([noisy])
        if bands is not None:
            self._sizes = EventSizes(bands, self._trees.epsilon, 0)
            self._sizes.add(values)
        blocks = self._begin_phase((layout, number, model_weights, measured))
        rows = _event_rows([(self.start, length, number, model_weights), blocks.latest])
        trace = JournalTrace(measured, rows, np.array([follower.prediction]))
        if self._sizes is not None:
            trace.sizes = self.segments[-1].sizes[-1]
        if publish:
            trace.totals, trace.widths = np.array([moved]), np.array([length])
        return trace, moved

    # -- phases ----------------------------------------------------------------------------------

    def _another_phase(self) -> bool:
        """After a block: whether θ or the unit of the models changes, which begins a phase."""
        while self.ticks > self._trees.horizon:  # about the last horizon counts
            self.total, self.ticks = self.total // 2, self.ticks // 2
        window, asked = self._window, 0 if self._sizes is None else self._sizes.asked
        if window is not None and self.position == self.window_end:
            self._choose_again(window)
            self.cap = max(self.cap, asked)
        elif asked:
            if window is not None:  # its values have spent less
                window.wipe()
            self._window, self.cap = None, asked
        elif window is None and self._window_for_lower() is not None:
            pass  # a phase with a window begins
        elif abs(self._best_step - self._known_follower().step) < _DOUBLINGS:
            return False
        self._known_follower().move(self.cap, self._best_step)
        self.number, self.start = self.number + 1, self.position
        self._begin_phase()
        self.prediction = self._known_follower().prediction
        return True

    @property
    def _best_step(self) -> int:
        return step_of_event_unit(max(self.total, 0) / self.ticks, self.cap, STEPS - 1)

    def _choose_again(self, window: SelectionCounts) -> None:
        """After a window: choose another θ.

        At least level/θ events of a tick lie above 0: that many can pay for the climb of θ.
        """
        number, length = self.number + 1, self.window_end - self.window_start
        mean, doubt = self._known_follower().measured
        least = max(0.0, mean - _CERTAIN * doubt) * length / self.cap
        exceeded = 0 if self._sizes is None else self._sizes.pool.surely_exceeded()
        ends = window.chosen(
            lambda purpose: self._keys.choice(number, self.position, purpose),
            at_least=Ends(max(1, exceeded)),
            before=NO_ENDS,
            positive=min(1.0, least / self.window_events),
        )
        self.evidence = int(16 * window.share * length)
        window.wipe()
        self._window, self.cap = None, self._whole_cap(ends.above)

    def _whole_cap(self, cap: int) -> int:
        """A chosen θ; the bound if that is hardly higher: then no event is cut, or gives up a part.

        A function of θ and settings.
        """
        top = self._grid.top
        return top if self._trees.sizes and _NEARLY * top <= cap else cap

    def _begin_phase(
        self, measured: tuple[Layout, int, int, IntArray] | None = None
    ) -> RefinementBlocks:
        segment = self._new_segment(Ends(self.cap), self.start)
        if measured is not None:
            layout, number, model_weights, sums = measured
            segment.begin(layout, number, model_weights)
            segment.extend(Noisy(sums), np.zeros(1), layout.length)
        if measured is not None and self._sizes is not None:
            self._release_sizes(self._sizes, self._trees.warm_up)
        self.forget_past()
        self._open_window()
        if measured is None and self._sizes is not None and (bands := self._bands) is not None:
            self._sizes = EventSizes(bands, self._trees.epsilon, self.position, self._sizes)
        self._blocks = blocks = self._measuring()
        blocks.begin()
        return blocks


def _event_rows(begun: list[Any]) -> IntArray:
    return np.array(begun, dtype=np.int64).reshape(-1)
