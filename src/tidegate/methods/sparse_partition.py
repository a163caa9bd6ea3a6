"""Sparse streams by online partition: segments are closed when enough has come, then counted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Unpack

import numpy as np

from tidegate.errors import SettingError
from tidegate.estimate.segment_sums import SegmentSums
from tidegate.exact_numbers import Number
from tidegate.guarantee import Guarantee
from tidegate.lattice import IntArray
from tidegate.methods._method import Method
from tidegate.methods._shared import HOLDOUT, Common, assembled, budget, preset, truncation
from tidegate.methods.hybrid_counter import HybridNoise, HybridRun, HybridTrees
from tidegate.noise import discrete_laplace
from tidegate.perturb.one_layout import OneLayoutRun
from tidegate.perturb.sampled import IrregularStage, check_scale
from tidegate.randomness import Keystream
from tidegate.run.pipeline import Pipeline
from tidegate.sealing import State, restore, state_of
from tidegate.settings import Epsilon, Exact, Spec, Whole
from tidegate.stages import Layout, Noisy
from tidegate.units import Unit

_HORIZON = 2**16  # a segment ends with it; 16 of them can be queried
_SHARE = Fraction(1, 2)
# A test has noise of scale 2 in this unit: an empty stream is closed every 10,000 values or so.
# The constant is ours.
_LIMIT = Fraction(20)
_DRAWS = 1024  # draws of each kind that are made at once, for as many positions
_TESTS = 1 << 40  # chunks of addresses from here on; the counter has those below
_BY_TEST, _BY_LENGTH = 1, 2  # marks: what closed a segment


@dataclass(frozen=True, kw_only=True, repr=False)
class OnlinePartition(IrregularStage, Spec):
    """Closes a segment when its noisy sum passes a noisy limit, and counts segments.

    **Privacy**: ε = ε_t + ε_c for one replaced value.

    1. *Tests*, ε_t. A segment has a limit T plus discrete Laplace noise of scale s = ⌈2θ/ε_t⌉.
       After each value, the sum of the segment so far plus fresh noise of scale s is compared with
       it; the segment is closed where that is larger, or where a horizon ends. A replaced value
       lies in one segment, and moves the sums from its place on by the same d, |d| ≤ θ. If they
       rise, fix all other noise: with a limit higher by θ and the noise of the closing test higher
       by θ, the same test closes. If they fall, it is enough that the noise of the closing test is
       higher by θ. That costs at most 2θ/s ≤ ε_t. Later segments depend on the value through the
       decision only.
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
    horizon: Whole = Whole(minimum=1, default=_HORIZON)

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise SettingError("share", "must lie between 0 and 1")
        if self.limit < 0:
            raise SettingError("limit", "must be 0 or more")

    @property
    def _tests(self) -> Fraction:
        return self.epsilon * self.share

    @property
    def counter(self) -> HybridTrees:
        """What counts the segments."""
        return HybridTrees(epsilon=self.epsilon - self._tests, horizon=self.horizon)

    @property
    def guarantee(self) -> Guarantee:
        """Tests and sums in sequence."""
        return Guarantee(epsilon=self._tests + Fraction(self.counter.guarantee.epsilon))

    def test_scale(self, threshold: int) -> int:
        """Of the noise of a limit, and of every test."""
        return math.ceil(2 * threshold / self._tests)

    def public_limit(self, threshold: int) -> int:
        """T, in units."""
        return math.ceil(self.limit * threshold / self._tests)

    def sum_law(self, threshold: int) -> HybridNoise:
        """Of the noise of the sums."""
        return self.counter.noise_law(threshold)

    def usual_content(self, threshold: int) -> float:
        """The limit, with the noise of both sides of a test, and the value that passes it."""
        noise = 2 * self.test_scale(threshold)  # √(2s² + 2s²)
        return math.hypot(self.public_limit(threshold), noise) + threshold

    def lengths(self, chunk: int) -> tuple[int, ...]:
        """A horizon: a segment must end with its block."""
        return (self.horizon,)

    def layouts(self, length: int, threshold: int, ceiling: int) -> tuple[Layout, ...]:
        """One: at most a segment a value."""
        return (Layout(length, (length,), min(threshold, ceiling), (), (), consistent=False),)

    def noise_identity(self, threshold: int, ceiling: int) -> str:
        """All that decides about noise."""
        return (
            f"OnlinePartition(threshold={threshold}, test={self.test_scale(threshold)}, "
            f"limit={self.public_limit(threshold)}, horizon={self.horizon}, "
            f"sums={self.sum_law(threshold).identity})"
        )

    def check(self, ceiling: int) -> None:
        """Refuse settings that could overflow 64-bit integers."""
        check_scale(self.test_scale(ceiling))
        self.counter.check(ceiling)

    def start(
        self, threshold: int, ceiling: int, keystream: Keystream, state: State | None = None
    ) -> PartitionRun:
        """Begin to release, or continue from `state`."""
        return PartitionRun(self, threshold, ceiling, keystream, state)


