"""Stage 1: the truncation threshold, chosen privately from the hold-out. One file a method."""

from tidegate.threshold.fixed import Fixed
from tidegate.threshold.noisy_max import NoisyMax
from tidegate.threshold.quantile import SmoothQuantile
from tidegate.threshold.scale_free import ScaleFree
from tidegate.threshold.tail_quantile import TailQuantile

__all__ = ["Fixed", "NoisyMax", "ScaleFree", "SmoothQuantile", "TailQuantile"]
