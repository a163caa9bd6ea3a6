"""`PhaseStream`: one phase at work: raw units in, published values out, one threshold."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tidegate.errors import SnapshotError
from tidegate.lattice import FloatArray, IntArray
from tidegate.randomness import Epoch
from tidegate.record.rows_and_levels import Levels, recent_sums_for_levels
from tidegate.record.segments.journal_entry import JournalTrace
from tidegate.record.segments.segment import Segment
from tidegate.run.two_sided_caps import Ends, raised_values
from tidegate.stages import NO_SUMS, EstimatorRun, Noisy, Saved

if TYPE_CHECKING:
    from tidegate.estimate.smoother import SmootherRun
    from tidegate.perturb.irregular_spans import IrregularRun
    from tidegate.run.pipeline import Pipeline

_AT_ONCE = 1 << 13  # values of irregular spans that are pushed at once: for speed alone


class PhaseStream:
    """Perturber ║ estimator, with their record segment.

    The only thing that goes back over the barrier is which of the public options measures the next
    block: a function of what was released.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        epoch: Epoch,
        segment: Segment,
        state: dict[str, Any] | None = None,
    ) -> None:
        self.segment = segment
        threshold, below = segment.threshold, segment.below
        self.ends = Ends(threshold - below, below)
        self._signed = pipeline.lattice.bottom > 0
        self._method = pipeline.method
        self._irregular = pipeline.perturber.irregular
        self._special = self._irregular or self._signed
        # Leaves of one size, or those of the open block.
        self._width = pipeline.perturber.block if pipeline.estimator.adds_up else None
        self._step = pipeline.lattice.step
        self._identity = pipeline.noise_identity(threshold, below)
        perturber, estimator, saved = pipeline.perturber, pipeline.estimator, None
        if state is not None:
            if state["identity"] != self._identity:
                raise SnapshotError("it was made by a version of Tidegate with another noise law")
            saved = Saved(state["estimator"], segment.blocks[-1].layout)
        keystream = epoch.keystream("perturb", self._identity)
        self._perturber = perturber.start(
            threshold, pipeline.ceiling + below, keystream, state and state["perturber"]
        )
        self._estimator = estimator.start(
            threshold=threshold, perturber=perturber, saved=saved, below=below
        )
        if state is None:
            self._due = segment.end
            self._begin_block()
            segment.leaves.predict(self._estimator.prediction)
        else:
            self._due = state["due"]
        self.first = self._estimator.prediction  # used only if nothing was released yet
        # What a smoother publishes for every value inside the open leaf, so that it need not be
        # called; it is told of them later (`_caught_up`). None: the estimator is called for each.
        self._inside = None if self._width is None else self.first * self._step

    def state(self) -> dict[str, Any]:
        """The state to resume from, raw partial sums included; the segment is saved apart."""
        return {
            "identity": self._identity,
            "due": self._due,
            "perturber": self._perturber.state(),
            "estimator": self._caught_up().state(),
        }

    @property
    def level(self) -> float:
        """The expected value of one more row, in lattice units."""
        return self._estimator.level(self.segment.recorded)

    def levels(self) -> Levels:
        """The object that computes the levels of later values."""
        segment, estimator = self.segment, self._caught_up()
        recent = recent_sums_for_levels(self._method, segment)
        facts = estimator.prediction, estimator.filled, recent
        return Levels(self._method, self.ends.width, *facts, below=self.ends.below)

    def _begin_block(self) -> None:
        """Let the estimator choose a tree, before the first value of the block arrives.

        Irregular perturbers have one option: a block of theirs may have begun some values ago.
        """
        perturber, estimator, start = self._perturber, self._estimator, self._due
        options = perturber.options
        if self._irregular:
            options = cast("IrregularRun", perturber).options_at(start - self.segment.origin)
        choice = estimator.choose(options, first=perturber.number == 0)
        perturber.begin(choice)
        self.segment.begin(options[choice], choice, estimator.model_weights, start)
        self._due = start + estimator.begin(options[choice])  # for the next choice

    def push(self, units: IntArray, out: FloatArray) -> JournalTrace:
        """Release one piece of the stream into `out`; return its journal trace."""
        segment, estimator = self.segment, self._caught_up()
        begun = [self._latest()] if segment.end == segment.origin else []
        parts: list[tuple[Any, ...]] = []
        done, size = 0, units.size
        while done < size:
            room = self._due - segment.end
            count = min(size - done, max(room, _AT_ONCE) if self._irregular else room)
            noisy = self._measured(units[done : done + count])
            cells = estimator.push(noisy, out[done : done + count])
            segment.extend(noisy, cells.predictions, count)
            done += count
            while segment.end >= self._due:
                self._begin_block()
                begun.append(self._latest())
                cells.predictions[-1:] = estimator.prediction  # what follows the block
            parts.append((noisy.sums, *cells, NO_SUMS if noisy.marks is None else noisy.marks))
        if self._step != 1.0:
            out *= self._step
        if self._inside is not None:
            self._inside = estimator.prediction * self._step
        if len(parts) > 1:
            parts = [tuple(map(np.concatenate, zip(*parts, strict=True)))]
        sums, *published = parts[0]
        rows = np.array(begun, dtype=np.int64).reshape(-1) if begun else NO_SUMS
        return JournalTrace(sums, rows, *published)

    def push_one(self, unit: int) -> float:
        """Perturb one value, publish an estimate, note a completed leaf in the record."""
        if self._special:
            if self._irregular:  # it returns more than a number for a value
                out = np.zeros(1)
                self.push(np.array([unit]), out)
                return out.item()
            unit = max(unit + self.ends.below, 0)
        segment = self.segment
        noisy = self._perturber.push_one(unit)
        if noisy is None:  # inside a leaf, and so inside a block
            segment.end += 1
            inside = self._inside
            return self._estimator.push_one(None) * self._step if inside is None else inside
        if self._signed:
            noisy -= int(self._lifted(1)[0])
        estimator = self._estimator
        value = estimator.push_one(noisy)
        segment.end += 1
        segment.append_one(noisy, estimator.prediction)
        if segment.end == self._due:
            self._begin_block()
        if self._inside is not None:
            self._inside = estimator.prediction * self._step
        return value * self._step

    def _caught_up(self) -> EstimatorRun:
        """The estimator, after telling it of values inside the open leaf; and their number."""
        if self._width is not None:
            cast("SmootherRun", self._estimator).filled = (
                self.segment.end - self.segment.origin
            ) % self._width
        return self._estimator

    def _measured(self, units: IntArray) -> Noisy:
        """Noisy sums; the perturber counts from the lower cap, which is undone here.

        Privacy: values are cut at the lower end here and at the upper one next to the noise, so a
        value moves a sum by at most the width that noise is scaled to. The difference is public.
        """
        if not self._signed:
            return self._perturber.push(units)
        noisy = self._perturber.push(raised_values(units, self.ends.below))
        if noisy.marks is not None:  # single values that were measured, or nothing
            sums = np.where(noisy.marks, noisy.sums - self.ends.below, 0)
            return replace(noisy, sums=sums)
        return Noisy(noisy.sums - self._lifted(noisy.sums.size))

    def _lifted(self, leaves: int) -> IntArray:
        """The constant in the next leaves' sums: values count from the lower cap."""
        if self._width is not None:
            return np.full(leaves, self.ends.below * self._width)
        open_block, end = self.segment.blocks[-1], self.segment.end
        layout, first = open_block.layout, open_block.layout.leaves_by(end - open_block.start)
        edges = [layout.edge(leaf) for leaf in range(first, first + leaves + 1)]
        return self.ends.below * np.diff(edges)

    def _latest(self) -> tuple[int, int, int, int]:
        block = self.segment.blocks[-1]
        return block.start, block.layout.length, block.choice, block.model_weights
