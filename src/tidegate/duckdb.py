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

from tidegate.errors import QueryError
from tidegate.released import ReleasedFile
from tidegate.released.released import position_in_released
from tidegate.tables.optional_libraries import require_library

_COLUMNS = ("estimate", "low", "high", "standard_error")
_STRUCT = f"STRUCT({', '.join(f'{name} DOUBLE' for name in _COLUMNS)})"


def register(connection: Any) -> None:
    """Add `tidegate_sum(path, from, to, confidence := 0.95)` to a connection.

    It gives a structure of estimate, low, high and standard_error for each row. `from` and `to` are
    positions, counted from 0, or times if the file has them: a date, a timestamp, or text; where no
    row lies between two times it gives NULL, as sums in SQL do. No
    privacy is spent, however many sums are asked for. The program reads the files, whatever the
    connection may read itself: do not register this where strangers write the SQL.
    """
    arrow = require_library("pyarrow", "tidegate.duckdb")
    kind = arrow.struct([(name, arrow.float64()) for name in _COLUMNS])

    def sums(paths: Any, starts: Any, ends: Any, confidences: Any) -> Any:
        asked = list(zip(*(c.to_pylist() for c in (paths, starts, ends, confidences)), strict=True))
        found: list[dict[str, float] | None] = [None] * len(asked)
        groups: dict[tuple[str, float], list[int]] = {}
        for at, (path, _, _, confidence) in enumerate(asked):
            groups.setdefault((path, confidence), []).append(at)
        for (path, confidence), places in groups.items():
            file = _opened_for_duckdb((path, *_duckdb_file_version(path)))
            ranges = [asked[at][1:3] for at in places]
            for at, row in zip(places, _duckdb_sums(file, ranges, confidence), strict=True):
                found[at] = row
        return arrow.array(found, kind)

    parameters = ["VARCHAR", "VARCHAR", "VARCHAR", "DOUBLE"]
    connection.create_function("tidegate_range_sum", sums, parameters, _STRUCT, type="arrow")
    # A macro, since a function takes one type: positions and times are handed over as text.
    connection.execute(
        'create or replace temp macro tidegate_sum(path, "from", "to", confidence := 0.95) as '
        'tidegate_range_sum(path::varchar, "from"::varchar, "to"::varchar, confidence::double)'
    )


def _duckdb_sums(
    file: ReleasedFile, ranges: list[tuple[str, str]], confidence: float
) -> list[dict[str, float] | None]:
    """An answer for each range; None: no row lies in a range of time, as in SQL."""
    first, last = ([file.place(one[side]) for one in ranges] for side in (0, 1))
    answers = file.queries(first, last, confidence)
    columns = [getattr(answers, name).tolist() for name in _COLUMNS]
    found: list[dict[str, float] | None] = [
        dict(zip(_COLUMNS, row, strict=True)) for row in zip(*columns, strict=True)
    ]
    late = file.times is not None and bool(file.times.late.places.size)
    for at, (start, end) in enumerate(ranges):
        if position_in_released(start) is not None or position_in_released(end) is not None:
            continue
        if late:  # they count where their own time lies
            try:
                answer = file.query(from_=start, to=end, confidence=confidence)
                found[at] = {name: getattr(answer, name) for name in _COLUMNS}
            except QueryError:
                found[at] = None
        elif first[at] == last[at]:
            found[at] = None
    return found


def _duckdb_file_version(path: str) -> tuple[int, int]:
    try:
        found = Path(path).stat()
    except OSError:
        return 0, 0  # whoever opens it says what is wrong
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=16)
def _opened_for_duckdb(version: tuple[str, int, int]) -> ReleasedFile:
    """Open the file as it is now: it may have grown since the last query."""
    return ReleasedFile.open(version[0])
