"""Independent noise on every block: the baseline without a hierarchy."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from tidegate.guarantee import Guarantee
from tidegate.perturb.forest_geometry import Forest
from tidegate.perturb.forest_perturber import ForestStage, forest_of
from tidegate.perturb.level_scales import check_headroom, level_scales
from tidegate.settings import Epsilon, Spec, Whole

_ALL = (Fraction(1),)


@dataclass(frozen=True, kw_only=True, repr=False)
class Flat(ForestStage, Spec):
    """Discrete Laplace noise of scale θ/ε on each block's sum; range errors grow as √length.

    Guarantee: pure ε-DP for one replaced value, which moves the sum of one block by at most θ.

    Args:
        epsilon: the budget of the stream.
        horizon: how many values share one part of the keystream; no effect on accuracy.
        block: values per measured sum.
    """

    KIND: ClassVar[str] = "perturb.Flat"

    epsilon: Epsilon = Epsilon()
    horizon: Whole = Whole(minimum=1, default=2**20)
    block: Whole = Whole(minimum=1, default=1)

    @property
    def guarantee(self) -> Guarantee:
        """ε-DP: blocks in parallel."""
        return Guarantee(epsilon=self.epsilon)

    def noise_law(self, threshold: int) -> Forest:
        """A forest of leaves only."""
        blocks = -(-self.horizon // self.block)
        return forest_of(2, blocks, level_scales(threshold, self.epsilon, _ALL))

    def check(self, ceiling: int) -> None:
        """Refuse settings that could overflow 64-bit integers."""
        check_headroom(ceiling, self.epsilon, _ALL, draws=1, values=self.horizon + self.block)
