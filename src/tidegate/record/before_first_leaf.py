"""Values that a new threshold has not measured yet: expected at the level of the segment before.

A segment begins with each threshold, and its models with it: before its first leaf is released they
expect a tenth of θ. The stream did not begin there. Where values lie close to θ, the expectation
was nine tenths of θ too low, and no interval held it. So the level of what was measured last is
expected, and its doubt is added to that of a segment of which nothing is known.

Computed from released sums and positions: free.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tidegate.lattice import IntArray
from tidegate.record.segment import Segment
from tidegate.stages import Parts

_LEAST = 16  # values, at least, whose mean is the level: as many as are unknown, if that is more


def _unmeasured(segment: Segment, as_of: int | None) -> bool:
    """Whether none of its leaves was released by then, though its values are measured."""
    if segment.method.estimator.adds_up or not segment.measured or not segment.blocks:
        return False
    until = segment.end if as_of is None else min(as_of, segment.end)
    first = segment.blocks[0]
    return first.start == segment.origin and not first.layout.leaves_by(until - first.start)


def expected_as_before(
    parts: Parts,
    starts: IntArray,
    ends: IntArray,
    as_of: int | None,
    before: Segment,
    after: Segment,
) -> Parts:
    """The same at the level of the segment `before`, for ranges of an unmeasured one `after` it."""
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
