"""Released rows: of a file, or of a table in memory. Open, query, draw, hand on.

| module | what it is |
| --- | --- |
| `release_table` | a whole table in, released rows out: `tidegate.release` |
| `released` | released rows and what can be asked of them |
| `file` | a file of them, its metadata, and what to know about its answers: `tidegate.open` |
| `scan` | released values → running block sums |
| `index` | the block sums, in a file beside it |
| `growth` | has an indexed file only grown? |
| `plot` | level, moving average and error band |
"""

from pathlib import Path

from tidegate.released.file import ReleasedFile
from tidegate.released.release_table import release
from tidegate.released.released import Released

__all__ = ["Released", "ReleasedFile", "open_released", "release"]


def open_released(path: str | Path, format: str | None = None) -> ReleasedFile:  # noqa: A002  # as in open_source
    """Open a file that `tidegate release` wrote: CSV, JSON Lines or Parquet, compressed or not.

    The first time reads the file once and keeps an index beside it; later ones take a moment.

    Args:
        path: the file; its metadata lies inside (Parquet) or beside it (`.meta.json`).
        format: csv, jsonl or parquet, if the extension does not tell.

    Raises:
        SourceError: if it cannot be read, has no metadata, or its rows do not count up.
    """
    return ReleasedFile.open(path, format)
