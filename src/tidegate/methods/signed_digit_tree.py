"""The signed-digit tree: running sums from few nodes of a wide tree, some of them subtracted."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Unpack

import numpy as np

from tidegate.errors import SettingError
from tidegate.exact_numbers import Number
from tidegate.guarantee import Guarantee
from tidegate.lattice import FloatArray, IntArray
from tidegate.methods._budget import per_event
from tidegate.methods._preset import PerEvent, preset
from tidegate.methods._registration import Method
from tidegate.noise import discrete_laplace, discrete_laplace_variance
from tidegate.perturb.level_scales import check_headroom, level_scales
from tidegate.perturb.running_sum_and_gaussian_stages import (
    RunningSumNoise,
    RunningSumStage,
    check_running_sum_leaves,
)
from tidegate.randomness import Keystream
from tidegate.run.pipeline import Pipeline
from tidegate.settings import Epsilon, Spec, Whole

_FANOUT = 19  # k/ln³(k), which the error grows with, is least near e³


def digit_count(fanout: int, leaves: int) -> int:
    """How many digits from −(fanout − 1)/2 to (fanout − 1)/2 can write every number up to `leaves`.

    >>> digit_count(3, 13), digit_count(3, 14), digit_count(19, 2**20)
    (3, 4, 5)
    """
    digits, reach = 1, fanout
    while (reach - 1) // 2 < leaves:
        digits, reach = digits + 1, reach * fanout
    return digits


@dataclass(frozen=True)
class SignedDigitNoise(RunningSumNoise):
    """One horizon's noise: `scales[l]` is the discrete Laplace scale of a node of fanout^l leaves.

    Write t in digits from −(fanout − 1)/2 to (fanout − 1)/2. The running sum over t leaves is taken
    from the nodes between the multiple of fanout^(l+1) that is nearest to t and the nearest
    multiple of fanout^l, level by level: added on the left of t, subtracted on the right.
    """

    fanout: int
    leaves: int
    scales: tuple[Fraction, ...]

    @property
    def identity(self) -> str:
        """The facts that determine the noise. Part of its key: never change it."""
        return f"SignedDigits(fanout={self.fanout}, leaves={self.leaves}, scales={self.scales})"

    def _nearest(self, positions: IntArray, level: int) -> IntArray:
        """The nearest multiple of fanout^level; the fan-out is odd, so there are no ties."""
        width = self.fanout**level
        found: IntArray = (positions + width // 2) // width
        return found

    def nodes(self, keystream: Keystream, chunk: int, grove: int) -> list[IntArray]:
        """Independent noise for every node that a running sum can need, leaves first."""
        last, found = np.array([self.leaves]), []
        for level, scale in enumerate(self.scales):
            above = self.fanout * self._nearest(last, level + 1)
            count = max(int(above[0]), int(self._nearest(last, level)[0]))
            words = keystream.at(chunk=chunk, tree=grove, level=level)
            found.append(discrete_laplace(words, count, scale))
        return found

    def combine(self, nodes: list[IntArray], carry: float) -> tuple[IntArray, float]:
        """The noise of the leaves; running sums are those of the digits. Integers only."""
        positions = np.arange(1, self.leaves + 1)
        running = np.zeros(self.leaves, dtype=np.int64)
        nearest = self._nearest(positions, 0)
        for level, draws in enumerate(nodes):
            sums = np.concatenate(([0], np.cumsum(draws)))
            above = self._nearest(positions, level + 1)
            running += sums[nearest] - sums[self.fanout * above]
            nearest = above
        running[1:] -= running[:-1].copy()
        return running, 0.0

    # -- the law of the noise, for error bars ---------------------------------------------------

    @cached_property
    def variances(self) -> tuple[float, ...]:
        """Exact variance of a node's noise per level, in units²."""
        return tuple(map(discrete_laplace_variance, self.scales))

    @property
    def largest_variance(self) -> float:
        """Variance of the noisiest node."""
        return max(self.variances)

    def _within(self, starts: IntArray, ends: IntArray) -> FloatArray:
        """The variance of the nodes that only one of the two running sums uses.

        Where both count from the same multiple above, the nodes between them are left. Where not,
        they share none: one reaches at most (fanout − 1)/2 nodes beyond its multiple, and the other
        begins at least `fanout` nodes away and comes back as little.
        """
        total = np.zeros(starts.size)
        for level, variance in enumerate(self.variances):
            left, right = self._nearest(starts, level), self._nearest(ends, level)
            one = self.fanout * self._nearest(starts, level + 1)
            other = self.fanout * self._nearest(ends, level + 1)
            apart = np.abs(left - one) + np.abs(right - other)
            total += variance * np.where(one == other, np.abs(right - left), apart)
        return total


