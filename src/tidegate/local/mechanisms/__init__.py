"""The mechanisms that perturb values on devices, one file each; each builds a question.

| mechanism | builder | report | variance on [−1, 1] |
|---|---|---|---|
| Laplace | `laplace` | a cell | `laplace_variance` |
| Stochastic Rounding | `stochastic_rounding` | one bit | `stochastic_rounding_variance` |
| Piecewise | `piecewise` | a cell | `piecewise_variance` |
| OGPM | `generalised_piecewise` | a cell | `published_error`, biased |
| Hybrid | `hybrid` | a cell or a bit | `hybrid_variance` |
| least variance | `optimal` | a column of a small table | `question.variance` |
| Square Wave | `square_wave` | a cell near the value's bin | (for densities) |

`generalised_piecewise` is OGPM, the optimal generalised piecewise mechanism (Zheng, Mishra, Hu,
PoPETs 2025): as published it reports within the range of the values and is biased near both ends,
which does not average out in sums (`published_error` has its error); made unbiased, it is the table
of `piecewise`.

The variances named here are the formulas of the paper, for continuous reports. What the integer
table of a question really has is `question.variance(x)`.
"""

from __future__ import annotations

from tidegate.local.mechanisms.hybrid import hybrid, hybrid_variance
from tidegate.local.mechanisms.laplace import laplace, laplace_variance
from tidegate.local.mechanisms.optimal_by_linear_program import optimal
from tidegate.local.mechanisms.piecewise import (
    generalised_piecewise,
    piecewise,
    piecewise_variance,
    published_error,
)
from tidegate.local.mechanisms.square_wave import square_wave
from tidegate.local.mechanisms.stochastic_rounding import (
    stochastic_rounding,
    stochastic_rounding_variance,
)

__all__ = [
    "generalised_piecewise",
    "hybrid",
    "hybrid_variance",
    "laplace",
    "laplace_variance",
    "optimal",
    "piecewise",
    "piecewise_variance",
    "published_error",
    "square_wave",
    "stochastic_rounding",
    "stochastic_rounding_variance",
]
