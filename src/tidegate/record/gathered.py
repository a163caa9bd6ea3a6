"""Estimates and variances of ranges, added up over segments, and over keys, before the interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tidegate.lattice import FloatArray, IntArray
from tidegate.record.answers import Answers, normal_quantile
from tidegate.record.segment import Segment
from tidegate.stages import Excess


@dataclass
class Gathered:
    """Everything that an interval needs, one number for each range.

    Attributes:
        estimate: the sums.
        noise, prediction: variances; noise of different segments and keys is independent.
        largest: the largest share of the noise that one node has.
        truncated: expected, fallen, variance and most of what truncation took away.
        doubt: of the factor of that: one factor for all segments and keys, since what is unknown
            of one tail is unknown of all.
        capped: nothing is known of what truncation took away, somewhere.
        caps: lowest and highest cap, and the sum of all; the same of the floors. One row for each
            fact, so that each lies in one piece.
        latest: cap and floor for ranges that are empty.
    """

    estimate: FloatArray
    noise: FloatArray
    prediction: FloatArray
    largest: FloatArray
    truncated: FloatArray
    caps: FloatArray
    latest: tuple[float, float]
    doubt: float = 0.0
    capped: bool = False

    @classmethod
    def empty(cls, ranges: int, threshold: float, floor: float) -> Gathered:
        """Nothing yet; `threshold` and `floor` are said of a range without values."""
        estimate, noise, prediction, largest = np.zeros((4, ranges))
        caps = np.repeat([[np.inf], [-np.inf], [0.0], [-np.inf], [np.inf], [0.0]], ranges, 1)
        truncated, latest = np.zeros((4, ranges)), (threshold, floor)
        return cls(estimate, noise, prediction, largest, truncated, caps, latest)

    def add(self, segment: Segment, begin: IntArray, end: IntArray, as_of: int | None) -> None:
        """Add what a segment has of these ranges."""
        inside = (end > segment.start) & (begin < segment.end)
        if not inside.any():
            return
        here = slice(None) if inside.all() else inside  # no copies where all are inside
        low = np.maximum(begin[here], segment.start)
        high = np.minimum(end[here], segment.end)
        parts = segment.parts(low, high, as_of)
        self.estimate[here] += parts.estimate
        self.noise[here] += parts.noise_variance
        self.prediction[here] += parts.prediction_variance
        self.largest[here] = np.maximum(self.largest[here], parts.largest_variance)
        if parts.excess is None:
            self.capped = True
        else:
            self.truncated[:, here] += parts.excess[:4]
            self.doubt = max(self.doubt, parts.excess.doubt)
        lowest, highest, full = segment.cap_range(low, high)
        caps = self.caps
        caps[0, here] = np.minimum(caps[0, here], lowest)
        caps[1, here] = np.maximum(caps[1, here], highest)
        caps[2, here] += full
        caps[3, here] = np.maximum(caps[3, here], segment.floor)
        caps[4, here] = np.minimum(caps[4, here], segment.floor)
        caps[5, here] += segment.floor * (high - low)

    def join(self, other: Gathered) -> None:
        """Add the same ranges of another stream, whose noise is independent."""
        self.estimate += other.estimate
        self.noise += other.noise
        self.prediction += other.prediction
        self.truncated += other.truncated
        self.largest = np.maximum(self.largest, other.largest)
        for row, fold in enumerate(
            (np.minimum, np.maximum, np.add, np.maximum, np.minimum, np.add)
        ):
            self.caps[row] = fold(self.caps[row], other.caps[row])
        self.latest = min(self.latest[0], other.latest[0]), max(self.latest[1], other.latest[1])
        self.doubt = max(self.doubt, other.doubt)
        self.capped = self.capped or other.capped

    def answers(self, begin: IntArray, end: IntArray, confidence: float) -> Answers:
        """The sums with their intervals."""
        caps, (threshold, floor) = self.caps, self.latest
        nothing = np.isinf(caps[0])  # empty ranges
        caps[:2, nothing], caps[3:5, nothing] = threshold, floor
        expected, fallen, variance, most = self.truncated
        return Answers.around(
            self.estimate,
            begin,
            end,
            noise=self.noise,
            prediction=self.prediction,
            errors=quantile(self.noise, self.largest, confidence),
            excess=None if self.capped else Excess(expected, fallen, variance, most, self.doubt),
            confidence=confidence,
            threshold=float(caps[0].min()) if begin.size else threshold,
            caps=caps.T,
        )


def quantile(variance: FloatArray, largest: FloatArray, confidence: float) -> FloatArray:
    """Half width in standard errors, between the normal and the Laplace quantile."""
    normal = normal_quantile(confidence)
    laplace = -math.log(1 - confidence) / math.sqrt(2)
    # 1 where a single draw is the whole variance, or where there is no noise.
    share = np.divide(largest, variance, out=np.ones_like(variance), where=variance > largest)
    return normal + (laplace - normal) * share
