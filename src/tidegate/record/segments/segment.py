"""`Segment`: what was released with one threshold: leaf sums, and the layouts of the blocks."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from tidegate.lattice import FloatArray, IntArray
from tidegate.record.segments.journal_entry import JournalTrace
from tidegate.record.segments.leaf_buffers import LeafBuffer, LeafSpanBuffer
from tidegate.record.segments.segment_method import SegmentMethod
from tidegate.record.segments.unmeasured_values import UnmeasuredPosterior
from tidegate.stages import (
    NO_AIM,
    Aim,
    Block,
    Layout,
    Noisy,
    Parts,
    Posterior,
    Recorded,
)

_MOST_PENDING = 1024  # leaves that are kept in a list until a query needs them
MOST_KEPT = 4096  # ranges of a question whose answer is kept
_LEAST_CELLS = 16  # an estimator splits a block into at least this many parts
WARMING = "warming"  # in place of the epoch, for values whose warm-up is still open


class Segment:
    """The leaf sums of the last `history` values of one epoch, and their blocks.

    Position p counts released values from 0. Answers use everything that was released so far, or up
    to a given position.

    Attributes:
        method: how its values are measured and estimated.
        threshold: in lattice units, counted from the lowest value that counts.
        below: how much of it lies below 0: values counted from −`below` to `threshold` − `below`.
        origin: where the segment begins.
        epoch: the public id of its noise.
        prediction: what was published where values were withheld; None: they were measured.
        end: the position after the last released value.
        blocks: those that are kept, oldest first.
        cells: about how many steps smoothing over all of them takes.
        sizes: released numbers of events by size, a row for each piece, oldest first.
    """

    def __init__(
        self,
        method: SegmentMethod,
        *,
        threshold: int,
        origin: int,
        epoch: str,
        prediction: float | None = None,
        below: int = 0,
    ) -> None:
        self.method = method
        self.threshold, self.below = threshold, below
        self.origin, self.epoch = origin, epoch
        self.prediction = prediction
        self.end = origin
        self.blocks: deque[Block] = deque()
        self.cells = 0
        self.sizes: tuple[IntArray, ...] = ()
        # Leaves have one size, or are forgotten with their block.
        self._regular = regular = method.estimator.adds_up
        self._width = method.perturber.block if regular else 1
        most = max(2, -(-method.history // self._width) + 2) if regular else None
        self._spans = LeafSpanBuffer(origin) if method.perturber.irregular else None
        self._buffer = self._spans or LeafBuffer(block=self._width, most=most)
        # Of the last query: the posterior, and what all segments up to this one tell of each other.
        self._known: tuple[tuple[int, int, int], Posterior] | None = None
        # A table is often asked again, or its totals: the last question, and what was found.
        self.answered: tuple[Posterior, tuple[bytes, bytes, Aim], Parts] | None = None
        self.known_unseen: tuple[tuple[int | None, ...], tuple[tuple[float, ...], ...]] | None = (
            None
        )
        self.aims: tuple[tuple[int | None, ...], list[Aim]] | None = None
        self.closed_view: Segment | None = None  # once another segment follows: `RecordView`

    # -- facts -----------------------------------------------------------------------------------

    @property
    def measured(self) -> bool:
        """Whether its values were measured. False: they were withheld."""
        return self.prediction is None

    @property
    def recorded(self) -> Recorded:
        """Everything that estimators answer from, as of now."""
        how, below = self.method, (self.below, self.method.depth, self.method.grain)
        facts = how.perturber, self.threshold, how.ceiling, how.step, self.origin, self.end
        return Recorded(*facts, self.leaves, self.blocks, *below, self.sizes)

    @property
    def leaves(self) -> LeafBuffer:
        """The released sums."""
        if self._buffer.pending:
            self._buffer = self._buffer.taken_in()
        return self._buffer

    @leaves.setter
    def leaves(self, buffer: LeafBuffer) -> None:
        self._buffer = buffer

    @property
    def spans(self) -> LeafSpanBuffer | None:
        """The leaves, where the method chooses their spans; else None."""
        return self._spans

    @property
    def released(self) -> IntArray:
        """The noisy sums of the stored leaves, in lattice units."""
        return np.diff(self.leaves.columns()[0])

    @property
    def start(self) -> int:
        """The first position that can still be queried."""
        if not self.blocks:
            return self.origin
        block = self.blocks[0]
        return block.start + (self.leaves.oldest - block.first) * self._width

    @property
    def layouts(self) -> list[Layout]:
        """The layouts of the stored blocks: public."""
        return [block.layout for block in self.blocks]

    @property
    def caps(self) -> list[float]:
        """The caps of the stored values."""
        caps = {block.layout.cap for block in self.blocks} or {self.threshold}
        return [(cap - self.below) * self.method.step for cap in sorted(caps)]

    @property
    def highest_cap(self) -> int:
        """The highest upper cap of the stored values, in units."""
        return max((block.layout.cap for block in self.blocks), default=self.threshold) - self.below

    @property
    def floor(self) -> float:
        """The lower cap, in the unit of the data."""
        return -self.below * self.method.step

    @property
    def threshold_value(self) -> float:
        """The lowest upper cap of the stored blocks, in the unit of the data."""
        return self.caps[0]

    def cap_range(self, starts: IntArray, ends: IntArray) -> tuple[FloatArray, ...]:
        """The lowest and the highest cap of the values of [start, end).

        Third, the sum of the levels: that of the values, if all of them were cut.
        """
        if self._regular or not self.blocks or not self.method.bounded:  # one threshold for all
            level = np.full(starts.size, (self.threshold - self.below) * self.method.step)
            return level, level, level * (ends - starts if self.method.bounded else np.inf)
        places, step = [block.start for block in self.blocks], self.method.step
        levels = [(block.layout.cap - self.below) * step for block in self.blocks]
        starts, ends = np.maximum(starts, places[0]), np.maximum(ends, places[0])
        if len(set(levels)) == 1:
            return *np.full((2, starts.size), levels[0]), levels[0] * (ends - starts)
        begun, caps = np.array(places), np.array(levels)
        before = np.append(0.0, np.cumsum(caps[:-1] * (begun[1:] - begun[:-1])))
        first = np.searchsorted(begun, starts, side="right") - 1
        last = np.maximum(np.searchsorted(begun, ends, side="left") - 1, first)
        full = before[last] + caps[last] * (ends - begun[last])
        full -= before[first] + caps[first] * (starts - begun[first])
        # One more at the end, so that every range has a place after its last block.
        padded, edges = np.append(caps, caps[-1]), np.stack((first, last + 1), axis=1).reshape(-1)
        return *(fold.reduceat(padded, edges)[::2] for fold in (np.minimum, np.maximum)), full

    def layout(self, length: int, choice: int) -> Layout:
        """The layout of a block, by its length and the chosen option."""
        # Where budgets change from block to block, a record names the options of all of them.
        layouts = getattr(self.method.perturber, "every_layout", self.method.perturber.layouts)
        options = layouts(length, self.threshold, self.method.ceiling + self.below)
        if not 0 <= choice < len(options):
            raise ValueError("no such option for a block")
        return options[choice]

    # -- adding ----------------------------------------------------------------------------------

    def begin(
        self, layout: Layout, choice: int, model_weights: int, start: int | None = None
    ) -> None:
        """Begin a block at `start`, by default at the present end."""
        start = self.end if start is None else start
        before = self.blocks[-1] if self.blocks else None
        first = self.leaves.oldest if before is None else before.first + before.layout.leaves
        if self._spans is not None:
            first = self._spans.leaf_at(start)
        self.keep(Block(start, layout, choice, model_weights, first))
        while len(self.blocks) > 1 and self.blocks[1].start <= start - self.method.history:
            self.forget_oldest()

    def keep(self, block: Block) -> None:
        """Add a block."""
        self.blocks.append(block)
        self.cells += _segment_cells(block)

    def forget_oldest(self) -> int:
        """Drop the oldest block, unless it is open; return how many cells it had."""
        if len(self.blocks) < 2:
            return 0
        count = _segment_cells(self.blocks.popleft())
        self.cells -= count
        self.leaves.forget(self.blocks[0].first)
        start = self.blocks[0].start
        self.sizes = tuple(row for row in self.sizes if row[1] > start)
        return count

    def follow(self, trace: JournalTrace, end: int) -> None:
        """Replay a journal trace that ends at position `end`."""
        rows = trace.begun.reshape(-1, 4).tolist()
        first = 0 if self.blocks else 1  # a record begins with a block
        for start, length, choice, model_weights in rows[:first]:
            self.begin(self.layout(length, choice), choice, model_weights, start)
        self.sizes += self.method.size_rows(self.threshold, trace.sizes)
        noisy = Noisy(trace.sums, trace.widths, trace.marks)
        self.extend(noisy, trace.predictions, end - self.end)
        for start, length, choice, model_weights in rows[first:]:
            self.begin(self.layout(length, choice), choice, model_weights, start)

    def extend(self, noisy: Noisy, predictions: FloatArray, count: int) -> None:
        """Add `count` released values, which completed these leaves."""
        if noisy.sums.size:
            if self._spans is None:
                self.leaves.append(noisy.sums, predictions)
            elif noisy.spans is not None and noisy.marks is not None:
                self._spans.extend(noisy.sums, predictions, noisy.spans, noisy.marks)
        self.end += count

    def append_one(self, noisy: int, prediction: float) -> None:
        """Add one leaf to a list that is merged on demand: this avoids arrays."""
        self._buffer.append_later(noisy, prediction)
        if len(self._buffer.pending) >= _MOST_PENDING:
            _ = self.leaves

    # -- answering -------------------------------------------------------------------------------

    def part_of(self, begin: IntArray, end: IntArray) -> tuple[Any, IntArray, IntArray]:
        """The indices of the ranges that overlap the segment, and their overlaps."""
        first, last = self.start, self.end
        inside = (end > first) & (begin < last)
        (at,) = inside.nonzero()
        together = at.size and at.item(-1) - at.item(0) == at.size - 1
        # No copies where neighbours are inside, as the parts of a table are.
        here: Any = slice(at.item(0), at.item(-1) + 1) if together else inside
        return here, np.maximum(begin[here], first), np.minimum(end[here], last)

    def parts(
        self, starts: IntArray, ends: IntArray, as_of: int | None = None, aim: Aim = NO_AIM
    ) -> Parts:
        """The sums over [start, end), which must lie within [self.start, self.end].

        `as_of`: from what was released up to that position, which is not before any end.
        """
        posterior, last = self.posterior(as_of), self.answered
        question = starts.tobytes(), ends.tobytes(), aim
        if last is not None and last[0] is posterior and last[1] == question:
            return last[2]
        if aim is not NO_AIM:
            posterior.aim_at(aim)
        found = posterior.parts(starts, ends)
        self.answered = (posterior, question, found) if starts.size <= MOST_KEPT else None
        return found

    def posterior(self, as_of: int | None = None) -> Posterior:
        """The posterior of the past; cached until more is released or another `as_of` is asked."""
        until = self.end if as_of is None else min(as_of, self.end)
        facts = self.end, until, len(self.sizes)
        if self._known is None or self._known[0] != facts:
            self._known = facts, self._posterior(until)
        return self._known[1]

    def _posterior(self, until: int) -> Posterior:
        if self.prediction is not None:
            # A warm-up is begun again because values have outgrown the threshold.
            doubt = 1.0 if self.epoch == WARMING else 0.25
            return UnmeasuredPosterior(self.prediction, self.threshold, self.method.step, doubt)
        return self.method.estimator.posterior(self.recorded, until)


def _segment_cells(block: Block) -> int:
    return max(_LEAST_CELLS, block.layout.leaves)
