r"""The hybrid counter: running sums of a stream without a horizon; its noise never restarts.

values   |0|1 2|3 4 5 6|7 … 14|15 …        segment k has 2^k values
nodes     o  o    o       o                one of each complete segment, with half of ε,
                 / \     / \               and a binary tree inside each, with the other half
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Unpack

import numpy as np

from tidegate.exact_numbers import Number
from tidegate.guarantee import Guarantee
from tidegate.lattice import FloatArray, IntArray
from tidegate.methods._budget import per_event
from tidegate.methods._preset import PerEvent, preset
from tidegate.methods._registration import Method
from tidegate.noise import discrete_laplace, discrete_laplace_variance
from tidegate.perturb.consistency import prefix_leaves
from tidegate.perturb.level_scales import check_headroom, level_scales
from tidegate.perturb.one_layout import OneLayoutRun
from tidegate.perturb.running_sum_and_gaussian_stages import RunningSumStage
from tidegate.randomness import Keystream
from tidegate.run.pipeline import Pipeline
from tidegate.settings import Epsilon, Spec, Whole
from tidegate.stages import NO_SUMS, Noisy

_BITS = 12  # noise is made for 2^12 values at once; part of its identity
_SEGMENTS = _BITS + 32  # what the address of noise has room for: 2^44 values
_WHOLE = 255  # the level of a segment's own draw, in addresses
_HALF = Fraction(1, 2)


@dataclass(frozen=True)
class HybridNoise:
    """The noise of an endless stream: `whole` is the scale of a segment's own node, `inside[k]`
    that of every node of the tree inside segment k, which has the levels 0 to k − 1.
    """

    whole: Fraction
    inside: tuple[Fraction, ...]

    @property
    def identity(self) -> str:
        """The facts that determine the noise. Part of its key: never change it."""
        return f"Hybrid(whole={self.whole}, inside={self.inside}, bits={_BITS})"

    # -- the law of the noise, for error bars ---------------------------------------------------

    @cached_property
    def _variances(self) -> FloatArray:
        return np.array([discrete_laplace_variance(scale) for scale in self.inside])

    @property
    def variances(self) -> tuple[float, ...]:
        """None: the variance depends on the position."""
        return ()

    @property
    def largest_variance(self) -> float:
        """Variance of the noisiest node of the first 2^30 values."""
        return float(self._variances[:30].max())

    def range_variance(self, starts: IntArray, ends: IntArray) -> FloatArray:
        """Exact variance of the noise in the sum of values [start, end), in units².

        In different segments, the two running sums share the nodes of the segments before the
        first; in one segment, the nodes of the tree that the digits of both name.
        """
        first, into = segment_of(starts)
        last, beyond = segment_of(ends)
        same = first == last
        segments = discrete_laplace_variance(self.whole) * (last - first)
        lower, upper, shared = np.zeros((3, starts.size))
        for level in range(int(last.max(initial=0))):
            left, right = into >> level, beyond >> level
            lower += left & 1
            upper += right & 1
            shared += np.where(left >> 1 == right >> 1, right - left, (left & 1) + (right & 1))
        apart = segments + lower * self._variances[first] + upper * self._variances[last]
        found: FloatArray = np.where(same, shared * self._variances[first], apart)
        return found


def segment_of(positions: IntArray) -> tuple[IntArray, IntArray]:
    """The segment that a value lies in, and how many values of the segment come before it.

    >>> segment_of(np.array([0, 1, 2, 3, 14, 15]))
    (array([0, 1, 1, 2, 3, 4]), array([0, 0, 1, 0, 7, 0]))
    """
    _, bits = np.frexp((positions + 1).astype(np.float64))  # exact below 2^53
    segment: IntArray = bits.astype(np.int64) - 1
    return segment, positions + 1 - (np.int64(1) << segment)


@dataclass(frozen=True, kw_only=True, repr=False)
class HybridTrees(RunningSumStage, Spec):
    """Discrete Laplace noise on segments that double, and on binary trees inside them.

    **Privacy**: pure ε for one replaced value. Value t lies in one segment, whose own node gets
    noise of scale θ/(ε/2) or a little more, and in one node per level of the tree inside it: k
    nodes in segment k, whose scales satisfy Σ θ/scale ≤ ε/2 exactly. A replaced value moves each of
    these by at most θ: ε in sequence. Released are running sums: the nodes of the complete
    segments, and those that the binary digits of the place inside the open segment name. They hold
    the values exactly once, so this is a function of the noisy nodes; the draws do not depend on
    values. No horizon is needed: noise of segment k is scaled by k alone.

    (As published, the tree inside a segment has a root too, which no running sum uses: here its
    share goes to the other levels.)

    Args:
        epsilon: the budget of the stream.
        horizon: queries look back on 16 of these; the noise knows no horizon.
    """

    KIND: ClassVar[str] = "methods.HybridTrees"

    epsilon: Epsilon = Epsilon()
    horizon: Whole = Whole(minimum=1)

    @property
    def guarantee(self) -> Guarantee:
        """A segment's node and the tree inside it, in sequence; segments in parallel."""
        return Guarantee(epsilon=_HALF * self.epsilon + _HALF * self.epsilon)

    def noise_law(self, threshold: int) -> HybridNoise:
        """The noise for values truncated at `threshold` units."""
        half = self.epsilon * _HALF
        shares = [Fraction(1, max(1, k)) for k in range(_SEGMENTS)]  # of each of k levels
        inside = [level_scales(threshold, half, (share,))[0] for share in shares]
        return HybridNoise(inside[0], tuple(inside))

    def check(self, ceiling: int) -> Fraction | int:
        """Refuse settings that could overflow 64-bit integers."""
        shares = (Fraction(1, 2 * _SEGMENTS),) * _SEGMENTS
        return check_headroom(ceiling, self.epsilon, shares, draws=4 * _SEGMENTS, values=1 << 20)

    def run(self, threshold: int, ceiling: int, keystream: Keystream) -> HybridRun:  # type: ignore[override]
        """A new run, or one resumed from `state`."""
        return HybridRun(self, threshold, ceiling, keystream)


