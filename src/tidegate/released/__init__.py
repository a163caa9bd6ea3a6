"""Released rows: of a file, or of a table in memory. Open, query, draw, hand on.

| module | what it is |
| --- | --- |
| `release_table` | a whole table in, released rows out: `tidegate.release` |
| `released` | released rows and what can be asked of them |
| `file` | a file of them, its metadata, and what to know about its answers: `tidegate.open` |
| `scan` | released values → running block sums |
| `index` | the block sums, in a file beside it |
| `growth` | has an indexed file only grown? |
| `derived_sums` | decayed sums, sliding sums and whole counts of released values |
| `plot` | level, moving average and error band |
"""

from tidegate.released.derived_sums import DecayedSum, SlidingSum, WholeCounts
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
