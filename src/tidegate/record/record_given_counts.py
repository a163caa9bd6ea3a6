"""A record of sums of events whose answers also use the record of their counts.

Post-processing of two released records (`tidegate.estimate.mixture.sums_given_counts`).
"""

from __future__ import annotations

import math

from tidegate.estimate.mixture.event_mixture import EventMixture
from tidegate.estimate.mixture.sums_given_counts import (
    Expected,
    SumsGivenCounts,
    unlikely_without_counts,
)
from tidegate.lattice import FloatArray, IntArray
from tidegate.record.record import Record
from tidegate.record.segments.segment import Segment
from tidegate.stages import Posterior

_CONFIDENCE = 0.95  # any level: only estimates and noise errors are used
# The largest relative error of the mean of an event, over the whole record.
_KNOWN = 0.1
# The largest noise of m·N̂, relative to that of sums.
_BETTER = 0.5


class RecordGivenCounts(Record):
    """Answers for sums, as of now. No `as_of`: it would have to ignore later counts.

    It refers to both records: ask it only while neither grows (`fits`).
    """

    def __init__(self, sums: Record, counts: Record) -> None:
        self._of = _extent_of_record(sums), _extent_of_record(counts)
        total, _, ticks = _measured_in_record(sums)
        start, end = ticks
        number = float(counts.answers([start], [end], _CONFIDENCE, None).estimate[0])

        def expected(starts: IntArray, ends: IntArray) -> FloatArray:
            found: FloatArray = counts.answers(starts, ends, _CONFIDENCE, None).estimate
            return found * (total / number)

        level = total / (end - start)
        segments = [_given_to_record(segment, expected, level) for segment in sums.segments]
        super().__init__(segments, sums.guarantee, sums.times)
        self.note = sums.note

    def fits(self, sums: Record, counts: Record) -> bool:
        """Whether this was made of these records in their present state."""
        return self._of == (_extent_of_record(sums), _extent_of_record(counts))


def _extent_of_record(record: Record) -> tuple[int, int, int]:
    """What grows with every block, and when a warm-up is ended early."""
    return record.end, len(record.segments), len(record.segments[-1].blocks)


def given_counts_tell(sums: Record, counts: Record) -> bool:
    """Whether counts can improve these sums: same ticks, and a smaller relative error.

    A node has noise in proportion to θ/ε of sums, and to m/ε′ of m·N̂. Where these are alike there
    is little to gain, and intervals held 90 % of the sums of such a log, not 95 %.
    """
    if (sums.start, sums.end) != (counts.start, counts.end):
        return False
    total, error, (start, end) = _measured_in_record(sums)
    if start == end or error > _KNOWN * total:
        return False
    found = counts.answers([start], [end], _CONFIDENCE, None)
    number = float(found.estimate[0])
    if not found.noise_error[0] < _KNOWN * number:
        return False
    last, bought = sums.segments[-1], counts.segments[-1].method.perturber.epsilon
    theta = last.threshold_value / float(last.method.perturber.epsilon)
    return total / number / float(bought) < _BETTER * theta


def _measured_in_record(sums: Record) -> tuple[float, float, tuple[int, int]]:
    """The whole measured sum, the standard deviation of its noise, and its range."""
    total, variance, start, end = 0.0, 0.0, sums.end, sums.end
    for segment in sums.segments:
        blocks = [one for one in segment.blocks if one.layout.leaves_by(segment.end - one.start)]
        if not segment.measured or not blocks:
            continue
        last, step = blocks[-1], segment.method.step
        start = min(start, blocks[0].start)
        end = last.start + last.layout.edge(last.layout.leaves_by(segment.end - last.start))
        total += segment.leaves.total * step
        for block in blocks:
            variance += block.layout.nodes[0] * block.layout.variances[0] * step**2
    return total, math.sqrt(variance), (start, end)


class SegmentGivenCounts(Segment):
    """A segment as of now, whose whole past is answered with this posterior."""

    def __init__(self, segment: Segment, posterior: SumsGivenCounts) -> None:
        vars(self).update(vars(segment))
        self._given = posterior
        self._known = self.answered = self.closed_view = None

    def _posterior(self, until: int) -> Posterior:
        return self._given if until == self.end else super()._posterior(until)


def _given_to_record(segment: Segment, expected: Expected, level: float) -> Segment:
    estimator = segment.method.estimator
    if not segment.measured or not segment.blocks or not isinstance(estimator, EventMixture):
        return segment
    posterior = SumsGivenCounts(segment.recorded, estimator, expected, level)
    if unlikely_without_counts(segment.recorded, estimator) < posterior.unlikely:
        return segment  # numbers with much noise may tell less than the sums themselves
    return SegmentGivenCounts(segment, posterior)
