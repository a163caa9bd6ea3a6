"""Answers about values that were withheld, or that a new threshold has not measured yet.

A segment begins with each threshold, and its models with it: before its first leaf is released they
expect a tenth of θ. The stream did not begin there. Where values lie close to θ, the expectation
was nine tenths of θ too low, and no interval held it. So the level of what was measured last is
expected, and its doubt is added to that of a segment of which nothing is known.

Computed from released sums and positions: free.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tidegate.lattice import FloatArray, IntArray
from tidegate.stages import Excess, Parts, Posterior

if TYPE_CHECKING:
    from tidegate.record.segments.segment import Segment


class UnmeasuredPosterior(Posterior):
    """The posterior of withheld values, for which predictions were published."""

    def __init__(self, prediction: float, threshold: int, step: float, doubt: float) -> None:
        self._prediction, self._threshold, self._step = prediction, threshold, step
        self._doubt = doubt

    def parts(self, starts: IntArray, ends: IntArray) -> Parts:
        """The error without measurement: a share of the threshold for each value."""
        lengths: FloatArray = (ends - starts).astype(np.float64) * self._step
        error = np.square(lengths * self._threshold * self._doubt)
        nothing = np.zeros(starts.size)
        # Values are not truncated: they are not measured, so nothing limits their sum.
        open_end = np.where(ends > starts, np.inf, 0.0)
        excess = Excess.nothing(starts.size)._replace(most=open_end)
        return Parts(lengths * self._prediction, nothing, error, 0.0, excess)


_LEAST = 16  # values, at least, whose mean is the level: as many as are unknown, if that is more


def _unmeasured(segment: Segment, as_of: int | None) -> bool:
    """Whether no leaf of the segment was released by then, although its values are measured."""
    if segment.method.estimator.adds_up or not segment.measured or not segment.blocks:
        return False
    until = segment.end if as_of is None else min(as_of, segment.end)
    first = segment.blocks[0]
    return first.start == segment.origin and not first.layout.leaves_by(until - first.start)


def unmeasured_as_before(
    parts: Parts,
    starts: IntArray,
    ends: IntArray,
    as_of: int | None,
    before: Segment,
    after: Segment,
) -> Parts:
    """The answer for unmeasured ranges of `after`, at the level of the segment `before`."""
    if not _unmeasured(after, as_of) or _unmeasured(before, None):
        return parts
    if not before.measured or before.end <= before.start:
        return parts
    until = after.end if as_of is None else min(as_of, after.end)
    width = min(before.end - before.start, max(_LEAST, until - after.start))
    last = before.parts(np.array([before.end - width]), np.array([before.end]))
    cap = after.highest_cap * after.method.step if after.method.bounded else np.inf
    level = float(np.clip(last.estimate[0] / width, after.floor, cap))
    doubt = float(last.noise_variance[0] + last.prediction_variance[0]) / width**2
    counts = (ends - starts).astype(np.float64)
    return replace(
        parts,
        estimate=counts * level,
        prediction_variance=parts.prediction_variance + np.square(counts) * doubt,
    )
