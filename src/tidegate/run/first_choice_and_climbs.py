"""Whether θ is that of the first choice, and whether released sums raise it from there."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from tidegate.lattice import Lattice

if TYPE_CHECKING:
    from tidegate.run.pipeline import Pipeline

# Up to this many grains θ climbs by released sums (`refinement_level_phases`); `evidence` then.
LOWEST, CLIMBING = 64, -1


def refinement_climbs_from(lattice: Lattice, theta: int) -> bool:
    """Whether a θ that has fallen is low enough to climb again.

    Where grains are parts of the bound: those of 1 are often a unit of the data.
    """
    low = theta <= min(LOWEST * lattice.grain, lattice.top - 1)
    return low and lattice.step * lattice.grain < 1


def chose_first(pipeline: Pipeline, evidence: int, begun: int) -> bool:
    """Whether the first warm-up chose this θ, judged by what the choice knew and where it began."""
    share = Fraction(pipeline.threshold.guarantee.epsilon) / pipeline.perturber.epsilon
    return begun == 0 and evidence <= int(16 * share * pipeline.warm_up)
