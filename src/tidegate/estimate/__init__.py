"""Stage 3: turn noisy sums into one number per value and answers about ranges. One file a method.

The smoothers predict the values inside a block of fixed size; `smoother` and `block_posterior` are
what they share. `Mixture` (in `mixture/`) also chooses how the next block is measured.
"""

from typing import TYPE_CHECKING

from tidegate._names_on_demand import names_on_demand

if TYPE_CHECKING:
    from tidegate.estimate.exponential import Exponential
    from tidegate.estimate.mean import Mean
    from tidegate.estimate.median import Median
    from tidegate.estimate.mixture.mixture import Mixture
    from tidegate.estimate.moving_average import MovingAverage
    from tidegate.estimate.recent import Recent
    from tidegate.estimate.unsmoothed import Unsmoothed

__all__ = ["Exponential", "Mean", "Median", "Mixture", "MovingAverage", "Recent", "Unsmoothed"]


def __dir__() -> list[str]:
    """The public names only, not modules that happen to be imported."""
    return list(__all__)


if not TYPE_CHECKING:
    __getattr__ = names_on_demand(__name__, __all__, {"Mixture": "mixture.mixture"})
