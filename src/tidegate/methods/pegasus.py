"""PeGaSus: noise on every value, groups of similar values found privately, means of groups."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Unpack

import numpy as np

from tidegate.estimate.group_means import JOINS, OPENS, GroupMeans
from tidegate.estimate.group_medians import GroupMedians
from tidegate.exact_numbers import Number
from tidegate.guarantee import Guarantee
from tidegate.lattice import IntArray
from tidegate.methods._budget import per_event
from tidegate.methods._pegasus_groups import LONGEST, PegasusGrouping
from tidegate.methods._preset import SHORT_HORIZON, PerEvent, preset_with
from tidegate.methods._registration import Method
from tidegate.methods._window_stages import PrivateTestsStage
from tidegate.perturb.irregular_spans import IrregularRun, check_scale_of_spans
from tidegate.perturb.position_noise import PositionNoise
from tidegate.randomness import Keystream
from tidegate.run.pipeline import Pipeline
from tidegate.settings import Epsilon, Exact, Spec, Whole, flag
from tidegate.stages import Noisy
from tidegate.state_as_bytes import State

_SHARE = Fraction(1, 5)  # share of ε for the groups
# A group's deviation is compared with as many θ over the budget of the groups. The constant is
# ours. Published is 5: the noise of a test has scale 8 in this unit, so equal values part after
# three (docs/research/pegasus.md compares).
_LIMIT = Fraction(40)


@dataclass(frozen=True, kw_only=True, repr=False)
class GroupedValues(PrivateTestsStage, Spec):
    """Noise on every value, and the places where groups of similar values begin.

    **Privacy**: ε = ε_p + ε_g for one replaced value. Released at each position

    1. x plus discrete Laplace noise of scale ⌈θ/ε_p⌉: a value is released once, ε_p;
    2. whether it opens a group or joins that of the value before. A group that opens gets a limit
       T plus discrete Laplace noise of scale ⌈2Δ/ε_g⌉. Each following value is tested: with D =
       ⌊Σ |x − mean|⌋ over the group and the value, it joins if D plus noise of scale ⌈4Δ/ε_g⌉ lies
       below the limit. Else it is a group by itself, and both groups are closed: the next value
       opens a new one without a test. A group of 2^14 values, or a horizon, is closed by length.

    A replaced value moves Σ |x − mean| by less than 2θ: itself by θ(1 − 1/n), and each of the n − 1
    others by θ/n through the mean. So D moves by at most Δ = 2θ. A value is tested in one group
    only, since a value that fails is not used again. Fix all other noise: where the limit is higher
    by Δ and the noise of the test that fails by 2Δ, a neighbouring stream gives the same
    decisions. That costs Δ/⌈2Δ/ε_g⌉ + 2Δ/⌈4Δ/ε_g⌉ ≤ ε_g. Groups before do not see the value;
    groups after depend on it through what was decided only. All of it is integer arithmetic.

    Args:
        epsilon: the budget of every value, of both parts together.
        share: the part of ε that finds groups.
        limit: T, in θ/ε_g.
        horizon: queries look back on 16 of these.
    """

    KIND: ClassVar[str] = "methods.GroupedValues"

    epsilon: Epsilon = Epsilon()
    share: Exact = Exact(default=_SHARE)
    limit: Exact = Exact(default=_LIMIT)
    horizon: Whole = Whole(minimum=1, default=SHORT_HORIZON)

    @property
    def guarantee(self) -> Guarantee:
        """Values and groups in sequence."""
        return Guarantee(epsilon=(self.epsilon - self.tests_epsilon) + self.tests_epsilon)

    def value_scale(self, threshold: int) -> int:
        """The noise scale of a value."""
        return math.ceil(threshold / (self.epsilon - self.tests_epsilon))

    def limit_scale(self, threshold: int) -> int:
        """The noise scale of a group's limit."""
        return math.ceil(4 * threshold / self.tests_epsilon)

    def test_scale(self, threshold: int) -> int:
        """The noise scale of a test."""
        return math.ceil(8 * threshold / self.tests_epsilon)

    def usual_deviation(self, threshold: int) -> float:
        """The limit plus the noise of both sides of a test."""
        scales = self.limit_scale(threshold), self.test_scale(threshold)
        return math.hypot(self.public_limit(threshold), *(math.sqrt(2) * one for one in scales))

    @property
    def longest(self) -> int:
        """The largest number of values in a group."""
        return min(LONGEST, self.horizon)

    def noise_identity(self, threshold: int, ceiling: int) -> str:
        """The facts that determine the noise: scales, limit and lengths."""
        return (
            f"GroupedValues(threshold={threshold}, value={self.value_scale(threshold)}, "
            f"limit={self.limit_scale(threshold)}, test={self.test_scale(threshold)}, "
            f"public={self.public_limit(threshold)}, longest={self.longest})"
        )

    def check(self, ceiling: int) -> int:
        """Refuse settings that could overflow 64-bit integers."""
        return check_scale_of_spans(max(self.value_scale(ceiling), self.test_scale(ceiling)))

    def run(self, threshold: int, ceiling: int, keystream: Keystream) -> PegasusRun:
        """A new run, or one resumed from `state`."""
        return PegasusRun(self, threshold, ceiling, keystream)