@dataclass(frozen=True, kw_only=True, repr=False)
class SignedDigits(RunningSumStage, Spec):
    """Discrete Laplace noise on the nodes of a tree; running sums by signed digits.

    **Privacy**: pure ε for one replaced value. Let every node hold the sum of its values plus its
    draw. A running sum over t values is a sum of nodes with signs ±1 (`SignedDigitNoise`) whose
    values add up to x_1 + … + x_t exactly, so what is published is a function of the noisy nodes.
    A value lies in one node per level and moves it by at most θ; the scales satisfy Σ θ/scale ≤ ε
    exactly. Nodes on the right of t hold values that have not arrived: they cancel, and only the
    draws are needed, which never depend on values (`ForestRun` has the argument for values that are
    chosen by what was released). Horizons are disjoint.

    Args:
        epsilon: the budget of the stream.
        horizon: values of one tree.
        fanout: children per node, an odd number.
    """

    KIND: ClassVar[str] = "methods.SignedDigits"

    epsilon: Epsilon = Epsilon()
    horizon: Whole = Whole(minimum=1)
    fanout: Whole = Whole(minimum=3, default=_FANOUT)

    def __post_init__(self) -> None:
        if self.fanout % 2 == 0:
            raise SettingError(
                "fanout", "must be odd, so that there are as many digits below 0 as above"
            )

    @property
    def _shares(self) -> tuple[Fraction, ...]:
        digits = digit_count(self.fanout, self.horizon)
        return (Fraction(1, digits),) * digits

    @property
    def guarantee(self) -> Guarantee:
        """ε: levels in sequence, horizons in parallel."""
        return Guarantee(epsilon=sum(self._shares, start=Fraction(0)) * self.epsilon)

    def noise_law(self, threshold: int) -> SignedDigitNoise:
        """The noise for values truncated at `threshold` units."""
        scales = level_scales(threshold, self.epsilon, self._shares)
        return SignedDigitNoise(self.fanout, self.horizon, scales)

    def check(self, ceiling: int) -> Fraction | int:
        """Refuse settings that could overflow 64-bit integers, or fill the memory with noise."""
        check_running_sum_leaves(self.horizon)
        # Running sums of the draws of a level are kept, of leaves at the most.
        draws, values = 2 * self.horizon * len(self._shares), 2 * self.horizon
        return check_headroom(ceiling, self.epsilon, self._shares, draws=draws, values=values)


@preset
def signed_digit_tree(
    epsilon: Number, bound: Number, *, fanout: int = _FANOUT, **shared: Unpack[PerEvent]
) -> Pipeline:
    """A wide tree whose running sums add and subtract nodes, by signed digits.

    Pure ε-DP in exact arithmetic. With digits from −9 to 9, a tree of fan-out 19 needs at most 9
    nodes a level and 5 levels where a binary tree needs 21: the least error of running sums that is
    known for pure ε and independent noise. Ranges that begin elsewhere cost about twice as much as
    running sums.

    When: running sums without least squares; assumes that every value is measured by itself.
    Reference: Andersson, Pagh, Steiner, Torkamani, Count on Your Elders: Laplace vs Gaussian Noise,
        FORC 2025.

    Args:
        fanout: children per node, an odd number.

    >>> print(signed_digit_tree(epsilon=1, bound=50, holdout=0).guarantee)
    ε = 1 per event (exact arithmetic, central model)
    """
    given = per_event(epsilon, bound, shared)
    return given.pipeline(SignedDigits(epsilon=given.epsilon, horizon=given.horizon, fanout=fanout))


METHOD = Method(signed_digit_tree, stages=(SignedDigits,), example={"fanout": 5})
