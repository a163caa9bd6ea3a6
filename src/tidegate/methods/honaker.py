"""Honaker's estimators: every node of a tree is estimated from all draws at and below it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Unpack

import numpy as np

from tidegate.exact_numbers import Number, whole
from tidegate.guarantee import Guarantee
from tidegate.lattice import FloatArray, IntArray
from tidegate.methods._budget import per_event
from tidegate.methods._preset import PerEvent, preset
from tidegate.methods._registration import Method
from tidegate.methods.binary_tree import whole_tree
from tidegate.perturb.consistency import residuals_from_below
from tidegate.perturb.forest_geometry import Forest, level_count
from tidegate.perturb.forest_perturber import ForestStage
from tidegate.perturb.level_scales import check_headroom, level_scales
from tidegate.perturb.running_sum_and_gaussian_stages import check_running_sum_leaves
from tidegate.run.pipeline import Pipeline
from tidegate.settings import Epsilon, Spec, Whole, flag


@dataclass(frozen=True)
class HonakerForest(Forest):
    """Running sums from the fewest nodes, each estimated from all draws at and below it."""

    consistent: bool = False

    @property
    def identity(self) -> str:
        """The facts that determine the noise. Part of its key: never change it."""
        return (
            f"BottomUp(fanout={self.fanout}, leaves={self.leaves}, scales={self.scales}, "
            f"grove={self.grove})"
        )

    def combine(self, nodes: list[IntArray], carry: float) -> tuple[IntArray, float]:
        """The leaves that are published for these nodes: leaf draw + φ(R), rounded on prefixes.

        R are the residuals that `consistent_leaves` speaks of: integers that do not move when a
        stream is added to the tree, so equivariance is exact whatever φ rounds.
        """
        leaves = nodes[0]
        estimates, _ = residuals_from_below(nodes, self.fanout, self.weights)
        found = [np.zeros(leaves.size), *estimates]
        ends = np.cumsum(np.concatenate(([carry], found[-1])))
        starts, ends = ends[:-1], ends[1:]
        for children in reversed(found[:-1]):
            inside = np.cumsum(children.reshape(-1, self.fanout), axis=1)
            inside += starts[:, np.newaxis]
            inside[:, -1] = ends  # a complete parent is taken whole
            starts = np.concatenate((starts[:, np.newaxis], inside[:, :-1]), axis=1).reshape(-1)
            ends = inside.reshape(-1)
        running = np.floor(ends + 0.5).astype(np.int64)
        result = leaves + running
        result[1:] -= running[:-1]
        return result, float(ends[-1] - running[-1])

    # -- the law of the noise, for error bars ---------------------------------------------------

    @cached_property
    def _from_below(self) -> list[float]:
        """Variance of a node's estimate from below, per level: v' = Vσ²/(V + σ²), V = fanout·v."""
        found = [self.variances[0]]
        for variance in self.variances[1:]:
            children = self.fanout * found[-1]
            found.append(children * variance / (children + variance))
        return found

    def _within(self, starts: IntArray, ends: IntArray) -> FloatArray:
        """Prefixes share their nodes above the level s where start and end part. There, the end has
        b_s − a_s nodes more, and the first of them holds the a_l nodes of the start at each lower
        level l. The estimate of a node u has the weight Π (1 − w) over the levels above it, up to
        s, in the estimate of its ancestor, and is independent of the rest of it:

            Var = (b_s − a_s)·v_s + Σ_{l<s} [b_l + a_l·(1 − 2·Π_{l<j≤s} (1 − w_j))]·v_l
        """
        total, weight = np.zeros((2, starts.size))
        apart = np.zeros(starts.size, dtype=bool)
        for level in range(self.levels - 1, -1, -1):
            left, right = starts // self.fanout**level, ends // self.fanout**level
            below = right % self.fanout + (left % self.fanout) * (1 - 2 * weight)
            total += self._from_below[level] * np.where(apart, below, right - left)
            weight = np.where(~apart & (left != right), 1.0, weight)
            apart |= left != right
            if level:
                weight *= 1 - self.weights[level - 1]
        return total


@dataclass(frozen=True, kw_only=True, repr=False)
class BottomUpTree(ForestStage, Spec):
    """Discrete Laplace noise on every node of one tree per horizon; running sums of estimates.

    **Privacy**: pure ε for one replaced value. Released: functions of the noisy nodes (argument:
    `forest_perturber.ForestRun`; `HonakerForest.combine` is equivariant). A replaced
    value moves one node per level, the root's among them, by at most θ, and the scales of all
    levels satisfy Σ θ/scale ≤ ε exactly. Horizons are disjoint. How nodes are weighted is
    post-processing.

    Args:
        epsilon: the budget of the stream.
        horizon: values of one tree.
        fanout: children per node.
    """

    KIND: ClassVar[str] = "methods.BottomUpTree"

    epsilon: Epsilon = Epsilon()
    horizon: Whole = Whole(minimum=1)
    fanout: Whole = Whole(minimum=2, default=2)

    @property
    def block(self) -> int:
        """1: every value is a leaf."""
        return 1

    @property
    def guarantee(self) -> Guarantee:
        """ε: levels in sequence, horizons in parallel."""
        return Guarantee(epsilon=sum(self._shares, start=Fraction(0)) * self.epsilon)

    @property
    def _shares(self) -> tuple[Fraction, ...]:
        levels = level_count(self.fanout, self.horizon) + 1
        return (Fraction(1, levels),) * levels

    def noise_law(self, threshold: int) -> HonakerForest:
        """The tree for values truncated at `threshold` units."""
        scales = level_scales(threshold, self.epsilon, self._shares)
        return HonakerForest(self.fanout, self.horizon, scales)

    def check(self, ceiling: int) -> Fraction | int:
        """Refuse settings that could overflow 64-bit integers, or fill the memory with noise."""
        leaves = self.noise_law(ceiling).grove_leaves
        check_running_sum_leaves(leaves)
        draws = 2 * leaves * len(self._shares)
        return check_headroom(ceiling, self.epsilon, self._shares, draws=draws, values=2 * leaves)


@preset
def honaker(
    epsilon: Number,
    bound: Number,
    *,
    fanout: int = 2,
    full: bool = False,
    **shared: Unpack[PerEvent],
) -> Pipeline:
    """The binary counter, with each node estimated from all draws at and below it.

    Honaker's estimators; pure ε-DP in exact arithmetic. Same noise as `binary_tree`; but each node
    of a running sum is the weighted mean of its own draw and of its children's, which takes about
    half of the variance away. Only nodes that are complete are used (the published online
    estimator). `full` uses all nodes of the tree: least squares, published as an offline estimator.
    Here it is online too, because the noise is made before the values arrive.

    When: a binary tree is prescribed; same noise as `binary_tree`, half of its variance, a fifth
        with `full`.
    Reference: Honaker, Efficient Use of Differentially Private Binary Trees, TPDP 2015.

    Args:
        full: use the whole tree.

    >>> print(honaker(epsilon=1, bound=50, holdout=0).guarantee)
    ε = 1 per event (exact arithmetic, central model)
    """
    given = per_event(epsilon, bound, shared)
    fanout = whole("fanout", fanout, minimum=2)
    if flag("full", full):
        return given.pipeline(whole_tree(given, fanout, consistent=True))
    return given.pipeline(BottomUpTree(epsilon=given.epsilon, horizon=given.horizon, fanout=fanout))


METHOD = Method(honaker, stages=(BottomUpTree,))
