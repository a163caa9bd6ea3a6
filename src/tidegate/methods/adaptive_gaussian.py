"""The adaptive release with concentrated differential privacy: Gaussian noise on its trees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Unpack

from tidegate import estimate
from tidegate.errors import SettingError
from tidegate.estimate.mixture.kalman_filter.state_space_models import MOST_TRUNCATED, TRUNCATED
from tidegate.exact_numbers import Number
from tidegate.guarantee import Guarantee, concentrated
from tidegate.lattice import IntArray
from tidegate.methods._budget import per_event_gaussian
from tidegate.methods._preset import Concentrated, preset
from tidegate.methods._registration import Method
from tidegate.noise import discrete_gaussian
from tidegate.perturb.adaptive.adaptive_run import AdaptiveRun, adaptive_noise_place
from tidegate.perturb.adaptive.adaptive_trees import AdaptiveTrees
from tidegate.perturb.adaptive.tree_shapes import shares_of_tree_levels
from tidegate.randomness import Keystream
from tidegate.run.pipeline import Pipeline
from tidegate.settings import Delta, Epsilon
from tidegate.stages import Layout
from tidegate.state_as_bytes import State


@dataclass(frozen=True, kw_only=True, repr=False)
class GaussianTrees(AdaptiveTrees):
    """Noisy sums of blocks, like `AdaptiveTrees`, with discrete Gaussian noise on the nodes.

    **Privacy**: ρ-zCDP with ρ = ε²/2 for one replaced value, ε being `epsilon`. Released: the
    leaves that least squares makes of a noisy tree, so a function of its nodes. A replaced value
    moves one node of each level of one tree by at most `cap`; the noise of a level with the part p
    of the budget is discrete Gaussian with variance at least cap²/(ε²·p), a whole number. So the
    level costs at most p·ε²/2, and all levels together ρ, since the parts add up to 1. Which tree
    measures a block is decided from earlier releases, so blocks compose in parallel, adaptively, as
    in `AdaptiveRun`: given the same releases, only one block's law differs.

    Against Laplace noise with the same ε, a tree of L levels has a variance 2L times lower; but
    the ε here is √(2ρ), which for (1, 10⁻⁶) is 0.22.

    Args:
        epsilon: √(2ρ): the pure ε that is worth as much.
        delta: at which δ the guarantee is shown as (ε, δ).
        horizon, nodes: as in `AdaptiveTrees`.
    """

    KIND: ClassVar[str] = "methods.GaussianTrees"

    epsilon: Epsilon = Epsilon()
    delta: Delta = Delta()

    @property
    def guarantee(self) -> Guarantee:
        """ρ-zCDP, derived: the ρ of the levels add up."""
        return concentrated(self.epsilon**2 / 2, self.delta)

    def layouts(self, length: int, threshold: int, ceiling: int) -> tuple[Layout, ...]:
        """The trees of `AdaptiveTrees` with the noise of this stage."""
        return _with_noise(super().layouts(length, threshold, ceiling), self.epsilon)

    def noise_identity(self, threshold: int, ceiling: int) -> str:
        """The caps and variances of all possible choices."""
        return f"Gaussian{super().noise_identity(threshold, ceiling)}"

    def start(
        self, threshold: int, ceiling: int, keystream: Keystream, state: State | None = None
    ) -> GaussianRun:
        """Begin, or resume from `state`. The first block waits for `begin`."""
        return GaussianRun(self, threshold, ceiling, keystream, state)


class GaussianRun(AdaptiveRun):
    """`AdaptiveRun` with discrete Gaussian noise: same addresses, other keys."""

    def nodes(self, tree: Layout) -> list[IntArray]:
        """Independent noise for every node of the present block, coarsest level first."""
        place, first = adaptive_noise_place(tree, self.number)
        variances = node_variances(tree.nodes, tree.cap, self._stage.epsilon)
        return [
            discrete_gaussian(
                self.keystream.at(chunk=self.chunk, tree=place, level=first + level),
                count,
                Fraction(variance),
            )
            for level, (count, variance) in enumerate(zip(tree.nodes, variances, strict=True))
        ]


def node_variances(nodes: tuple[int, ...], cap: int, epsilon: Fraction) -> tuple[int, ...]:
    """σ² of each level, coarsest first: ⌈cap²/(ε²·p)⌉ for its share p of ρ.

    >>> node_variances((1, 16), 10, Fraction(1, 2))  # 100·4·2: a level has half of ρ
    (800, 800)
    """
    wanted = (Fraction(cap) ** 2 / (epsilon**2 * part) for part in shares_of_tree_levels(nodes))
    return tuple(math.ceil(variance) for variance in wanted)


@lru_cache(maxsize=256)
def _with_noise(trees: tuple[Layout, ...], epsilon: Fraction) -> tuple[Layout, ...]:
    """The layouts with Gaussian variances; `scales` are those of equally large Laplace noise."""
    found = []
    for tree in trees:
        variances = node_variances(tree.nodes, tree.cap, epsilon)
        alike = tuple(Fraction(max(1, math.isqrt(one << 39)), 1 << 20) for one in variances)
        found.append(replace(tree, scales=alike, variances=tuple(map(float, variances))))
    return tuple(found)


@preset
def adaptive_gaussian(
    epsilon: Number,
    bound: Number,
    *,
    period: int | Sequence[int] | None = None,
    **shared: Unpack[Concentrated],
) -> Pipeline:
    """As `adaptive`, with Gaussian noise on the trees.

    ρ-zCDP in exact arithmetic. ρ is the largest (to six digits) that implies (`epsilon`,
    `delta`)-DP for the unit.

    When: ρ-zCDP is wanted, or many releases compose; alone, at δ = 10⁻⁶, `adaptive` has less noise.
    Reference: this project (docs/privacy/adaptive.md); Bun, Steinke, Concentrated Differential
        Privacy, TCC 2016.

    Args:
        holdout: how many values choose the threshold; at least 1.
        period: rows in a cycle that the stream may follow, or a list of them, as in `adaptive`.

    >>> print(adaptive_gaussian(epsilon=1, bound=1657, delta="1e-6").guarantee)
    ρ = 0.0243... (zCDP), which gives ε = 0.99999..., δ = 1e-06 per event (exact ...)
    """
    given = per_event_gaussian(epsilon, bound, shared)
    if not given.threshold.holdout:
        raise SettingError("holdout", "must be at least 1: caps are chosen around a threshold")
    worth = Fraction(given.threshold.guarantee.epsilon)  # √(2ρ), rounded down
    information = float(worth * given.threshold.holdout)
    return given.pipeline(
        GaussianTrees(epsilon=worth, delta=given.delta, horizon=given.horizon),
        estimate.Mixture(truncated=min(MOST_TRUNCATED, TRUNCATED / information), period=period),
    )


METHOD = Method(adaptive_gaussian, stages=(GaussianTrees,), example={"delta": "1/1000000"})
