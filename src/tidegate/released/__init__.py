"""Released rows of a file, or of a table in memory: open, query, plot, export."""

from tidegate.released.decayed_and_sliding_sums import DecayedSum, SlidingSum, WholeCounts
from tidegate.released.release_table import release
from tidegate.released.released import Released
from tidegate.released.released_columns import open_columns
from tidegate.released.released_file import ReleasedFile

__all__ = [
    "DecayedSum",
    "Released",
    "ReleasedFile",
    "SlidingSum",
    "WholeCounts",
    "open_columns",
    "release",
]
