"""Publish the sum of a segment when the perturber closes it, and zeros until then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from tidegate.errors import SettingError
from tidegate.estimate.published_values_of_cells import fill_published_cells
from tidegate.estimate.sample_and_hold import Last, SampleAndHold, SampleAndHoldRun, known_until
from tidegate.lattice import FloatArray, IntArray
from tidegate.settings import Spec
from tidegate.stages import Cells, NoiseLaw, Noisy, Parts, Perturber, Recorded, Saved, Spans
from tidegate.stages.recorded_and_posterior import Posterior


class SegmentingPerturber(Protocol):
    """The members of a perturber that closes segments which error bars need."""

    def sum_law(self, threshold: int) -> NoiseLaw:
        """The law of the noise of the sums, one leaf a segment."""
        ...

    def usual_content(self, threshold: int) -> float:
        """The usual upper limit of the sum of a segment."""
        ...


@dataclass(frozen=True, kw_only=True, repr=False)
class SegmentSums(SampleAndHold, Spec):
    """Publishes the noisy sum of a segment at its last value, and 0 for the others.

    (A level from the segments before would be far off: after a busy stretch a segment is short, and
    the next may be long and empty.)
    """

    KIND: ClassVar[str] = "estimate.SegmentSums"

    def check(self, perturber: Perturber) -> None:
        """Require a perturber that releases sums of segments."""
        if not hasattr(perturber, "usual_content"):
            raise SettingError("estimator", "needs a perturber that sums up segments")

    def level_filter(self, *, threshold: int, perturber: Perturber) -> Last:
        """A filter that starts at 0."""
        return Last(0)

    def level_variances(self, recorded: Recorded, spans: Spans) -> FloatArray:
        """The variance of the mean of each segment."""
        law = _segment_facts(recorded).sum_law(recorded.threshold)
        leaves = recorded.leaves.oldest + np.arange(spans.marks.size)
        found: FloatArray = law.range_variance(leaves, leaves + 1)
        return found / np.square(np.diff(spans.edges))

    def start(
        self, *, threshold: int, perturber: Perturber, saved: Saved | None = None, below: int = 0
    ) -> SegmentSumsRun:
        """Begin with zeros, or resume."""
        return SegmentSumsRun(Last(below), saved and saved.state, below)

    def posterior(self, recorded: Recorded, until: int) -> SegmentPosterior:  # type: ignore[override]
        """Sums of segments, from what was released until `until`."""
        return SegmentPosterior(recorded, until)


class SegmentSumsRun(SampleAndHoldRun):
    """Publishes the sums of segments, in lattice units.

    A number that arrives was counted from the lowest value, −`below`, for each value of its
    segment, and `below` was taken off it once.
    """

    def push(self, noisy: Noisy, out: FloatArray) -> Cells:
        """Fill `out` with one number per value."""
        if not noisy.sums.size or noisy.spans is None:
            return super().push(noisy, out)
        totals = noisy.sums - self._below * (noisy.spans - 1)
        levels = np.zeros(totals.size)
        self.prediction, self._filled = fill_published_cells(
            out, self.prediction, self._filled, noisy.spans, totals, levels
        )
        return Cells(levels, totals, noisy.spans)


class SegmentPosterior(Posterior):
    """Whole segments by their noisy sums; a part of one gets its proportional share.

    The error has two parts: that of the noise, by its exact law (a segment that is cut counts as
    whole); and of each cut segment, whose values may lie anywhere in it: U/2·√(4f(1 − f)) as a
    standard error, with U the usual upper limit of a segment's sum and f the part inside the
    range. About the open segment nothing is known except that it holds less than U.
    """

    def __init__(self, recorded: Recorded, until: int) -> None:
        known = known_until(recorded.leaves.spans(), until)
        perturber = _segment_facts(recorded)
        self._law = perturber.sum_law(recorded.threshold)
        self._content = perturber.usual_content(recorded.threshold)
        self._step, self._first = recorded.step, recorded.leaves.oldest
        widths = np.diff(known.edges)
        sums = known.numbers - recorded.below * (widths - 1)
        self._edges = known.edges
        self._before = np.concatenate(([0.0], np.cumsum(sums)))
        # The open segment counts as empty, and has no end.
        self._widths = np.append(widths, 1).astype(np.float64)
        self._each = np.append(sums / widths, 0.0)

    def parts(self, starts: IntArray, ends: IntArray) -> Parts:
        """The sums over [start, end)."""
        left, into = self._place(starts)
        right, beyond = self._place(ends)
        closed = self._widths.size - 1  # the number of the open segment
        estimate = self._before[right] + beyond * self._each[right]
        estimate -= self._before[left] + into * self._each[left]
        last = np.minimum(right + (beyond > 0), closed)
        noise = self._law.range_variance(self._first + np.minimum(left, last), self._first + last)
        same = left == right
        pieces = ((left, np.where(same, ends - starts, into)), (right, np.where(same, 0, beyond)))
        doubt = np.zeros(starts.size)
        for segment, inside in pieces:
            part = np.where(segment < closed, inside / self._widths[segment], 0.5)
            doubt += np.where(inside > 0, part * (1 - part), 0.0)
        squared = self._step**2
        return Parts(
            estimate * self._step,
            noise * squared,
            doubt * self._content**2 * squared,
            self._law.largest_variance * squared,
        )

    def _place(self, positions: IntArray) -> tuple[IntArray, IntArray]:
        """The segment of a position, and how many of its values lie before the position."""
        segment = np.searchsorted(self._edges, positions, side="right") - 1
        return segment, positions - self._edges[segment]


def _segment_facts(recorded: Recorded) -> SegmentingPerturber:
    perturber = recorded.perturber
    if not hasattr(perturber, "usual_content"):
        raise AssertionError("a perturber that sums up segments is needed")
    return perturber  # type: ignore[return-value]
