"""Rivals that must see the whole stream before they publish anything: not for continuous release.

They are ranked in a table of their own (`experiments compare`), never beside a method that is
online, and compute in floats.
"""

from __future__ import annotations

from experiments.offline.fourier import OFFLINE, efpa, fpa

__all__ = ["OFFLINE", "efpa", "fpa"]
