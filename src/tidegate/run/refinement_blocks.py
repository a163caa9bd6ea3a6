"""The blocks between two choices of θ: perturber ║ estimator, and the record segment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tidegate.estimate.mixture.outgrown_cap import WatchedEnd
from tidegate.estimate.mixture.rescaled_run import RescaledRun
from tidegate.lattice import FloatArray, IntArray
from tidegate.perturb.adaptive.refinement_trees import RefinementTreesRun
from tidegate.record.segments.journal_entry import JournalTrace
from tidegate.record.segments.segment import Segment
from tidegate.run.selection_counts import SelectionCounts
from tidegate.run.two_sided_caps import raised_values
from tidegate.stages import NO_SUMS, Layout, Noisy

Row = tuple[int, int, int, int]  # of a block that was begun: start, length, choice, model_weights


class PushedBlocks(NamedTuple):
    """The result of a push: released numbers only."""

    taken: int  # values that were released
    trace: JournalTrace
    outgrown: WatchedEnd | None  # by the last leaf of them


class RefinementBlocks:
    """Measures one block after another; `window` counts their values for the next choice of θ.

    `signed`: values below 0 count, from the segment's lower end on.

    Attributes:
        level: expected when the open block began, in units.
    """

    def __init__(
        self,
        perturber: RefinementTreesRun,
        follower: RescaledRun,
        segment: Segment,
        window: SelectionCounts | None,
        *,
        signed: bool,
    ) -> None:
        self.perturber = perturber
        self.window = window
        self._follower = follower
        self._segment = segment
        self._below = segment.below
        self._signed = signed
        self.level = 0.0

    def begin(self) -> None:
        """Let the estimator choose a tree, before the first value of the block arrives."""
        perturber, follower = self.perturber, self._follower
        options = perturber.options
        choice = follower.choose(options, first=perturber.number == 0)
        number, model_weights = perturber.first_number + choice, follower.model_weights
        perturber.begin(choice)
        self._segment.begin(options[choice], number, model_weights)
        follower.begin(options[choice])
        self.level = follower.mean

    @property
    def at_leaf_start(self) -> bool:
        """Whether the open leaf has no values yet."""
        perturber = self.perturber
        return perturber.place == perturber.tree.edge(perturber.leaf)

    @property
    def latest(self) -> Row:
        """The open block, in the form of the journal."""
        block = self._segment.blocks[-1]
        return block.start, block.layout.length, block.choice, block.model_weights

    def push(self, units: IntArray, out: FloatArray, watched: Sequence[WatchedEnd]) -> PushedBlocks:
        """Push values, in units, up to the end of the block or the first leaf that outgrows a cap.

        What the perturber has taken beyond such a leaf is used by nobody: another run follows, with
        noise of its own. The forecaster hears what was left in the tree, and publishes it with the
        next sum that it measures.
        """
        perturber = self.perturber
        tree, place, leaf = perturber.tree, perturber.place, perturber.leaf
        count = min(units.size, tree.length - place)
        sums = self._measured(units[:count], tree, leaf)
        full, outgrown = _first_full_block(watched, tree, leaf, sums.tolist())
        if outgrown is None:
            trace = self._publish(sums, out[:count])
        else:
            start, end = tree.edge(leaf + full), tree.edge(leaf + full + 1)
            before, count = max(0, start - place), end - place
            trace = self._publish(sums[:full], out[:before])
            outgrown.keep(sums.item(full) / (end - start), self._follower.mean, end - start)
            trace = trace.joined(self._publish(sums[full : full + 1], out[before:count]))
            rest = perturber.rest(tree, leaf + full + 1)
            if rest is not None:
                self._follower.add_rest(tree, rest)
        if self.window is not None:
            self.window.add(units[:count])
        return PushedBlocks(count, trace, outgrown)

    def give_up(self) -> None:
        """Erase what an open window has counted: no choice will read it."""
        if self.window is not None:
            self.window.wipe()

    def _publish(self, sums: IntArray, out: FloatArray) -> JournalTrace:
        noisy = Noisy(sums)
        cells = self._follower.push(noisy, out)
        self._segment.extend(noisy, cells.predictions, out.size)
        return JournalTrace(sums, NO_SUMS, *cells)

    def _measured(self, units: IntArray, tree: Layout, leaf: int) -> IntArray:
        """The noisy sums of completed leaves, from leaf number `leaf` on.

        The perturber counts from the lower end; what it releases is counted from 0 again.

        Privacy: values are cut at the lower end here and at the upper one next to the noise, so a
        value moves a sum by at most the width that noise is scaled to. The difference is public.
        """
        if not self._signed:
            return self.perturber.push(units).sums
        sums = self.perturber.push(raised_values(units, self._below)).sums
        edges = [tree.edge(number) for number in range(leaf, leaf + sums.size + 1)]
        return sums - self._below * np.diff(edges)

    def push_one(self, unit: int) -> float:
        """Push one value that neither ends the block nor outgrows a cap, without arrays."""
        noisy = self.perturber.push_one(max(unit + self._below, 0) if self._signed else unit)
        segment, window = self._segment, self.window
        segment.end += 1
        if window is not None:
            window.add_one(unit)
        if noisy is None:
            return self._follower.push_one(None)
        noisy -= self._lifted(self.perturber.leaf - 1)
        value = self._follower.push_one(noisy)
        segment.append_one(noisy, self._follower.prediction)
        return value

    def next_sum(self, unit: int) -> int:
        """The noisy sum that this value would complete. Calling it releases and counts nothing."""
        perturber = self.perturber
        noisy = perturber.next_sum(max(unit + self._below, 0) if self._signed else unit)
        return noisy - self._lifted(perturber.leaf)

    def _lifted(self, leaf: int) -> int:
        """The constant that a leaf's sum contains because values count from the lower cap."""
        if not self._signed:
            return 0
        tree = self.perturber.tree
        return self._below * (tree.edge(leaf + 1) - tree.edge(leaf))


def _first_full_block(
    watched: Sequence[WatchedEnd], tree: Layout, leaf: int, sums: list[int]
) -> tuple[int, WatchedEnd | None]:
    """The first of these sums that outgrows a cap, and which cap."""
    first, found = len(sums), None
    for end in watched:
        index = end.first_full(tree, leaf, sums[:first])
        if index is not None:
            first, found = index, end
    return first, found
