"""Rivals that must see the whole stream, or a window of it, before they publish: not online.

They are ranked in a table of their own (`experiments compare`), never beside a method that is
online, and compute in floats.
"""

from __future__ import annotations

from experiments.offline.fourier import OFFLINE, efpa, fpa
from experiments.offline.l1_consistency import least_squares_leaves, most_likely_leaves
from experiments.offline.optstream import optstream

__all__ = [
    "OFFLINE",
    "efpa",
    "fpa",
    "least_squares_leaves",
    "most_likely_leaves",
    "optstream",
]
