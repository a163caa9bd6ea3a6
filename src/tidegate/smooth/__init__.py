"""Stage 3: predictions inside a block, from released sums alone. One file a method."""

from tidegate.smooth.exponential import Exponential
from tidegate.smooth.mean import Mean
from tidegate.smooth.median import Median
from tidegate.smooth.moving_average import MovingAverage
from tidegate.smooth.recent import Recent
from tidegate.smooth.unsmoothed import Unsmoothed

__all__ = ["Exponential", "Mean", "Median", "MovingAverage", "Recent", "Unsmoothed"]
