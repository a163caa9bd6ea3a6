"""The contracts of the three stages, and the public data that they exchange.

`noisy` is the privacy barrier, `layout` says how a block is measured, `recorded_and_posterior` what
was released and what is known of it.
"""

from tidegate.stages.late_choices import late_from
from tidegate.stages.late_looks import FAR_SHARE
from tidegate.stages.layout import Layout
from tidegate.stages.noisy import NO_SUMS, NoiseLaw, Noisy
from tidegate.stages.recorded_and_posterior import (
    NO_AIM,
    NO_CELLS,
    NO_NUMBERS,
    Aim,
    Block,
    BlockBudgets,
    Cells,
    Excess,
    Leaves,
    Parts,
    Posterior,
    Ranges,
    Recorded,
    Spans,
)
from tidegate.stages.stage_protocols import (
    ENDLESS,
    Estimator,
    EstimatorRun,
    Perturber,
    PerturberRun,
    Saved,
    Threshold,
    fixed_law,
    fulfils,
)

__all__ = [
    "ENDLESS",
    "FAR_SHARE",
    "NO_AIM",
    "NO_CELLS",
    "NO_NUMBERS",
    "NO_SUMS",
    "Aim",
    "Block",
    "BlockBudgets",
    "Cells",
    "Estimator",
    "EstimatorRun",
    "Excess",
    "Layout",
    "Leaves",
    "NoiseLaw",
    "Noisy",
    "Parts",
    "Perturber",
    "PerturberRun",
    "Posterior",
    "Ranges",
    "Recorded",
    "Saved",
    "Spans",
    "Threshold",
    "fixed_law",
    "fulfils",
    "late_from",
]
