"""The released leaf sums of one epoch of a guided release: what range sums are computed from."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from tidegate.errors import QueryError
from tidegate.forecast.cells import cells_of
from tidegate.forecast.look_back import LookBack
from tidegate.forecast.opinions import UNDECIDED, unpacked
from tidegate.forecast.stretches import Measured
from tidegate.guided import GuidedPerturber, Tree
from tidegate.lattice import FloatArray, IntArray
from tidegate.segments import Parts


class _Block:
    """One block of the record: its tree, and what was released of it."""

    def __init__(self, start: int, tree: Tree, choice: int, opinion: int) -> None:
        self.start = start
        self.tree = tree
        self.choice = choice
        self.opinion = opinion  # what the forecaster thought of its models when the block began
        self.sums: list[int] = []

    @property
    def cells(self) -> int:
        """About how many steps a look back takes over this block."""
        return max(16, self.tree.leaves)  # as `tidegate.forecast.cells` cuts it


class Course:
    """The blocks of the last `history` values of one epoch, each with its tree and leaf sums.

    Position p counts released values from 0. Answers about the past use everything that was
    released up to now, or up to a given position.
    """

    STATE: ClassVar[tuple[str, ...]] = ("end", "opinion", "blocks", "sums")

    def __init__(
        self, *, stage: GuidedPerturber, ceiling: int, threshold: int, step: float, history: int,
        origin: int, epoch: str, allowance: float,
    ) -> None:  # fmt: skip
        self._stage = stage
        self._ceiling = ceiling
        self.threshold = threshold  # in lattice units
        self._step = step
        self._history = history
        self.origin = origin
        self.epoch = epoch
        self._allowance = allowance  # for truncation, per value, as a share of θ
        self.end = origin  # the position after the last released value
        self.opinion = UNDECIDED
        self.cells = 0  # of the blocks that are kept: what a look back costs
        self._kept: deque[_Block] = deque()
        self._known: tuple[tuple[int, int], LookBack] | None = None  # the last look back

    @property
    def start(self) -> int:
        """The first position that can still be asked about."""
        return self._kept[0].start if self._kept else self.end

    @property
    def caps(self) -> list[float]:
        """At which levels the values of the blocks that are kept were truncated."""
        caps = {block.tree.cap for block in self._kept} or {self.threshold}
        return [cap * self._step for cap in sorted(caps)]

    @property
    def threshold_value(self) -> float:
        """The lowest cap of the blocks that are kept, in the unit of the data."""
        return self.caps[0]

    # -- keeping ---------------------------------------------------------------------------------

    def begin(self, tree: Tree, choice: int, opinion: int) -> None:
        """A block begins at the present end."""
        self.opinion = opinion
        block = _Block(self.end, tree, choice, opinion)
        self._kept.append(block)
        self.cells += block.cells
        while len(self._kept) > 1 and self._kept[1].start <= self.end - self._history:
            self.forget_oldest()

    def forget_oldest(self) -> int:
        """Drop the oldest block, unless it is open; gives how many cells it had."""
        if len(self._kept) < 2:
            return 0
        count = self._kept.popleft().cells
        self.cells -= count
        return count

    def extend(self, sums: IntArray, count: int) -> None:
        """`count` more values were released, and completed these leaves."""
        self._kept[-1].sums.extend(sums.tolist())
        self.end += count

    def follow(self, begun: IntArray, sums: IntArray, end: int) -> None:
        """Do again what led up to `end`: these blocks were begun, and these leaves completed."""
        for start, length, choice, opinion in begun.reshape(-1, 4).tolist():
            sums = self._complete(sums, start)
            tree = self._stage.trees(length, self.threshold, self._ceiling)[choice]
            self.begin(tree, choice, opinion)
        self._complete(sums, end)

    def _complete(self, sums: IntArray, end: int) -> IntArray:
        """Go on to `end` with those of the sums that belong to the open block; gives the others."""
        if not self._kept:
            return sums
        block = self._kept[-1]
        own = block.tree.leaves_by(end - block.start) - len(block.sums)
        self.extend(sums[:own], end - self.end)
        return sums[own:]

    def append_one(self, noisy: int | None) -> None:
        """One more value was released."""
        self.end += 1
        if noisy is not None:
            self._kept[-1].sums.append(noisy)

    @property
    def latest(self) -> tuple[int, int, int, int]:
        """Start, length, choice and opinion of the block that was begun last."""
        block = self._kept[-1]
        return block.start, block.tree.length, block.choice, block.opinion

    @property
    def trees(self) -> list[Tree]:
        """The trees of the blocks that are kept: public."""
        return [block.tree for block in self._kept]

    @property
    def released(self) -> IntArray:
        """The noisy leaf sums of the blocks that are kept, in lattice units."""
        return self.sums

    # -- state -----------------------------------------------------------------------------------

    @property
    def blocks(self) -> IntArray:
        """Start, length, choice, opinion and completed leaves of every block, one after another.

        (In one row, as state is kept.)
        """
        return _rows(self._kept)

    @blocks.setter
    def blocks(self, flat: IntArray) -> None:
        self._kept.clear()
        self._counts: list[int] = []
        unpacked(self.opinion)  # a record may be damaged
        for start, length, choice, opinion, count in flat.reshape(-1, 5).tolist():
            unpacked(opinion)
            tree = self._stage.trees(length, self.threshold, self._ceiling)[choice]
            self._kept.append(_Block(start, tree, choice, opinion))
            self._counts.append(count)
        self.cells = sum(block.cells for block in self._kept)

    @property
    def sums(self) -> IntArray:
        """All leaf sums, one after another."""
        return _sums(self._kept)

    @sums.setter
    def sums(self, flat: IntArray) -> None:
        found, at = flat.tolist(), 0
        for block, count in zip(self._kept, self._counts, strict=True):
            block.sums = found[at : at + count]
            at += count

    def joined(self, later: Course) -> Course:
        """This course and a later state of it, as one that answers for both."""
        if self.epoch != later.epoch or not self.start <= later.start <= self.end:
            raise QueryError("these are not two records of one release, without a gap between them")
        both = Course(
            stage=self._stage,
            ceiling=self._ceiling,
            threshold=self.threshold,
            step=self._step,
            history=later.end - self.start + 1,
            origin=self.origin,
            epoch=self.epoch,
            allowance=self._allowance,
        )
        both.end, both.opinion = later.end, later.opinion
        both._kept.extend(block for block in self._kept if block.start < later.start)
        both._kept.extend(later._kept)
        both.cells = sum(block.cells for block in both._kept)
        return both

    # -- answering -------------------------------------------------------------------------------

    def parts(self, starts: IntArray, ends: IntArray, as_of: int | None = None) -> Parts:
        """The sums over [start, end), which must lie within [self.start, self.end].

        At cell ends the posterior mean given all leaf sums; inside a cell its values count as
        equal, and the error of that as the largest that independent values could have.
        """
        until = self.end if as_of is None else min(as_of, self.end)
        known = self._look_back(until)
        first, first_share, first_width = self._place(known, starts)
        last, last_share, last_width = self._place(known, ends)
        estimate = self._prefix(known, last, last_share) - self._prefix(known, first, first_share)
        # The nearer edge of the cell stands for a position inside it; a range inside one cell has
        # its share of the cell.
        near_first, near_last = first + (first_share >= 0.5), last + (last_share >= 0.5)
        same, share = first == last, last_share - first_share
        near_first = np.where(same, first, near_first)
        near_last = np.where(same, first + (share > 0), np.maximum(near_first, near_last))
        between = known.variances(near_first, near_last) * np.where(same, np.square(share), 1.0)
        spread = np.where(
            same,
            self._spread(known, first, first_width, share),
            self._spread(known, first, first_width, first_share)
            + self._spread(known, last, last_width, last_share),
        )
        allowance: FloatArray = (ends - starts).astype(np.float64) * self._allowance
        theta = self.threshold * self._step
        draws = [max(block.tree.variances) for block in self._kept if block.start <= until]
        return Parts(
            (estimate + allowance) * theta,
            between * theta**2,
            spread * theta**2,
            max(draws, default=0.0) * self._step**2,
            allowance * theta,
        )

    def _look_back(self, until: int) -> LookBack:
        if self._known is None or self._known[0] != (self.end, until):
            # Of the open leaf there is a forecast, by the models that were trusted at that time.
            begun = [block for block in self._kept if block.start <= until]
            now = until == self.end or not begun
            opinion = self.opinion if now else begun[-1].opinion
            measured = [
                Measured(
                    block.start,
                    cells_of(block.tree, self.threshold),
                    self._released_until(block, until),
                    min(block.start + block.tree.length, until),
                )
                for block in begun
            ]
            self._known = (self.end, until), LookBack(measured, self._stage.horizon, opinion)
        return self._known[1]

    @staticmethod
    def _released_until(block: _Block, until: int) -> IntArray:
        done = block.tree.leaves_by(until - block.start)
        return np.array(block.sums[:done], dtype=np.int64)

    @staticmethod
    def _prefix(known: LookBack, cell: IntArray, share: FloatArray) -> FloatArray:
        after = np.minimum(cell + 1, known.sums.size - 1)
        return known.sums[cell] + share * (known.sums[after] - known.sums[cell])

    @staticmethod
    def _place(known: LookBack, positions: IntArray) -> tuple[IntArray, FloatArray, IntArray]:
        """The cell of each position, how far in it lies, and how many values the cell has."""
        cell = np.searchsorted(known.edges, positions, side="right") - 1
        after = np.minimum(cell + 1, known.edges.size - 1)
        width = np.maximum(known.edges[after] - known.edges[cell], 1)
        return cell, (positions - known.edges[cell]) / width, width

    @staticmethod
    def _spread(known: LookBack, cell: IntArray, width: IntArray, share: FloatArray) -> FloatArray:
        """Variance, in θ², of a part of a cell whose sum is known: as of independent values."""
        level = np.clip(known.levels[np.minimum(cell + 1, known.edges.size - 1)], 0.0, 1.0)
        found: FloatArray = np.maximum(level * (1 - level), 1 / 16) * width * share * (1 - share)
        return found


def _rows(blocks: Iterable[_Block]) -> IntArray:
    rows = [
        (block.start, block.tree.length, block.choice, block.opinion, len(block.sums))
        for block in blocks
    ]
    return np.array(rows, dtype=np.int64).reshape(-1)


def _sums(blocks: Iterable[_Block]) -> IntArray:
    return np.array([noisy for block in blocks for noisy in block.sums], dtype=np.int64)


def course_state(course: Course, brief: bool) -> dict[str, Any]:
    """What a course must keep; `brief` leaves out all but the open block."""
    if not brief:
        return {name: getattr(course, name) for name in course.STATE}
    last = [course._kept[-1]] if course._kept else []
    shared = {"end": course.end, "opinion": course.opinion}
    return {**shared, "blocks": _rows(last), "sums": _sums(last)}
