"""Estimators that publish a level until the next measurement, and their range sums.

    published   ───level 0───┐●──level 1──┐●────level 2──── …      ● a measured value
    leaves      |            ●|           ●|                       it ends its leaf

Which values are measured is decided by the perturber (`Perturber.irregular`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from tidegate.errors import SettingError
from tidegate.estimate.estimator_defaults import EstimatorDefaults
from tidegate.estimate.published_values_of_cells import fill_published_cells
from tidegate.lattice import FloatArray, IntArray
from tidegate.settings import Spec
from tidegate.stages import NO_CELLS, Cells, Layout, Noisy, Parts, Perturber, Recorded, Saved, Spans
from tidegate.stages.noisy import Filtered
from tidegate.stages.recorded_and_posterior import Posterior
from tidegate.state_as_bytes import State, restore, state_of

_RECENT = 16  # how many of the last measurements say how much values scatter


class SampleAndHoldPosterior(Posterior):
    """The posterior of ranges from what was released up to `until`: sums of published levels.

    A *run* is a measured value and the values after it that were published as its level. In a range
    that covers m values of a run, h of them not measured, the error of the sum has two parts:

    - m times the error of the level, whose variance the method says;
    - how far the h values lie from the measured one. For independent values of variance s² that is
      h(h + 1)·s²; for a level that walks at random it is less than that, with s² half the mean
      squared difference of neighbouring measurements. So s² is estimated as half that difference,
      noise taken out, of the last 16 measurements, and at no less than (θ/4)².

    Runs are counted as independent.
    """

    def __init__(
        self,
        recorded: Recorded,
        until: int,
        level_variances: Callable[[Recorded, Spans], FloatArray],
    ) -> None:
        known = known_until(recorded.leaves.spans(), until)
        self._step = recorded.step
        widths = np.diff(known.edges)
        # Published running sums at the edges: whole numbers below 2^53, so exact.
        totals = (widths - 1) * known.levels[:-1] + known.levels[1:]
        self._totals = np.concatenate(([0.0], np.cumsum(totals)))
        self._edges, self._levels = known.edges, known.levels
        measured = np.flatnonzero(known.marks)
        # The run before the first measurement that is known: published from nothing.
        self._starts = np.concatenate(([known.edges[0]], known.edges[measured + 1] - 1))
        threshold = float(recorded.threshold)
        noise = 2.0 * np.square(known.marks[measured].astype(np.float64))
        levels = level_variances(recorded, known)[measured]
        unknown = 0.0
        if known.edges[0] > recorded.origin:  # its measurement is forgotten
            off = float(known.levels[0]) + recorded.below - threshold / 2
            unknown = max(off**2, float(levels.max(initial=0.0)))
        self._noise = np.concatenate(([unknown], levels))
        numbers = known.numbers[measured].astype(np.float64)
        scatter = np.full(numbers.size, threshold**2 / 16)
        if numbers.size > 1:
            squares = (np.square(np.diff(numbers)) - noise[1:] - noise[:-1]) / 2
            running = np.concatenate(([0.0], np.cumsum(squares)))
            at = np.arange(1, numbers.size)
            since = np.maximum(at - _RECENT, 0)
            recent = (running[at] - running[since]) / (at - since)
            scatter = np.maximum(scatter, np.concatenate((recent[:1], recent)))
        # Values in [0, θ] vary by no more than (θ/2)².
        most = threshold**2 / 4
        self._scatter = np.concatenate(([most], np.minimum(scatter, most)))

    def parts(self, starts: IntArray, ends: IntArray) -> Parts:
        """The sums over [start, end)."""
        noise, scatter = self._variances(starts, ends)
        squared = self._step**2
        return Parts(
            (self._running(ends) - self._running(starts)) * self._step,
            noise * squared,
            scatter * squared,
            float(self._noise.max()) * squared,
        )

    def _running(self, positions: IntArray) -> FloatArray:
        leaf = np.searchsorted(self._edges, positions, side="right") - 1
        found: FloatArray = (
            self._totals[leaf] + (positions - self._edges[leaf]) * self._levels[leaf]
        )
        return found

    def _variances(self, starts: IntArray, ends: IntArray) -> tuple[FloatArray, FloatArray]:
        """Variances: whole runs by running sums, the two runs at the ends separately."""
        lengths = np.diff(self._starts).astype(np.float64)  # of all runs but the last
        noise, scatter = self._noise, self._scatter
        whole = [
            np.concatenate(([0.0], np.cumsum(noise[:-1] * np.square(lengths)))),
            np.concatenate(([0.0], np.cumsum(scatter[:-1] * (lengths - 1) * lengths))),
        ]
        first = np.searchsorted(self._starts, starts, side="right") - 1
        last = np.maximum(np.searchsorted(self._starts, ends, side="left") - 1, first)
        limit = np.append(self._starts[1:], ends.max(initial=self._starts[-1]))
        inside = np.minimum(ends, limit[first]) - starts
        parts = []
        for count, run in ((inside, first), (ends - self._starts[last], last)):
            measured = (self._starts[run] >= starts) & (run > 0)
            free = np.maximum(count - measured, 0).astype(np.float64)
            parts.append((noise[run] * np.square(count), scatter[run] * free * (free + 1)))
        apart = last > first
        between = [
            np.where(apart, sums[last] - sums[np.minimum(first + 1, last)], 0.0) for sums in whole
        ]
        one, two = parts
        return (
            one[0] + np.where(apart, two[0], 0.0) + between[0],
            one[1] + np.where(apart, two[1], 0.0) + between[1],
        )


def known_until(spans: Spans, until: int) -> Spans:
    """The leaves that were complete after `until` values."""
    count = int(np.searchsorted(spans.edges, until, side="right"))
    return Spans(
        spans.edges[:count],
        spans.numbers[: count - 1],
        spans.marks[: count - 1],
        spans.levels[:count],
    )


class MeasuredLeaves(NamedTuple):
    """Leaves as offsets from the lower cap, with marks. Mark 0: the leaf was not measured.

    `filtered` may be used in place of the numbers, if it is of the same filter and state.
    """

    numbers: IntArray
    spans: IntArray
    marks: IntArray
    filtered: Filtered | None = None


class LevelFilter(Protocol):
    """Turns measured numbers into levels. STATE names the attributes that change."""

    STATE: ClassVar[tuple[str, ...]]
    level: float

    def push(self, leaves: MeasuredLeaves) -> FloatArray:
        """The level after each leaf, in whole lattice units."""
        ...


class SampleAndHold(EstimatorDefaults, ABC):
    """An estimator for irregular perturbers: publishes the present level for every value.

    A method says how a measurement moves the level, `level_filter`, and what variance noise leaves
    in each level, `level_variances`, counted so that errors of different levels may be added as if
    they were independent.
    """

    adds_up: ClassVar[bool] = False

    @abstractmethod
    def level_filter(self, *, threshold: int, perturber: Perturber) -> LevelFilter:
        """A new filter, which determines how measurements move the level."""

    @abstractmethod
    def level_variances(self, recorded: Recorded, spans: Spans) -> FloatArray:
        """The noise variance in each level."""

    def check(self, perturber: Perturber) -> None:
        """Require a perturber that gives spans and marks with its sums."""
        if not perturber.irregular:
            raise SettingError(
                "estimator", "must be a smoother such as tidegate.estimate.Recent() here"
            )

    def start(
        self, *, threshold: int, perturber: Perturber, saved: Saved | None = None, below: int = 0
    ) -> SampleAndHoldRun:
        """Begin with half the threshold, or resume."""
        levels = self.level_filter(threshold=threshold, perturber=perturber)
        return SampleAndHoldRun(levels, saved and saved.state, below)

    def posterior(self, recorded: Recorded, until: int) -> SampleAndHoldPosterior:
        """Sums of the published levels; later measurements do not change them."""
        return SampleAndHoldPosterior(recorded, until, self.level_variances)


class SampleAndHoldRun:
    """Publishes the level of the last measurement, in lattice units.

    The filter counts from the lowest value that counts, −`below`.
    """

    model_weights = 0

    def __init__(self, levels: LevelFilter, state: State | None = None, below: int = 0) -> None:
        self._filter, self._below = levels, below
        self._filled = 0  # values already published of the open leaf
        if state is not None:
            restore(levels, state["filter"])
            self._filled = state["filled"]
        self.prediction = levels.level - below

    @property
    def filled(self) -> int:
        """How many values of the open leaf have been published."""
        return self._filled

    def state(self) -> dict[str, Any]:
        """The state to resume from."""
        return {"filter": state_of(self._filter), "filled": self._filled}

    def choose(self, options: tuple[Layout, ...], first: bool) -> int:
        """Choose the only option."""
        return 0

    def begin(self, layout: Layout) -> int:
        """Begin a block, which ends with its layout."""
        return layout.length

    def level(self, recorded: Recorded) -> float:
        """The present level."""
        return self.prediction

    def push(self, noisy: Noisy, out: FloatArray) -> Cells:
        """Fill `out` with one number per value."""
        if noisy.spans is None or noisy.marks is None:
            raise AssertionError("an irregular perturber gives spans and marks")
        if not noisy.sums.size:
            out[:] = self.prediction
            self._filled += out.size
            return NO_CELLS
        numbers = np.where(noisy.marks, noisy.sums + self._below, 0)
        leaves = MeasuredLeaves(numbers, noisy.spans, noisy.marks, noisy.filtered)
        found = self._filter.push(leaves)
        levels = found - self._below
        if levels.size == out.size and not self._filled:  # every value is a leaf
            totals = levels.astype(np.int64)
            out[:] = totals
            self.prediction = float(levels[-1])
            return Cells(levels, totals, noisy.spans)
        before = np.concatenate(([self.prediction], levels[:-1]))
        totals = ((noisy.spans - 1) * before + levels).astype(np.int64)
        self.prediction, self._filled = fill_published_cells(
            out, self.prediction, self._filled, noisy.spans, totals, levels
        )
        return Cells(levels, totals, noisy.spans)

    def push_one(self, noisy: int | None) -> float:
        """Not used: an irregular perturber returns more than a number."""
        raise AssertionError("irregular spans come in arrays")


@dataclass(frozen=True, kw_only=True, repr=False)
class LastPublished(SampleAndHold, Spec):
    """Publishes the last measured number for every value."""

    KIND: ClassVar[str] = "estimate.LastPublished"

    def level_filter(self, *, threshold: int, perturber: Perturber) -> Last:
        """A filter that starts at half the threshold."""
        return Last(threshold // 2)

    def level_variances(self, recorded: Recorded, spans: Spans) -> FloatArray:
        """The noise variance, independent between numbers; a mark is its Laplace scale.

        A discrete Laplace law of scale s has a variance of just below 2s².
        """
        return 2.0 * np.square(spans.marks.astype(np.float64))


class Last:
    """A filter whose level is the last measured number."""

    STATE: ClassVar[tuple[str, ...]] = ("level",)

    def __init__(self, level: float) -> None:
        self.level = float(level)

    def push(self, leaves: MeasuredLeaves) -> FloatArray:
        """The levels: a measured number replaces the level."""
        numbers, marks = leaves.numbers, leaves.marks
        last = np.maximum.accumulate(np.where(marks, np.arange(1, marks.size + 1), 0))
        levels = np.concatenate(([self.level], numbers))[last]
        self.level = float(levels[-1])
        return levels