class PartitionRun(OneLayoutRun):
    """Releases the sums of segments. The state is secret: the raw sum of the open segment."""

    STATE: ClassVar[tuple[str, ...]] = ("position", "filled", "total", "limit")

    def __init__(
        self,
        stage: OnlinePartition,
        threshold: int,
        ceiling: int,
        keystream: Keystream,
        state: State | None,
    ) -> None:
        super().__init__(stage, threshold, ceiling, keystream)
        self._scale = Fraction(stage.test_scale(threshold))
        self._public, self._horizon = stage.public_limit(threshold), stage.horizon
        self._drawn: tuple[int, list[IntArray]] | None = None  # for which positions, their noise
        self.position = 0  # values taken
        self.filled = 0  # of them in the open segment
        self.total = 0  # what they add up to
        self.limit = 0  # of the open segment, with its noise
        if state is not None:
            restore(self, state["run"])
        self._sums = HybridRun(
            stage.counter, threshold, ceiling, keystream, None if state is None else state["sums"]
        )

    def __repr__(self) -> str:
        return f"<PartitionRun at {self.position}>"  # public: the position

    def state(self) -> dict[str, Any]:
        """All that is needed to continue."""
        return {"run": state_of(self), "sums": self._sums.state()}

    @property
    def number(self) -> int:
        """There is one block in a horizon."""
        return 0

    def push(self, values: IntArray) -> Noisy:
        """Take raw units, not beyond the block's end; give the sums of the closed segments."""
        values = np.minimum(values, self._threshold)
        released: list[tuple[int, int, int]] = []  # sum, span, mark
        done = 0
        while done < values.size:
            group, index = divmod(self.position, _DRAWS)
            tests, limits = self._noise(group)
            if not self.filled:
                self.limit = self._public + int(limits[index])
            room = self._horizon - self.position % self._horizon
            count = min(values.size - done, _DRAWS - index, room)
            running = np.cumsum(values[done : done + count]) + self.total
            above = running + tests[index : index + count] > self.limit
            first = int(above.argmax())
            passed = bool(above[first])
            taken = first + 1 if passed else count
            self.total = int(running[taken - 1])
            self.filled += taken
            self.position += taken
            done += taken
            if passed or taken == room:
                number = self.total + self._sums.next_noise()
                released.append((number, self.filled, _BY_TEST if passed else _BY_LENGTH))
                self.total = self.filled = 0
        columns = np.array(released, dtype=np.int64).reshape(-1, 3).T
        return Noisy(*(np.ascontiguousarray(column) for column in columns))

    def _noise(self, group: int) -> list[IntArray]:
        """Of 1,024 positions: of the tests, of the limits; by position alone."""
        if self._drawn is None or self._drawn[0] != group:
            chunk, tree = divmod(group, 1 << 32)
            places = [
                self._keystream.at(chunk=_TESTS + chunk, tree=tree, level=at) for at in (0, 1)
            ]
            self._drawn = group, [discrete_laplace(one, _DRAWS, self._scale) for one in places]
        return self._drawn[1]

    def push_one(self, value: int) -> int | None:
        """Not used: irregular spans come in arrays."""
        raise AssertionError("an irregular perturber says more than a number")


@preset
def sparse_partition(
    epsilon: Number,
    bound: Number,
    *,
    horizon: int = _HORIZON,
    holdout: int = HOLDOUT,
    share: Number = _SHARE,
    limit: Number = _LIMIT,
    unit: Unit | None = None,
    **common: Unpack[Common],
) -> Pipeline:
    """Online partition of sparse streams, and a counter of segments. Pure ε-DP, exact arithmetic.

    A segment is closed, privately, when enough has come; its sum is then counted. Nothing is spent
    on stretches where nothing comes: the error grows with the logarithm of what has come.

    Args:
        horizon: a segment ends with it; queries look back on 16 of these.
        holdout: how many values choose the threshold; 0: θ is the bound, as published.
        share: the part of ε that finds segments.
        limit: what a segment is to hold, in θ over the budget of the tests.

    >>> print(sparse_partition(epsilon=1, bound=50, holdout=0).guarantee)
    ε = 1 per event (exact arithmetic, central model)
    """
    unit, per_event, _ = budget(epsilon, unit, None, None, None)
    return assembled(
        threshold=truncation(per_event, bound, holdout),
        perturber=OnlinePartition(epsilon=per_event, share=share, limit=limit, horizon=horizon),
        estimator=SegmentSums(),
        unit=unit,
        **common,
    )


METHOD = Method(
    preset=sparse_partition,
    summary="segments are closed when enough has come, and a counter sums them up",
    when="most values are 0; assumes that the stream's sum is small against its length",
    reference="Dwork, Naor, Reingold, Rothblum, Pure Differential Privacy for Rectangle Queries "
    "via Private Partitions, ASIACRYPT 2015",
    stages=(OnlinePartition, SegmentSums),
    example={"epsilon": 20, "limit": 2},
)