class PegasusRun(IrregularRun):
    """Releases every value with noise, and where groups begin.

    The state is secret: the raw values of the open group.
    """

    def __init__(
        self, stage: GroupedValues, threshold: int, ceiling: int, keystream: Keystream
    ) -> None:
        super().__init__(stage, threshold, ceiling, keystream)
        scales = (stage.value_scale, stage.test_scale, stage.limit_scale)
        self._noise = PositionNoise(
            keystream, {level: scale(threshold) for level, scale in enumerate(scales)}
        )
        self._horizon = stage.horizon
        self._group = PegasusGrouping(stage.public_limit(threshold), stage.longest, threshold)

    def state(self) -> dict[str, Any]:
        """The position and the open group."""
        group = self._group
        return {"position": self.position, "members": group.members, "limit": group.limit}

    def restore(self, state: State) -> None:
        """Restore a saved state."""
        self.position = state["position"]
        self._group.members, self._group.limit = state["members"], state["limit"]

    @property
    def number(self) -> int:
        """The number of blocks completed in this horizon."""
        return self.position % self._horizon // self._lengths[0]

    def push(self, values: IntArray) -> Noisy:
        """Take raw units up to the end of the block; return all of them with noise, and marks."""
        values = np.minimum(values, self._threshold)
        sums = np.empty(values.size, dtype=np.int64)
        marks = np.full(values.size, JOINS)
        done = 0
        while done < values.size:
            (noise, tests, limits), index = self._noise.at(self.position)
            count = min(values.size - done, noise.size - index)
            part, here = slice(done, done + count), slice(index, index + count)
            sums[part] = values[part] + noise[here]
            marks[part][self._group.opens(values[part], tests[here], limits[here])] = OPENS
            self.position += count
            done += count
        return Noisy(sums, np.ones(values.size, dtype=np.int64), marks)


@preset_with(horizon=SHORT_HORIZON)
def pegasus(
    epsilon: Number,
    bound: Number,
    *,
    share: Number = _SHARE,
    limit: Number = _LIMIT,
    medians: bool = False,
    **shared: Unpack[PerEvent],
) -> Pipeline:
    """Noise on every value, and means over groups of similar values, found privately.

    PeGaSus: perturb every value, group similar ones, publish means; pure ε-DP in exact arithmetic.
    The perturber and the grouper share ε. A value is published as the mean of the noisy values of
    its group so far; a range is answered from the means of whole groups. Made for counts that stay
    the same for long; long ranges have the error of independent noise, which grows with √length.
    `medians` publishes medians of groups, another of the paper's smoothers: half of the variance,
    but off where values of a group lie unevenly around their mean, which shows from ε = 1 on.

    When: single values and short ranges; assumes a stream that stays the same for long. Take
        `medians` up to ε = 1.
    Reference: Chen, Machanavajjhala, Hay, Miklau, PeGaSus: Data-Adaptive Differentially Private
        Stream Processing, CCS 2017.

    Args:
        horizon: queries look back on 16 of these.
        share: the part of ε that finds groups.
        limit: the deviation that closes a group, in θ over the budget of the groups.
        medians: of groups, in place of means.

    >>> print(pegasus(epsilon=1, bound=50, holdout=0).guarantee)
    ε = 1 per event (exact arithmetic, central model)
    """
    given = per_event(epsilon, bound, shared)
    groups = GroupedValues(epsilon=given.epsilon, share=share, limit=limit, horizon=given.horizon)
    return given.pipeline(groups, GroupMedians() if flag("medians", medians) else GroupMeans())


METHOD = Method(pegasus, stages=(GroupedValues, GroupMeans, GroupMedians), example={"epsilon": 20})
