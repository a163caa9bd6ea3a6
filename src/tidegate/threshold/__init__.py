"""Stage 1: the truncation threshold, chosen privately from the hold-out. One file a method."""

from typing import TYPE_CHECKING

from tidegate._names_on_demand import names_on_demand

if TYPE_CHECKING:
    from tidegate.threshold.above_threshold import AboveThreshold
    from tidegate.threshold.cauchy_quantile import CauchyQuantile
    from tidegate.threshold.fixed import Fixed
    from tidegate.threshold.gaussian_quantile import GaussianQuantile
    from tidegate.threshold.log_histogram import LogHistogram
    from tidegate.threshold.noisy_max import NoisyMax
    from tidegate.threshold.scale_free import ScaleFree
    from tidegate.threshold.smooth_quantile import SmoothQuantile
    from tidegate.threshold.tail_quantile import TailQuantile

__all__ = [
    "AboveThreshold",
    "CauchyQuantile",
    "Fixed",
    "GaussianQuantile",
    "LogHistogram",
    "NoisyMax",
    "ScaleFree",
    "SmoothQuantile",
    "TailQuantile",
]


def __dir__() -> list[str]:
    """The public names only, not modules that happen to be imported."""
    return list(__all__)


if not TYPE_CHECKING:
    __getattr__ = names_on_demand(__name__, __all__)
