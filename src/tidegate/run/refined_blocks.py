"""The blocks between two choices of θ at work: perturber ║ forecaster, segment of the record."""

from __future__ import annotations

import math
from typing import NamedTuple

from tidegate.estimate.mixture.rescaled_run import RescaledRun
from tidegate.lattice import FloatArray, IntArray
from tidegate.perturb.adaptive.staged import StagedRun
from tidegate.record.entry import Trace
from tidegate.record.segment import Segment
from tidegate.run.selection_counts import SelectionCounts
from tidegate.stages import NO_SUMS, Layout

Row = tuple[int, int, int, int]  # of a block that was begun: start, length, choice, model_weights


class ReleasedLeaf(NamedTuple):
    """A leaf that was completed: all that decides about what comes next, released numbers only."""

    tree: Layout
    mean: float  # of its values, in units
    doubt: float  # standard error of that
    old: float  # the level that was expected before
    width: int  # values in it
    last: bool  # of its block


class Blocks:
    """One block after the other; `window` counts their values for the next choice of θ.

    Attributes:
        level: expected when the open block began, in units.
    """

    def __init__(
        self,
        perturber: StagedRun,
        follower: RescaledRun,
        segment: Segment,
        window: SelectionCounts | None,
    ) -> None:
        self.perturber = perturber
        self.window = window
        self._follower = follower
        self._segment = segment
        self.level = 0.0

    def begin(self) -> None:
        """Let the forecaster choose, before the first value of the block is seen."""
        perturber, follower = self.perturber, self._follower
        options = perturber.options
        choice = follower.choose(options, first=perturber.number == 0)
        number, model_weights = perturber.first_number + choice, follower.model_weights
        perturber.begin(choice)
        self._segment.begin(options[choice], number, model_weights)
        follower.begin(options[choice])
        self.level = follower.mean

    @property
    def latest(self) -> Row:
        """The open block, as a journal has it."""
        block = self._segment.blocks[-1]
        return block.start, block.layout.length, block.choice, block.model_weights

    def push(self, units: IntArray, out: FloatArray) -> tuple[Trace, ReleasedLeaf | None]:
        """Values of the open leaf, in units; what was released, and the leaf if it is complete."""
        perturber, follower = self.perturber, self._follower
        tree, leaf = perturber.open_leaf
        whole, old = units.size == perturber.room, follower.mean
        noisy = perturber.push(units)
        cells = follower.push(noisy, out)
        self._segment.extend(noisy, cells.predictions, units.size)
        if self.window is not None:
            self.window.add(units)
        trace = Trace(noisy.sums, NO_SUMS, *cells)
        if not whole:
            return trace, None
        width, last = tree.edge(leaf + 1) - tree.edge(leaf), leaf + 1 == tree.leaves
        mean, doubt = noisy.sums.item(0) / width, math.sqrt(tree.variances[-1]) / width
        return trace, ReleasedLeaf(tree, mean, doubt, old, width, last)

    def push_one(self, unit: int) -> float:
        """One value that does not complete its leaf, without arrays."""
        self.perturber.push_one(unit)
        self._segment.end += 1
        if self.window is not None:
            self.window.add_one(unit)
        return self._follower.push_one(None)
