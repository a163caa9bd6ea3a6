"""The smooth binary mechanism: a binary tree of which only balanced leaves are used."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray

from tidegate.exact_numbers import Number
from tidegate.lattice import FloatArray, IntArray
from tidegate.methods._budget import per_event_gaussian
from tidegate.methods._preset import Concentrated, preset
from tidegate.methods._registration import Method
from tidegate.noise import discrete_gaussian, discrete_gaussian_variance
from tidegate.perturb.running_sum_and_gaussian_stages import (
    GaussianNoise,
    GaussianStage,
    check_gaussian,
    check_running_sum_leaves,
)
from tidegate.randomness import Keystream
from tidegate.run.pipeline import Pipeline
from tidegate.settings import Delta, Exact, Spec, Whole

_KEPT_LEAVES = 1 << 12
Branches = tuple[IntArray, NDArray[np.bool_], NDArray[np.bool_]]


def zeros_needed(leaves: int) -> int:
    """The least m for which there are more than `leaves` numbers of m zeros and m ones.

    >>> zeros_needed(5), zeros_needed(6), zeros_needed(2**20)
    (2, 3, 12)
    """
    found = 1
    while math.comb(2 * found, found) <= leaves:
        found += 1
    return found


def _binary_levels(leaves: int) -> Iterator[Branches]:
    """From the root down: for each branch the one above it, whether it turns right, and whether
    there is a node on its left that holds values.

    Branches beyond the last leaf that is used are left out.
    """
    most = zeros_needed(leaves)
    counts = np.array(
        [[math.comb(i + j, i) for j in range(most + 1)] for i in range(most + 1)], dtype=np.float64
    )
    zeros = np.array([most], dtype=np.int8)  # that a branch may still take
    ones = zeros.copy()
    for _ in range(2 * most):
        before = np.concatenate(([0.0], np.cumsum(counts[zeros, ones])[:-1]))
        used = int(np.searchsorted(before, leaves + 1))  # leaf t belongs to the running sum of t
        zeros, ones = zeros[:used], ones[:used]
        above = np.repeat(np.arange(used), 1 + ((zeros > 0) & (ones > 0)))
        second = np.concatenate(([False], above[1:] == above[:-1]))
        right = second | (zeros[above] == 0)
        yield above, right, second
        zeros, ones = zeros[above] - ~right, ones[above] - right


@lru_cache(maxsize=8)
def _kept_binary(leaves: int) -> tuple[Branches, ...]:
    return tuple(_binary_levels(leaves))


def _binary_branches(leaves: int) -> Iterable[Branches]:
    """The branches, cached for small trees, whose horizons come often."""
    return _kept_binary(leaves) if leaves <= _KEPT_LEAVES else _binary_levels(leaves)


@lru_cache(maxsize=64)
def _binary_node_counts(leaves: int) -> tuple[int, ...]:
    return tuple(int(np.count_nonzero(second)) for _, _, second in _binary_branches(leaves))


@dataclass(frozen=True)
class SmoothBinaryNoise(GaussianNoise):
    """One horizon's noise: `variance` is σ² of every node's draw, in units².

    Number the leaves of a binary tree of height 2m, and keep those whose numbers have m ones. Value
    i stands at the i-th of them. The running sum of t values adds up, for every one in the number
    of the t-th leaf, the node on the left of it: the values that share the bits before that one
    and have a zero there.
    """

    @property
    def identity(self) -> str:
        """The facts that determine the noise. Part of its key: never change it."""
        return f"Balanced(leaves={self.leaves}, variance={self.variance})"

    @property
    def zeros(self) -> int:
        """m: the number of nodes that hold a value, at most, and that a running sum adds up."""
        return zeros_needed(self.leaves)

    def nodes(self, keystream: Keystream, chunk: int, grove: int) -> list[IntArray]:
        """Independent draws for the nodes on the left of a branch, level by level."""
        counts = _binary_node_counts(self.leaves)
        words = keystream.at(chunk=chunk, tree=grove)
        draws = discrete_gaussian(words, sum(counts), Fraction(self.variance))
        return np.split(draws, np.cumsum(counts[:-1]))

    def combine(self, nodes: list[IntArray], carry: float) -> tuple[IntArray, float]:
        """The noise of the leaves, such that running sums are sums of draws. Integers only."""
        running = np.zeros(1, dtype=np.int64)
        for draws, (above, _, second) in zip(nodes, _binary_branches(self.leaves), strict=True):
            running = running[above]
            running[second] += draws
        return np.diff(running[: self.leaves + 1]), 0.0

    # -- the law of the noise, for error bars ---------------------------------------------------

    @cached_property
    def _numbers(self) -> IntArray:
        """The nodes that each running sum adds up, as bit patterns."""
        found = np.zeros((2, 1), dtype=np.int64)
        for above, right, second in _binary_branches(self.leaves):
            found = 2 * found[:, above] + (right, second)
        return found[:, : self.leaves + 1]

    def _within(self, starts: IntArray, ends: IntArray) -> FloatArray:
        """Variance between two running sums; they share nodes above the bit that differs."""
        left, right = self._numbers[:, starts], self._numbers[:, ends]
        _, bits = np.frexp((left[0] ^ right[0]).astype(np.float64))
        mask = (np.int64(1) << bits.astype(np.int64)) - 1
        count = np.zeros(starts.size)
        for bit in range(2 * self.zeros):
            place = (mask >> bit) & 1
            count += ((left[1] >> bit) & place) + ((right[1] >> bit) & place)
        return count * discrete_gaussian_variance(Fraction(self.variance))


@dataclass(frozen=True, kw_only=True, repr=False)
class SmoothBinary(GaussianStage, Spec):
    """Discrete Gaussian noise on a binary tree of which only balanced leaves are used.

    **Privacy**: ρ-zCDP for one replaced value. Released: running sums of nodes (see
    `SmoothBinaryNoise`), each the sum of its values plus an exact discrete Gaussian draw of
    variance σ². Only nodes on the left are ever used, so a value lies in one node for each zero of
    its leaf: m at most. A replaced value moves each by at most θ: Δ² = mθ² in the 2-norm, and σ² is
    an integer with Δ²/(2σ²) ≤ ρ, checked exactly. The nodes of a running sum hold its values
    exactly once, so what is published is a function of the noisy nodes; the draws never depend on
    values. Horizons are disjoint: parallel composition.

    Every running sum has at most m draws, where the binary tree has up to 2m and one for each level
    in Δ². (As published, every one has exactly m; nodes that hold no value get no noise here.)

    Args:
        rho: ρ of the stream, for one replaced value.
        delta: the δ at which ρ is stated as (ε, δ).
        horizon: values of one tree.
    """

    KIND: ClassVar[str] = "methods.SmoothBinary"

    rho: Exact = Exact()
    delta: Delta = Delta()
    horizon: Whole = Whole(minimum=1)

    def noise_law(self, threshold: int) -> SmoothBinaryNoise:
        """The noise for values truncated at `threshold` units."""
        squared = threshold**2 * zeros_needed(self.horizon)
        return SmoothBinaryNoise(self.horizon, self.variance_for(squared))

    def check(self, ceiling: int) -> int:
        """Refuse settings that could overflow 64-bit integers, or fill the memory with noise."""
        check_running_sum_leaves(self.horizon)
        variance, draws = self.noise_law(ceiling).variance, 2 * zeros_needed(self.horizon)
        return check_gaussian(variance, draws, 2 * self.horizon * ceiling)


@preset
def smooth_binary(epsilon: Number, bound: Number, **shared: Unpack[Concentrated]) -> Pipeline:
    """Gaussian noise on the left nodes of a binary tree, whose leaves are balanced numbers.

    The smooth binary mechanism; ρ-zCDP in exact arithmetic. ρ is the largest (to six digits) that
    implies (`epsilon`, `delta`)-DP for the unit. Every running sum has nearly the same error.

    When: ρ-zCDP and the same error of every running sum; `square_root` has less.
    Reference: Andersson, Pagh, A Smooth Binary Mechanism for Efficient Private Continual
        Observation, NeurIPS 2023.

    >>> print(smooth_binary(epsilon=1, bound=50, delta=1e-6, horizon=4096, holdout=0).guarantee)
    ρ = 0.024... (zCDP), which gives ε = 0.99999..., δ = 1e-06 per event (exact ...)
    """
    given = per_event_gaussian(epsilon, bound, shared)
    return given.pipeline(SmoothBinary(rho=given.rho, delta=given.delta, horizon=given.horizon))


METHOD = Method(smooth_binary, stages=(SmoothBinary,), example={"delta": "1/1000000"})
