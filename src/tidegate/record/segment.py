"""What was released with one threshold: leaf sums, and how the blocks were measured."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from tidegate.errors import QueryError
from tidegate.lattice import FloatArray, IntArray
from tidegate.record.ring_buffer import Rings
from tidegate.stages import Block, Estimator, Layout, Parts, Perturber, Posterior

_MOST_PENDING = 1024  # leaves that wait for someone to ask
_LEAST_CELLS = 16  # an estimator looks at a block in at least so many parts
WARMING = "warming"  # in place of the epoch, for values whose warm-up is still open
_NOT_ONE = "these are not two records of one release, without a gap between them"


@dataclass(frozen=True)
class Method:
    """How the values of a pipeline are measured and estimated: what a record must know."""

    perturber: Perturber
    estimator: Estimator
    ceiling: int  # the largest threshold, in lattice units
    step: float  # one lattice unit, in the unit of the data
    history: int  # how many values are kept


class _Unmeasured:
    """Values that chose a threshold instead of being measured: a prediction was published."""

    def __init__(self, prediction: float, threshold: int, step: float, doubt: float) -> None:
        self._prediction, self._threshold, self._step = prediction, threshold, step
        self._doubt = doubt

    def parts(self, starts: IntArray, ends: IntArray) -> Parts:
        """Nothing was measured here: the error may be a share of the threshold for each value."""
        lengths: FloatArray = (ends - starts).astype(np.float64) * self._step
        error = np.square(lengths * self._threshold * self._doubt)
        return Parts(lengths * self._prediction, np.zeros(starts.size), error, largest_variance=0.0)


class Segment:
    """The leaf sums of the last `history` values of one epoch, and the blocks they belong to.

    Position p counts released values from 0. Answers about the past use everything that was
    released up to now, or up to a given position.

    Attributes:
        threshold: in lattice units.
        origin: where the segment begins.
        epoch: whose noise this is.
        prediction: what was published of a stretch that was not measured; None: it was measured.
        end: the position after the last released value.
        blocks: those that are kept, oldest first.
        cells: about how many steps it takes to look back over all of them.
    """

    def __init__(
        self,
        method: Method,
        *,
        threshold: int,
        origin: int,
        epoch: str,
        prediction: float | None = None,
    ) -> None:
        self._method = method
        self.threshold = threshold
        self.origin = origin
        self.epoch = epoch
        self.prediction = prediction
        self.end = origin
        self.blocks: deque[Block] = deque()
        self.cells = 0
        # Leaves have one size, or are forgotten with their block.
        regular = method.estimator.adds_up
        self._width = method.perturber.block if regular else 1
        most = max(2, -(-method.history // self._width) + 2) if regular else None
        self._rings = Rings(block=self._width, most=most)
        self._pending: list[tuple[int, float]] = []
        self._known: tuple[tuple[int, int], Posterior] | None = None  # for the last question

    # -- facts -----------------------------------------------------------------------------------

    @property
    def measured(self) -> bool:
        """Whether its values were measured at all."""
        return self.prediction is None

    @property
    def perturber(self) -> Perturber:
        """How it was measured."""
        return self._method.perturber

    @property
    def estimator(self) -> Estimator:
        """Who answers for it."""
        return self._method.estimator

    @property
    def step(self) -> float:
        """One lattice unit, in the unit of the data."""
        return self._method.step

    @property
    def leaves(self) -> Rings:
        """The released sums."""
        if self._pending:
            sums, following = zip(*self._pending, strict=True)
            self._pending.clear()
            self._rings.append(np.array(sums, dtype=np.int64), np.array(following))
        return self._rings

    @leaves.setter
    def leaves(self, rings: Rings) -> None:
        self._rings = rings

    @property
    def released(self) -> IntArray:
        """The noisy sums of the leaves that are kept, in lattice units."""
        return np.diff(self.leaves.columns()[0])

    @property
    def start(self) -> int:
        """The first position that can still be asked about."""
        if not self.blocks:
            return self.origin
        block = self.blocks[0]
        return block.start + (self.leaves.oldest - block.first) * self._width

    @property
    def layouts(self) -> list[Layout]:
        """How the blocks that are kept were measured: public."""
        return [block.layout for block in self.blocks]

    @property
    def caps(self) -> list[float]:
        """At which levels the values that are kept were truncated."""
        caps = {block.layout.cap for block in self.blocks} or {self.threshold}
        return [cap * self.step for cap in sorted(caps)]

    @property
    def threshold_value(self) -> float:
        """The lowest cap of the blocks that are kept, in the unit of the data."""
        return self.caps[0]

    def cap_range(self, starts: IntArray, ends: IntArray) -> tuple[FloatArray, FloatArray]:
        """The lowest and the highest level at which values of [start, end) were truncated."""
        if not self.blocks:
            level = np.full(starts.size, self.threshold * self.step)
            return level, level
        begun = np.array([block.start for block in self.blocks])
        caps = np.array([block.layout.cap * self.step for block in self.blocks])
        first = np.maximum(np.searchsorted(begun, starts, side="right") - 1, 0)
        after = np.maximum(np.searchsorted(begun, ends, side="left"), first + 1)
        # One more at the end, so that every range has a place after its last block.
        edges = np.stack((first, after), axis=1).reshape(-1)
        padded = np.append(caps, caps[-1])
        lowest = np.minimum.reduceat(padded, edges)[::2]
        return lowest, np.maximum.reduceat(padded, edges)[::2]

    def layout(self, length: int, choice: int) -> Layout:
        """The layout of a block, by its length and which option was chosen."""
        # Where budgets change from block to block, a record names the options of all of them.
        layouts = getattr(self.perturber, "every_layout", self.perturber.layouts)
        options = layouts(length, self.threshold, self._method.ceiling)
        if not 0 <= choice < len(options):
            raise ValueError("a block is measured by one of the options that there are")
        return options[choice]

    # -- keeping ---------------------------------------------------------------------------------

    def begin(self, layout: Layout, choice: int, opinion: int, start: int | None = None) -> None:
        """A block begins, at the present end if nothing else is said."""
        start = self.end if start is None else start
        before = self.blocks[-1] if self.blocks else None
        first = self.leaves.oldest if before is None else before.first + before.layout.leaves
        self.keep(Block(start, layout, choice, opinion, first))
        while len(self.blocks) > 1 and self.blocks[1].start <= start - self._method.history:
            self.forget_oldest()

    def keep(self, block: Block) -> None:
        """One more block."""
        self.blocks.append(block)
        self.cells += _cells(block)

    def forget_oldest(self) -> int:
        """Drop the oldest block, unless it is open; gives how many cells it had."""
        if len(self.blocks) < 2:
            return 0
        count = _cells(self.blocks.popleft())
        self.cells -= count
        self.leaves.forget(self.blocks[0].first)
        return count

    def follow(self, begun: IntArray, sums: IntArray, predictions: FloatArray, end: int) -> None:
        """Do again what led up to `end`.

        Args:
            begun: start, length, choice and opinion of the blocks that were begun, one after
                another.
            sums: of the leaves that were completed.
            predictions: after each of these.
            end: the position after the last value.
        """
        rows = begun.reshape(-1, 4).tolist()
        first = 0 if self.blocks else 1  # a record begins with a block
        for start, length, choice, opinion in rows[:first]:
            self.begin(self.layout(length, choice), choice, opinion, start)
        self.extend(sums, predictions, end - self.end)
        for start, length, choice, opinion in rows[first:]:
            self.begin(self.layout(length, choice), choice, opinion, start)

    def extend(self, sums: IntArray, predictions: FloatArray, count: int) -> None:
        """`count` more values were released, and completed these leaves."""
        if sums.size:
            self.leaves.append(sums, predictions)
        self.end += count

    def append_one(self, noisy: int, prediction: float) -> None:
        """One more leaf: kept aside until someone asks, which saves the cost of arrays."""
        self._pending.append((noisy, prediction))
        if len(self._pending) >= _MOST_PENDING:
            _ = self.leaves

    def joined(self, later: Segment) -> Segment:
        """This segment and a later state of it, as one that answers for both."""
        if not self.measured and not later.measured and self.epoch == later.epoch:
            return later  # the whole of the same gap
        mine, theirs = self.leaves, later.leaves
        if self.epoch != later.epoch or not mine.oldest <= theirs.oldest <= mine.closed + 1:
            raise QueryError(_NOT_ONE)
        method = replace(self._method, history=later.end - self.start + 1)
        shared = {"threshold": self.threshold, "origin": self.origin, "epoch": self.epoch}
        both = Segment(method, **shared)  # type: ignore[arg-type]
        both.end = later.end
        early = [block for block in self.blocks if block.start < later.blocks[0].start]
        for block in (*early, *later.blocks):
            both.keep(block)
        kept = theirs.oldest - mine.oldest
        columns = zip(mine.columns(), theirs.columns(), strict=True)
        both._rings.restore(
            theirs.closed, [np.concatenate((old[:kept], new)) for old, new in columns]
        )
        return both

    # -- answering -------------------------------------------------------------------------------

    def parts(self, starts: IntArray, ends: IntArray, as_of: int | None = None) -> Parts:
        """The sums over [start, end), which must lie within [self.start, self.end].

        `as_of`: from what was released up to that position, which is not before any end.
        """
        until = self.end if as_of is None else min(as_of, self.end)
        if self._known is None or self._known[0] != (self.end, until):
            self._known = (self.end, until), self._posterior(until)
        return self._known[1].parts(starts, ends)

    def _posterior(self, until: int) -> Posterior:
        if self.prediction is not None:
            # A warm-up is begun again because values have outgrown the threshold.
            doubt = 1.0 if self.epoch == WARMING else 0.25
            return _Unmeasured(self.prediction, self.threshold, self.step, doubt)
        return self.estimator.posterior(self, until)


def _cells(block: Block) -> int:
    return max(_LEAST_CELLS, block.layout.leaves)
