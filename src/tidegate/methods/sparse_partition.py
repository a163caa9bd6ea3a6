"""Sparse streams by online partition: close a segment when enough has come, then count it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Unpack

import numpy as np

from tidegate.estimate.segment_sums import SegmentSums
from tidegate.exact_numbers import Number
from tidegate.guarantee import Guarantee
from tidegate.lattice import IntArray
from tidegate.methods._budget import per_event
from tidegate.methods._preset import SHORT_HORIZON, PerEvent, preset_with
from tidegate.methods._registration import Method
from tidegate.methods._window_stages import PrivateTestsStage
from tidegate.methods.hybrid_counter import HybridNoise, HybridRun, HybridTrees
from tidegate.perturb.irregular_spans import IrregularRun, check_scale_of_spans
from tidegate.perturb.position_noise import PositionNoise
from tidegate.randomness import Keystream
from tidegate.run.pipeline import Pipeline
from tidegate.settings import Epsilon, Exact, Spec, Whole
from tidegate.stages import Noisy
from tidegate.state_as_bytes import State

_SHARE = Fraction(1, 2)
# A test has noise of scale 1 in this unit, so that an empty stream is hardly ever closed; at 10 it
# would be every 7,000 values, which costs more. The constant is ours, chosen on made-up streams.
_LIMIT = Fraction(20)
_TESTS = 1 << 40  # chunks of addresses from here on; the counter has those below
_LEAST_AHEAD = 32  # values that are tested in an array; shorter segments are tested one by one
_AT_A_TIME = 256
_BY_TEST, _BY_LENGTH = 1, 2  # marks: what closed a segment

_Closed = tuple[list[int], list[int], list[int]]  # segments: raw sums, spans, marks


@dataclass(frozen=True, kw_only=True, repr=False)
class OnlinePartition(PrivateTestsStage, Spec):
    """Closes a segment when its noisy sum exceeds a noisy limit, and releases its sum by a counter.

    **Privacy**: ε = ε_t + ε_c for one replaced value.

    1. *Tests*, ε_t. A segment has a limit T plus discrete Laplace noise of scale s = ⌈θ/ε_t⌉.
       After each value, the sum of the segment so far plus fresh noise of scale s is compared with
       it; the segment is closed where that is larger, or where a horizon ends. A replaced value
       lies in one segment, and moves its sums from that place on by one and the same d, |d| ≤ θ.
       If they rise, take the limit higher by d: tests from there on compare as before, tests before
       it close even less, so the same test closes. If they fall, keep the limit: tests that did not
       close do so even less, and the noise of the one that closed must be higher by |d|. So either
       the noise of the limit or that of one test is moved, never both, and by at most θ: the
       probability of the same decisions changes by a factor of e^(θ/s) ≤ e^ε_t at the most. Later
       segments depend on the value through the decision only. (For questions that may move either
       way, both would have to move: that is where the 2θ/ε_t of other tests comes from.)
    2. *Sums*, ε_c. The sum of every closed segment is released through the hybrid counter
       (`HybridTrees`), one leaf a segment: a value moves one leaf by at most θ.

    The error of a running sum grows with the logarithm of the number of segments, about the sum of
    the stream over T, and not of its length. All of it is integer arithmetic.

    Args:
        epsilon: the budget of every value, of both parts together.
        share: the part of ε that finds segments.
        limit: T, in θ/ε_t.
        horizon: a segment ends with it; queries look back on 16 of these.
    """

    KIND: ClassVar[str] = "methods.OnlinePartition"

    epsilon: Epsilon = Epsilon()
    share: Exact = Exact(default=_SHARE)
    limit: Exact = Exact(default=_LIMIT)
    horizon: Whole = Whole(minimum=1, default=SHORT_HORIZON)

    @property
    def counter(self) -> HybridTrees:
        """The counter that releases the sums of segments."""
        return HybridTrees(epsilon=self.epsilon - self.tests_epsilon, horizon=self.horizon)

    @property
    def guarantee(self) -> Guarantee:
        """Tests and sums in sequence."""
        return Guarantee(epsilon=self.tests_epsilon + Fraction(self.counter.guarantee.epsilon))

    def test_scale(self, threshold: int) -> int:
        """The noise scale of a limit, and of a test."""
        return math.ceil(threshold / self.tests_epsilon)

    def sum_law(self, threshold: int) -> HybridNoise:
        """The law of the noise of the sums."""
        return self.counter.noise_law(threshold)

    def usual_content(self, threshold: int) -> float:
        """The limit, plus the noise of both sides of a test, plus the value that exceeds it."""
        noise = 2 * self.test_scale(threshold)  # √(2s² + 2s²)
        return math.hypot(self.public_limit(threshold), noise) + threshold

    def lengths(self, chunk: int) -> tuple[int, ...]:
        """One block: the horizon; a segment ends with it."""
        return (self.horizon,)

    def noise_identity(self, threshold: int, ceiling: int) -> str:
        """The facts that determine the noise."""
        return (
            f"OnlinePartition(threshold={threshold}, test={self.test_scale(threshold)}, "
            f"limit={self.public_limit(threshold)}, horizon={self.horizon}, "
            f"sums={self.sum_law(threshold).identity})"
        )

    def check(self, ceiling: int) -> Fraction | int:
        """Refuse settings that could overflow 64-bit integers."""
        return max(check_scale_of_spans(self.test_scale(ceiling)), self.counter.check(ceiling))

    def run(self, threshold: int, ceiling: int, keystream: Keystream) -> PartitionRun:
        """A new run, or one resumed from `state`."""
        return PartitionRun(self, threshold, ceiling, keystream)


class PartitionRun(IrregularRun):
    """Releases the sums of segments. The state is secret: the raw sum of the open segment."""

    STATE: ClassVar[tuple[str, ...]] = ("position", "filled", "total", "limit")

    def __init__(
        self, stage: OnlinePartition, threshold: int, ceiling: int, keystream: Keystream
    ) -> None:
        super().__init__(stage, threshold, ceiling, keystream)
        scale = stage.test_scale(threshold)
        self._noise = PositionNoise(keystream, {0: scale, 1: scale}, first_chunk=_TESTS)
        self._public, self._horizon = stage.public_limit(threshold), stage.horizon
        self.filled = 0  # values in the open segment
        self.total = 0  # their sum
        self.limit = 0  # the limit of the open segment, with its noise
        self._ahead = _LEAST_AHEAD
        self._short = True  # segments are: for speed alone
        self._sums = HybridRun(stage.counter, threshold, ceiling, keystream)

    def state(self) -> dict[str, Any]:
        """The state of the segment and of the counter."""
        return {"run": super().state(), "sums": self._sums.state()}

    def restore(self, state: State) -> None:
        """Restore a saved state."""
        super().restore(state["run"])
        self._sums.restore(state["sums"])

    @property
    def number(self) -> int:
        """0: a horizon has one block."""
        return 0

    def push(self, values: IntArray) -> Noisy:
        """Take raw units up to the end of the block; return the sums of the closed segments."""
        values = np.minimum(values, self._threshold)
        closed: _Closed = [], [], []
        done = 0
        while done < values.size:
            (tests, limits), index = self._noise.at(self.position)
            room = self._horizon - self.position % self._horizon
            if not self.filled:
                self.limit = self._public + int(limits[index])
            most = _AT_A_TIME if self._short else self._ahead
            count = min(values.size - done, tests.size - index, room, most)
            part, here = values[done : done + count], slice(index, index + count)
            if self._short:
                taken = self._one_by_one(part, tests[here], limits[here], closed)
            else:
                taken = self._at_once(part, tests[here], closed)
            self.position += taken
            done += taken
            if taken == room and self.filled:
                _close_partition(closed, self.total, self.filled, _BY_LENGTH)
                self.total = self.filled = 0
        sums, spans, marks = (np.array(column, dtype=np.int64) for column in closed)
        return Noisy(sums + self._sums.next_noises(sums.size), spans, marks)

    def _one_by_one(
        self, values: IntArray, tests: IntArray, limits: IntArray, closed: _Closed
    ) -> int:
        """Test values one after another: faster where segments are short."""
        new_limits = (self._public + limits).tolist()
        sums, spans, marks = closed
        total, limit = self.total, self.limit
        opened, segments = -self.filled, len(sums)
        places = range(1, values.size + 1)
        for place, value, test in zip(places, values.tolist(), tests.tolist(), strict=True):
            total += value
            if total + test > limit:
                sums.append(total)
                spans.append(place - opened)
                total, opened = 0, place
                if place < values.size:
                    limit = new_limits[place]
        self.total, self.limit, self.filled = total, limit, values.size - opened
        found = len(sums) - segments
        marks += [_BY_TEST] * found
        self._short = found * _LEAST_AHEAD > values.size
        return values.size

    def _at_once(self, values: IntArray, tests: IntArray, closed: _Closed) -> int:
        """Test values in an array, up to the one that closes the segment; return how many."""
        running = np.cumsum(values) + self.total
        above = running + tests > self.limit
        first = int(above.argmax())
        passed = bool(above[first])
        taken = first + 1 if passed else values.size
        self.total = int(running[taken - 1])
        self.filled += taken
        # How far the next look goes: for speed alone, about as far as segments reach.
        self._ahead = max(_LEAST_AHEAD, 2 * self.filled if passed else 2 * self._ahead)
        if passed:
            self._short = self.filled < _LEAST_AHEAD
            _close_partition(closed, self.total, self.filled, _BY_TEST)
            self.total = self.filled = 0
        return taken


def _close_partition(closed: _Closed, *segment: int) -> None:
    for column, one in zip(closed, segment, strict=True):
        column.append(one)


@preset_with(horizon=SHORT_HORIZON)
def sparse_partition(
    epsilon: Number,
    bound: Number,
    *,
    share: Number = _SHARE,
    limit: Number = _LIMIT,
    **shared: Unpack[PerEvent],
) -> Pipeline:
    """Segments are closed when enough has come, and a counter sums them up.

    Online partition of sparse streams; pure ε-DP in exact arithmetic. A segment is closed,
    privately, when enough has come; its sum is then counted. Nothing is spent on stretches where
    nothing comes: the error grows with the logarithm of what has come.

    When: most values are 0; assumes that the stream's sum is small against its length.
    Reference: Dwork, Naor, Reingold, Rothblum, Pure Differential Privacy for Rectangle Queries via
        Private Partitions, ASIACRYPT 2015.

    Args:
        horizon: a segment ends with it; queries look back on 16 of these.
        share: the part of ε that finds segments.
        limit: what a segment is to hold, in θ over the budget of the tests.

    >>> print(sparse_partition(epsilon=1, bound=50, holdout=0).guarantee)
    ε = 1 per event (exact arithmetic, central model)
    """
    given = per_event(epsilon, bound, shared)
    return given.pipeline(
        OnlinePartition(epsilon=given.epsilon, share=share, limit=limit, horizon=given.horizon),
        SegmentSums(),
    )


METHOD = Method(
    sparse_partition, stages=(OnlinePartition, SegmentSums), example={"epsilon": 20, "limit": 2}
)
