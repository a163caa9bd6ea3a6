"""Functions for DuckDB: sums over released files, with their intervals, in SQL.

    import duckdb, tidegate.duckdb
    connection = duckdb.connect()
    tidegate.duckdb.register(connection)
    connection.sql("select tidegate_sum('private.csv', 0, 86400)")
    connection.sql("select tidegate_sum('private.csv', date '2024-02-01', date '2024-03-01').low")

A released CSV or Parquet file is also a table for DuckDB by itself: `from 'private.csv'`. Adding up
its values gives sums without intervals; `tidegate_sum` gives better ones, with intervals.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from tidegate.released import ReleasedFile
from tidegate.tables.libraries import require

_COLUMNS = ("estimate", "low", "high", "standard_error")
_STRUCT = f"STRUCT({', '.join(f'{name} DOUBLE' for name in _COLUMNS)})"


def register(connection: Any) -> None:
    """Add `tidegate_sum(path, from, to, confidence := 0.95)` to a connection.

    It gives a structure of estimate, low, high and standard_error for each row. `from` and `to` are
    positions, counted from 0, or times if the file has them: a date, a timestamp, or text. No
    privacy is spent, however many sums are asked for. The program reads the files, whatever the
    connection may read itself: do not register this where strangers write the SQL.
    """
    arrow = require("pyarrow", "tidegate.duckdb")
    kind = arrow.struct([(name, arrow.float64()) for name in _COLUMNS])

    def sums(paths: Any, starts: Any, ends: Any, confidences: Any) -> Any:
        asked = list(zip(*(c.to_pylist() for c in (paths, starts, ends, confidences)), strict=True))
        found: list[dict[str, float]] = [{}] * len(asked)
        groups: dict[tuple[str, float], list[int]] = {}
        for at, (path, _, _, confidence) in enumerate(asked):
            groups.setdefault((path, confidence), []).append(at)
        for (path, confidence), places in groups.items():
            file = _opened((path, *_version(path)))
            first, last = ([file.place(asked[at][side]) for at in places] for side in (1, 2))
            answers = file.queries(first, last, confidence)
            columns = [getattr(answers, name).tolist() for name in _COLUMNS]
            for at, row in zip(places, zip(*columns, strict=True), strict=True):
                found[at] = dict(zip(_COLUMNS, row, strict=True))
        return arrow.array(found, kind)

    parameters = ["VARCHAR", "VARCHAR", "VARCHAR", "DOUBLE"]
    connection.create_function("tidegate_range_sum", sums, parameters, _STRUCT, type="arrow")
    # A macro, since a function takes one type: positions and times are handed over as text.
    connection.execute(
        'create or replace temp macro tidegate_sum(path, "from", "to", confidence := 0.95) as '
        'tidegate_range_sum(path::varchar, "from"::varchar, "to"::varchar, confidence::double)'
    )


def _version(path: str) -> tuple[int, int]:
    try:
        found = Path(path).stat()
    except OSError:
        return 0, 0  # whoever opens it says what is wrong
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=16)
def _opened(version: tuple[str, int, int]) -> ReleasedFile:
    """The file as it is now: it may have grown since the last question."""
    return ReleasedFile.open(version[0])
