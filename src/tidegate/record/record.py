"""Range sums over what was released, with intervals. Sees released data only."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from tidegate.errors import QueryError, SettingError
from tidegate.exact_numbers import exact, whole
from tidegate.lattice import FloatArray, IntArray
from tidegate.record.answers import Answers, RangeQueries, normal_quantile
from tidegate.record.late_rows import counted_by_time, moves
from tidegate.record.moving_average import small_picture
from tidegate.record.segment import NOT_ONE_RELEASE, WARMING, Segment
from tidegate.record.time_index import TimeIndex
from tidegate.record.time_ranges import Moment, TimeTable, asked, check_rows, edges, reach
from tidegate.stages import Excess
from tidegate.tables import html

_FARTHEST = (1 << 63) - 1


class Record(RangeQueries):
    """The released block sums: one segment for each threshold.

    Position p counts released values from 0.
    """

    def __init__(
        self, segments: Sequence[Segment], guarantee: str = "", times: TimeIndex | None = None
    ) -> None:
        self.segments = tuple(segments)
        self.guarantee = guarantee
        self.times = times

    def __repr__(self) -> str:
        known = f"[{self.start}, {self.end})" if self.segments else "nothing"
        return f"<Record of {known}; {self.guarantee}>"

    def _repr_html_(self) -> str:
        known = f"[{self.start:,}, {self.end:,})" if self.segments else "nothing"
        rows = [("positions", known), ("guarantee", self.guarantee)]
        return html.facts("Record of a release", rows, small_picture(self))

    @property
    def start(self) -> int:
        """The first position that can still be asked about."""
        return self.segments[0].start

    @property
    def end(self) -> int:
        """The position after the last released value."""
        return self.segments[-1].end

    def joined(self, later: Record) -> Record:
        """This record joined with a later one of the same release."""
        # An open warm-up is known better by now, or part of the later record.
        by_epoch = {one.epoch: one for one in self.segments if one.epoch != WARMING}
        for segment in later.segments:
            known = by_epoch.get(segment.epoch)
            by_epoch[segment.epoch] = segment if known is None else known.joined(segment)
        segments = list(by_epoch.values())
        if any(after.start != before.end for before, after in pairwise(segments)):
            raise QueryError(NOT_ONE_RELEASE)
        return Record(segments, later.guarantee, later.times)

    def _answered(self, ask: Callable[[Record], Answers]) -> Answers:
        return ask(self)

    def answers(
        self, starts: ArrayLike, ends: ArrayLike, confidence: float, as_of: int | None
    ) -> Answers:
        """The sums over many ranges [start, end) at once.

        Answers use everything released so far, which costs no privacy; `as_of=t` gives the answer
        from what was released up to position t. Adaptive releases answer with posterior means.
        Where blocks have one size, sums of whole blocks are final; inside a block that a range
        cuts, the released values were predictions, and are replaced by a line through the block
        sums once these are known (`tidegate.estimate.block_shape`).

        The noise part is exact: the covariance of the published noise, for each range. Inside the
        block that is still open, the variance after k of B values is estimated as (k/B)²·D² +
        k(1 − k/B)·max(p(θ − p), θ²/16): D² is the mean squared prediction error of the last 16
        block sums (it includes noise, which is conservative), and the second term is the largest
        variance that independent values in [0, θ] with mean p can have. The quantile lies between
        the normal one (many nodes) and the Laplace one (a single node), by the largest share that
        one node can have of the variance.
        """
        confidence = checked_confidence(confidence)
        begin, end = self._checked(starts, ends)
        if as_of is not None:
            as_of = whole("as_of", as_of, minimum=0)
            if end.size and not int(end.max()) <= as_of <= self.end:
                raise QueryError(f"as_of={as_of} must lie between the range's end and {self.end}")
        estimate, noise, prediction = (np.zeros(begin.size) for _ in range(3))
        largest, capped, doubt = np.zeros(begin.size), False, 0.0
        truncated = np.zeros((4, begin.size))
        # One row for each fact, so that each lies in one piece.
        caps = np.repeat([[np.inf], [-np.inf], [0.0], [-np.inf], [np.inf], [0.0]], begin.size, 1)
        for segment in self.segments:
            inside = (end > segment.start) & (begin < segment.end)
            if inside.any():
                here = slice(None) if inside.all() else inside  # no copies where all are inside
                low = np.maximum(begin[here], segment.start)
                high = np.minimum(end[here], segment.end)
                parts = segment.parts(low, high, as_of)
                estimate[here] += parts.estimate
                noise[here] += parts.noise_variance
                prediction[here] += parts.prediction_variance
                largest[here] = np.maximum(largest[here], parts.largest_variance)
                if parts.excess is None:
                    capped = True
                else:  # one factor for all: what is unknown of a tail is unknown everywhere
                    truncated[:, here] += parts.excess[:4]
                    doubt = max(doubt, parts.excess.doubt)
                lowest, highest, full = segment.cap_range(low, high)
                caps[0, here] = np.minimum(caps[0, here], lowest)
                caps[1, here] = np.maximum(caps[1, here], highest)
                caps[2, here] += full
                caps[3, here] = np.maximum(caps[3, here], segment.floor)
                caps[4, here] = np.minimum(caps[4, here], segment.floor)
                caps[5, here] += segment.floor * (high - low)
        latest = self.segments[-1].threshold_value
        nothing = np.isinf(caps[0])  # empty ranges
        caps[:2, nothing], caps[3:5, nothing] = latest, self.segments[-1].floor
        return Answers.around(
            estimate,
            begin,
            end,
            noise=noise,
            prediction=prediction,
            errors=quantile(noise, largest, confidence),
            excess=None if capped else _excess(truncated, doubt),
            confidence=confidence,
            threshold=float(caps[0].min()) if begin.size else latest,
            caps=caps.T,
        )

    @property
    def time_index(self) -> TimeIndex:
        """Where which time is.

        Raises:
            QueryError: values have no times.
        """
        if self.times is None:
            raise QueryError("the values of this release have no times: ask by position")
        return self.times

    def answers_between(
        self, from_: Moment | None, to: Moment | None, confidence: float, as_of: int | None
    ) -> Answers:
        """The sum over a range of time: of all rows with from ≤ time < to.

        Raises:
            QueryError: there is no such row.
        """
        index = self.time_index
        cuts = asked(index, from_, to)
        return self._sums_by_time(index, cuts, index.positions(cuts), confidence, as_of)[0]

    def table_of(
        self, every: str, from_: Moment | None, to: Moment | None, confidence: float
    ) -> TimeTable:
        """The sums over the parts of a range of time.

        Raises:
            QueryError: there is no row in the whole range.
        """
        index = self.time_index
        cuts = edges(index, every, from_, to)
        places = np.clip(index.positions(cuts), self.start, self.end)
        answers, rows = self._sums_by_time(index, cuts, places, confidence, None)
        return TimeTable(answers, cuts, index.clock, rows)

    def _sums_by_time(
        self,
        index: TimeIndex,
        cuts: IntArray,
        places: IntArray,
        confidence: float,
        as_of: int | None,
    ) -> tuple[Answers, IntArray]:
        sums = self.answers(places[:-1], places[1:], confidence, as_of)
        moved = moves(index, cuts, places, (self.start, self.end if as_of is None else as_of))
        found, rows = counted_by_time(
            sums, moved, lambda starts, ends: self.answers(starts, ends, confidence, as_of)
        )
        check_rows(index, rows)
        late = int((moved.end - moved.start).sum())
        counted = f"{late:,} late rows count where their own time lies." if late else ""
        note = " ".join(filter(None, (counted, reach(index, cuts))))
        return (replace(found, note=note) if note else found), rows

    def _checked(self, starts: ArrayLike, ends: ArrayLike) -> tuple[IntArray, IntArray]:
        begin, end = paired(starts, ends)
        wrong = np.flatnonzero((begin > end) | (begin < self.start) | (end > self.end))
        if wrong.size:
            raise QueryError(self._complaint(int(begin[wrong[0]]), int(end[wrong[0]])))
        return begin, end

    def _complaint(self, start: int, end: int) -> str:
        if start > end:
            return f"range [{start}, {end}) ends before it starts"
        if end > self.end:
            return f"range [{start}, {end}) reaches beyond the {self.end} values released so far"
        if start < 0:
            return f"range [{start}, {end}) starts before the first released value"
        return (
            f"range [{start}, {end}) is older than the record, which begins at {self.start}: ask a "
            "stored record, or keep more with `history` (a fork's record begins where it branched)"
        )


def _excess(sums: FloatArray, doubt: float) -> Excess:
    expected, fallen, variance, most = sums
    return Excess(expected, fallen, variance, most, doubt)


def paired(starts: ArrayLike, ends: ArrayLike) -> tuple[IntArray, IntArray]:
    """Starts and ends as integer arrays of one length."""
    pair = []
    for name, positions in (("starts", starts), ("ends", ends)):
        array = np.asarray(positions)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise QueryError(f"{name} must be a one-dimensional array of integer positions")
        if array.dtype == np.uint64:  # may not fit int64; such positions are beyond every release
            array = np.minimum(array, np.uint64(_FARTHEST))
        pair.append(array.astype(np.int64))
    begin, end = pair
    if begin.size != end.size:
        raise QueryError(f"{begin.size} starts but {end.size} ends")
    return begin, end


def checked_confidence(confidence: float) -> float:
    """A confidence level strictly between 0 and 1."""
    if type(confidence) is float and 0 < confidence < 1:
        return confidence
    if not 0 < exact("confidence", confidence) < 1:
        raise SettingError("confidence", f"must lie between 0 and 1, not {confidence}")
    return float(confidence)


def quantile(variance: FloatArray, largest: FloatArray, confidence: float) -> FloatArray:
    """Half width in standard errors, between the normal and the Laplace quantile."""
    normal = normal_quantile(confidence)
    laplace = -math.log(1 - confidence) / math.sqrt(2)
    # 1 where a single draw is the whole variance, or where there is no noise.
    share = np.divide(largest, variance, out=np.ones_like(variance), where=variance > largest)
    return normal + (laplace - normal) * share
