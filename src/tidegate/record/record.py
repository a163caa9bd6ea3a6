"""Range sums over what was released, with intervals. Sees released data only."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from tidegate.errors import QueryError, SettingError
from tidegate.exact_numbers import exact, whole
from tidegate.lattice import FloatArray, IntArray
from tidegate.record.answer import Answers, RangeQueries
from tidegate.record.segment import NOT_ONE_RELEASE, WARMING, Segment

_FARTHEST = (1 << 63) - 1


class Record(RangeQueries):
    """The released block sums: one segment for each threshold.

    Position p counts released values from 0.
    """

    def __init__(self, segments: Sequence[Segment], guarantee: str = "") -> None:
        self.segments = tuple(segments)
        self.guarantee = guarantee

    def __repr__(self) -> str:
        known = f"[{self.start}, {self.end})" if self.segments else "nothing"
        return f"<Record of {known}; {self.guarantee}>"

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
        return Record(segments, later.guarantee)

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
        allowance = np.zeros(begin.size)
        estimate, noise, prediction = (np.zeros(begin.size) for _ in range(3))
        largest = np.zeros(begin.size)
        caps = np.tile((np.inf, 0.0, 0.0), (begin.size, 1))
        for segment in self.segments:
            inside = (end > segment.start) & (begin < segment.end)
            if inside.any():
                low = np.maximum(begin[inside], segment.start)
                high = np.minimum(end[inside], segment.end)
                parts = segment.parts(low, high, as_of)
                allowance[inside] += parts.allowance
                estimate[inside] += parts.estimate
                noise[inside] += parts.noise_variance
                prediction[inside] += parts.prediction_variance
                largest[inside] = np.maximum(largest[inside], parts.largest_variance)
                lowest, highest, full = segment.cap_range(low, high)
                caps[inside, 0] = np.minimum(caps[inside, 0], lowest)
                caps[inside, 1] = np.maximum(caps[inside, 1], highest)
                caps[inside, 2] += full
        latest = self.segments[-1].threshold_value
        caps[caps[:, 1] == 0.0, :2] = latest  # of empty ranges
        return Answers.around(
            estimate,
            begin,
            end,
            noise=noise,
            prediction=prediction,
            errors=quantile(noise, largest, confidence),
            allowance=allowance,
            confidence=confidence,
            threshold=float(caps[:, 0].min()) if begin.size else latest,
            caps=caps,
        )

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
    from statistics import NormalDist  # on demand: importing it is slow

    normal = NormalDist().inv_cdf((1 + confidence) / 2)
    laplace = -math.log(1 - confidence) / math.sqrt(2)
    # 1 where a single draw is the whole variance, or where there is no noise.
    share = np.divide(largest, variance, out=np.ones_like(variance), where=variance > largest)
    return normal + (laplace - normal) * share