class HybridRun(OneLayoutRun):
    """Releases every value with the noise of its running sum, less that of the one before."""

    STATE: ClassVar[tuple[str, ...]] = ("position",)

    def __init__(
        self, stage: HybridTrees, threshold: int, ceiling: int, keystream: Keystream
    ) -> None:
        super().__init__(stage, threshold, ceiling, keystream)
        self._law = stage.noise_law(threshold)
        self._noise = NO_SUMS
        self._start = 0  # position of the first value that `_noise` is for
        self._upper: dict[tuple[int, int, int], int] = {}  # draws that running sums still need
        self.position = 0  # values taken: enough, since noise is found by position

    @property
    def number(self) -> int:
        """0: there is one endless block."""
        return 0

    def push(self, values: IntArray) -> Noisy:
        """Take raw units; return each with its noise."""
        return Noisy(np.minimum(values, self._threshold) + self.next_noises(values.size))

    def push_one(self, value: int) -> int | None:
        """Push one value."""
        noise: int = self._coming().item(0)
        self.position += 1
        return min(value, self._threshold) + noise

    def next_noises(self, count: int) -> IntArray:
        """The noise of the next values, which count as taken."""
        found = np.empty(count, dtype=np.int64)
        done = 0
        while done < count:
            noise = self._coming()[: count - done]
            found[done : done + noise.size] = noise
            self.position += noise.size
            done += noise.size
        return found

    def _coming(self) -> IntArray:
        """The noise of the next values, of one at least."""
        place = self.position - self._start
        if not 0 <= place < self._noise.size:
            (segment,), (inside,) = segment_of(np.array([self.position]))
            part = int(inside) >> _BITS
            self._start = self.position - int(inside) + (part << _BITS)
            self._noise = self._made(int(segment), part)
            place = self.position - self._start
        return self._noise[place:]

    def _made(self, segment: int, part: int) -> IntArray:
        """The noise of a whole small segment, or of 2^12 values of a larger one."""
        levels = min(segment, _BITS)
        parts = 1 << (segment - levels)
        nodes = [
            self._draws(segment, part, level, 1 << (levels - level)) for level in range(levels)
        ]
        if part + 1 == parts:  # the segment is complete: its own draw is all that remains
            after = self._draw(segment, 0, _WHOLE)
        else:
            after = self._before(segment, part + 1)
        ends = after - self._before(segment, part)
        return prefix_leaves([*nodes, np.array([ends])], 2)

    def _before(self, segment: int, part: int) -> int:
        """The noise of the segment's running sum before this part: nodes of ≥ 2^12 values."""
        bits = [level for level in range(part.bit_length()) if part >> level & 1]
        named = [(segment, (part >> level) - 1, _BITS + level) for level in bits]
        kept = self._upper
        self._upper = {key: kept[key] if key in kept else self._draw(*key) for key in named}
        return sum(self._upper.values())

    def _draw(self, segment: int, node: int, level: int) -> int:
        return int(self._draws(segment, node, level, 1)[0])

    def _draws(self, segment: int, tree: int, level: int, count: int) -> IntArray:
        words = self._keystream.at(chunk=segment, tree=tree, level=level)
        scale = self._law.whole if level == _WHOLE else self._law.inside[segment]
        return discrete_laplace(words, count, scale)


@preset
def hybrid_counter(epsilon: Number, bound: Number, **shared: Unpack[PerEvent]) -> Pipeline:
    """Running sums without a horizon: segments that double, and a binary tree inside each.

    The hybrid counter; pure ε-DP in exact arithmetic. The error of a running sum grows with the
    logarithm of the time so far: it is small at first.

    When: the length is unknown and noise must not restart; assumes that early sums matter most.
    Reference: Chan, Shi, Song, Private and Continual Release of Statistics, TISSEC 2011 (the
        hybrid mechanism).

    Args:
        horizon: queries look back on 16 of these; the noise knows no horizon.

    >>> print(hybrid_counter(epsilon=1, bound=50, holdout=0).guarantee)
    ε = 1 per event (exact arithmetic, central model)
    """
    given = per_event(epsilon, bound, shared)
    return given.pipeline(HybridTrees(epsilon=given.epsilon, horizon=given.horizon))


METHOD = Method(hybrid_counter, stages=(HybridTrees,))
