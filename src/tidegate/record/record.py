"""Range sums over what was released, with intervals. Sees released data only."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tidegate.errors import QueryError, SettingError
from tidegate.exact_numbers import exact, whole
from tidegate.lattice import FloatArray, IntArray
from tidegate.record.answer import answer_out_of_range
from tidegate.record.answer_text import text_with_notes
from tidegate.record.range_queries_and_answers import Answers, RangeQueries, normal_quantile, paired
from tidegate.record.rows_and_levels import small_picture_of_rows
from tidegate.record.segments.segment import Segment
from tidegate.record.segments.segment_codec_and_joining import joined_segments
from tidegate.record.segments.unmeasured_values import unmeasured_as_before
from tidegate.record.threshold_evidence import evidence_aims
from tidegate.record.times import sums_between_times
from tidegate.record.times.many_time_ranges import sums_of_many_time_ranges
from tidegate.record.times.time_index import TimeIndex
from tidegate.record.times.time_ranges_and_tables import Moment, TimeTable
from tidegate.record.unseen_share import UnseenValues
from tidegate.record.unseen_values import unseen_values
from tidegate.stages import NO_AIM, Aim, Excess
from tidegate.tables import html
from tidegate.units import users_note

_SUREST = 1 - 1e-12


@dataclass
class RecordSums:
    """All sums and errors that an interval needs, one entry for each range.

    Attributes:
        estimate: the sums.
        noise, prediction: variances; noise of different segments and keys is independent.
        largest: the largest share of the noise that one node has.
        unseen: how much larger they may be without the choice of a cap having seen it (`Hidden`).
        truncated: what truncation took away (`Excess`). Its ends add up over segments and keys,
            since what is unknown of one tail is unknown of all.
        capped: nothing is known of what truncation took away, somewhere.
        caps: lowest and highest cap, and the sum of all; the same of the floors: a row for each.
        latest: cap and floor for ranges that are empty; bounds: of a value, lower first.
    """

    estimate: FloatArray
    noise: FloatArray
    prediction: FloatArray
    largest: FloatArray
    unseen: FloatArray
    truncated: FloatArray
    caps: FloatArray
    latest: tuple[float, float]
    bounds: tuple[float, float]
    capped: bool = False

    @classmethod
    def empty(cls, ranges: int, last: Segment) -> RecordSums:
        """Zero sums; a range without values gets the threshold and floor of `last`."""
        estimate, noise, prediction, largest, unseen = np.zeros((5, ranges))
        caps = np.repeat([[np.inf], [-np.inf], [0.0], [-np.inf], [np.inf], [0.0]], ranges, 1)
        truncated, method = np.zeros((len(Excess._fields), ranges)), last.method
        ends = (-method.depth * method.step, method.ceiling * method.step)
        latest = last.threshold_value, last.floor
        return cls(estimate, noise, prediction, largest, unseen, truncated, caps, latest, ends)

    def add(
        self,
        segment: Segment,
        begin: IntArray,
        end: IntArray,
        as_of: int | None,
        hidden: UnseenValues,
        aim: Aim,
        before: Segment | None,
    ) -> None:
        """Add the contribution of a segment; `hidden` is what its θ could not see."""
        here, low, high = segment.part_of(begin, end)
        if not low.size:
            return
        parts = segment.parts(low, high, as_of, aim)
        first = segment.blocks[0].first if segment.blocks else 0
        if before is not None and (as_of is not None or segment.leaves.closed <= first):
            parts = unmeasured_as_before(parts, low, high, as_of, before, segment)
        self.estimate[here] += parts.estimate
        self.noise[here] += parts.noise_variance
        self.prediction[here] += parts.prediction_variance
        self.largest[here] = np.maximum(self.largest[here], parts.largest_variance)
        if parts.excess is None:
            self.capped = True
        else:
            excess = parts.excess
            if hidden.share:
                excess, unseen = hidden.added(excess, parts.estimate, high - low, segment)
                self.unseen[here] += unseen
            for total, part in zip(self.truncated, excess, strict=True):
                total[here] += part
        caps, (lowest, highest, full) = self.caps, segment.cap_range(low, high)
        caps[0, here] = np.minimum(caps[0, here], lowest)
        caps[1, here] = np.maximum(caps[1, here], highest)
        caps[2, here] += full
        caps[3, here] = np.maximum(caps[3, here], segment.floor)
        caps[4, here] = np.minimum(caps[4, here], segment.floor)
        caps[5, here] += segment.floor * (high - low)

    def join(self, other: RecordSums) -> None:
        """Add the same ranges of another stream with independent noise."""
        self.estimate += other.estimate
        self.noise += other.noise
        self.prediction += other.prediction
        self.unseen += other.unseen
        self.truncated += other.truncated
        self.largest = np.maximum(self.largest, other.largest)
        for row, fold in enumerate(
            (np.minimum, np.maximum, np.add, np.maximum, np.minimum, np.add)
        ):
            self.caps[row] = fold(self.caps[row], other.caps[row])
        self.latest = min(self.latest[0], other.latest[0]), max(self.latest[1], other.latest[1])
        self.capped = self.capped or other.capped

    def answers(self, begin: IntArray, end: IntArray, confidence: float) -> Answers:
        """The sums with their intervals."""
        caps, (threshold, floor) = self.caps, self.latest
        nothing = np.isinf(caps[0])  # empty ranges
        caps[:2, nothing], caps[3:5, nothing] = threshold, floor
        found = Answers.around(
            self.estimate,
            begin,
            end,
            noise=self.noise,
            prediction=self.prediction,
            errors=error_multiple(self.noise, self.largest, confidence),
            excess=None if self.capped else Excess(*self.truncated),
            confidence=confidence,
            threshold=float(caps[0].min()) if begin.size else threshold,
            caps=caps.T,
            unseen=self.unseen if self.unseen.any() else None,
        )
        found = replace(found, lower=self.bounds[0], bound=self.bounds[1])
        return found.within_bounds(end - begin)


class Record(RangeQueries):
    """The released block sums: one segment for each threshold.

    Position p counts released values from 0. One before a gap of forgotten blocks is forgotten too.
    """

    def __init__(
        self, segments: Sequence[Segment], guarantee: str = "", times: TimeIndex | None = None
    ) -> None:
        self.segments = _segments_without_gaps(segments)
        self.guarantee, self.times, self.note = guarantee, times, users_note(guarantee)

    def __repr__(self) -> str:
        known = f"[{self.start}, {self.end})" if self.segments else "nothing"
        return f"<Record of {known}; {self.guarantee}>"

    def _repr_html_(self) -> str:
        known = f"[{self.start:,}, {self.end:,})" if self.segments else "nothing"
        rows = [("positions", known), ("guarantee", self.guarantee)]
        return html.facts("Record of a release", rows, small_picture_of_rows(self))

    @property
    def start(self) -> int:
        """The first position that can still be queried."""
        return self.segments[0].start

    @property
    def end(self) -> int:
        """The position after the last released value."""
        return self.segments[-1].end

    def _unseen(self, as_of: int | None = None) -> list[UnseenValues]:
        """What may be hidden in each segment (`unseen_values`), cached."""
        last = self.segments[-1]
        key = self.segments[0].start, last.origin, last.end, as_of
        if last.known_unseen is None or last.known_unseen[0] != key:
            last.known_unseen = key, tuple(unseen_values(self.segments, as_of))
        return [UnseenValues(*found) for found in last.known_unseen[1]]

    def joined(self, later: Record) -> Record:
        """This record followed by a later one of the same release."""
        segments = joined_segments(self.segments, later.segments)
        return Record(segments, later.guarantee, later.times)

    def _answered(self, ask: Callable[[Record], Answers]) -> Answers:
        return ask(self)

    def answers(
        self, starts: ArrayLike, ends: ArrayLike, confidence: float, as_of: int | None
    ) -> Answers:
        """The sums over many ranges [start, end) at once.

        Answers use everything released so far, which costs no privacy; `as_of=t`: what was released
        up to position t. Adaptive releases answer with posterior means. Where blocks have one size,
        sums of whole blocks are final; inside a block that a range cuts, a line through the block
        sums replaces the predictions once these are known (`tidegate.estimate.block_posterior`).

        The noise part is exact: the covariance of the published noise, for each range. Inside the
        open block, the variance after k of B values is estimated as (k/B)²·D² + k(1 − k/B)·max(p(θ
        − p), θ²/16): D² is the mean squared prediction error of the last 16 block sums (with noise:
        conservative), the rest the largest variance of independent values in [0, θ] with mean p.
        """
        confidence = record_confidence(confidence)
        begin, end = self.checked(starts, ends)
        if as_of is not None:
            as_of = whole("as_of", as_of, minimum=0)
            if end.size and not int(end.max()) <= as_of <= self.end:
                raise QueryError(f"as_of={as_of} must lie between the range's end and {self.end}")
        found = self.gathered(begin, end, as_of).answers(begin, end, confidence)
        return text_with_notes(found, self.note) if self.note else found

    def gathered(self, begin: IntArray, end: IntArray, as_of: int | None) -> RecordSums:
        """The segments' sums and errors for these ranges, added up, without intervals."""
        last = self.segments[-1]
        found = RecordSums.empty(begin.size, last)
        before, parts = None, (self.segments, self._unseen(as_of), self.aims(as_of))
        for segment, hidden, aim in zip(*parts, strict=True):
            found.add(segment, begin, end, as_of, hidden, aim, before)
            before = segment
        return found

    def aims(self, as_of: int | None) -> list[Aim]:
        """What the phases tell about each other's thresholds; cached until more is released."""
        last = self.segments[-1]
        if last.method.estimator.adds_up:
            return [NO_AIM] * len(self.segments)
        asked = self.segments[0].start, last.end, len(self.segments), as_of
        if last.aims is None or last.aims[0] != asked:
            last.aims = asked, evidence_aims(self.segments, as_of)
        return last.aims[1]

    @property
    def time_index(self) -> TimeIndex:
        """The index of times; refuses values without times."""
        if self.times is None:
            raise QueryError("there are no times: ask by position, or release with times (--time)")
        return self.times

    def answers_between(
        self, from_: Moment | None, to: Moment | None, confidence: float, as_of: int | None
    ) -> Answers:
        """The sum over one range of time."""
        return sums_between_times.sum_between_times(self, from_, to, confidence, as_of)

    def answers_by_time(
        self, starts: Any, ends: Any, confidence: float, as_of: int | None
    ) -> Answers:
        """The sums over many ranges of time at once."""
        return sums_of_many_time_ranges(self, starts, ends, confidence, as_of)

    def table_of(
        self, every: str, from_: Moment | None, to: Moment | None, confidence: float
    ) -> TimeTable:
        """The sums over the parts of a range of time."""
        return sums_between_times.sums_between_times_by(self, every, from_, to, confidence)

    def checked(self, starts: ArrayLike, ends: ArrayLike) -> tuple[IntArray, IntArray]:
        """The ranges as arrays; refuses ranges outside this record."""
        begin, end = paired(starts, ends)
        wrong = np.flatnonzero((begin > end) | (begin < self.start) | (end > self.end))
        if wrong.size:
            raise QueryError(
                answer_out_of_range(int(begin[wrong[0]]), int(end[wrong[0]]), self.start, self.end)
            )
        return begin, end


def _segments_without_gaps(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """The last segments that follow each other without a gap."""
    for at in range(len(segments) - 1, 0, -1):
        if segments[at].start > segments[at - 1].end:
            return tuple(segments[at:])
    return tuple(segments)


def record_confidence(confidence: float) -> float:
    """Check a confidence level: between 0 and 1, with a quantile that floats can express."""
    if type(confidence) is float and 0 < confidence <= _SUREST:
        return confidence
    if not 0 < exact("confidence", confidence) <= _SUREST:
        raise SettingError("confidence", "must lie between 0 and 1: 95 % is 0.95")
    return float(confidence)


def error_multiple(variance: FloatArray, largest: FloatArray, confidence: float) -> FloatArray:
    """The half width in standard errors, between the normal and the Laplace quantile."""
    normal = normal_quantile(confidence)
    laplace = -math.log(1 - confidence) / math.sqrt(2)
    # 1 where a single draw is the whole variance, or where there is no noise.
    share = np.divide(largest, variance, out=np.ones_like(variance), where=variance > largest)
    return normal + (laplace - normal) * share
