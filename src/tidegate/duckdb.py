"""Functions for DuckDB: sums over released files, with their intervals, in SQL.

    import duckdb, tidegate.duckdb
    connection = duckdb.connect()
    tidegate.duckdb.register(connection)
    connection.sql("select tidegate_sum('private.csv', 0, 86400)")
    connection.sql("select tidegate_sum('private.csv', date '2024-02-01', date '2024-03-01').low")
    connection.sql("select tidegate_sum('private.csv', 0, 86400, key := 'north')")

A released CSV or Parquet file is also a table for DuckDB by itself: `from 'private.csv'`. Adding up
its values gives sums without intervals; `tidegate_sum` gives better ones, with intervals.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from tidegate.errors import QueryError
from tidegate.keyed.keyed_file import KeyedFile, open_one_file
from tidegate.record.answer import Answer
from tidegate.record.times.time_ranges_and_tables import NoRowsError
from tidegate.released import ReleasedFile
from tidegate.released.released import position_in_released
from tidegate.tables.optional_libraries import require_library

_COLUMNS = ("estimate", "low", "high", "standard_error")
_STRUCT = f"STRUCT({', '.join(f'{name} DOUBLE' for name in _COLUMNS)})"


def register(connection: Any) -> None:
    """Add `tidegate_sum(path, from, to, confidence := 0.95, key := '')` to a connection.

    It gives a structure of estimate, low, high and standard_error for each row. `from` and `to` are
    positions, counted from 0, or times if the file has them: a date, a timestamp, or text; where no
    row lies between two times it gives NULL, as sums in SQL do. Of a file with keys it gives the
    total over all of them, or the sum of one `key`, which may be a column. No
    privacy is spent, however many sums are asked for. The program reads the files, whatever the
    connection may read itself: do not register this where strangers write the SQL.
    """
    arrow = require_library("pyarrow", "tidegate.duckdb")
    kind = arrow.struct([(name, arrow.float64()) for name in _COLUMNS])

    def sums(paths: Any, starts: Any, ends: Any, confidences: Any, keys: Any) -> Any:
        columns = paths, starts, ends, confidences, keys
        asked = list(zip(*(column.to_pylist() for column in columns), strict=True))
        found: list[dict[str, float] | None] = [None] * len(asked)
        groups: dict[tuple[str, float, str], list[int]] = {}
        for at, row in enumerate(asked):
            if None not in row:  # of NULL, SQL expects NULL
                path, _, _, *alike = row
                groups.setdefault((path, *alike), []).append(at)
        for (path, confidence, key), places in groups.items():
            file = _opened_for_duckdb((path, *_duckdb_file_version(path)))
            ranges = [asked[at][1:3] for at in places]
            answers = _duckdb_sums(file, ranges, confidence, key)
            for at, answer in zip(places, answers, strict=True):
                found[at] = answer
        return arrow.array(found, kind)

    parameters = ["VARCHAR", "VARCHAR", "VARCHAR", "DOUBLE", "VARCHAR"]
    # "special": DuckDB refuses a NULL in a chunk without others, and ranges may have no row.
    how = {"type": "arrow", "null_handling": "special"}
    connection.create_function("tidegate_range_sum", sums, parameters, _STRUCT, **how)
    # A macro, since a function takes one type: positions and times are handed over as text. No key
    # is '', which none can be.
    connection.execute(
        'create or replace temp macro tidegate_sum(path, "from", "to", confidence := 0.95, '
        "key := '') as tidegate_range_sum(path::varchar, "
        '"from"::varchar, "to"::varchar, confidence::double, key::varchar)'
    )


def _duckdb_sums(
    file: ReleasedFile | KeyedFile, ranges: list[tuple[str, str]], confidence: float, key: str
) -> list[dict[str, float] | None]:
    """An answer for each range; None: no row lies in a range of time, as in SQL."""
    if isinstance(file, KeyedFile):
        if not key:
            return [_duckdb_total(file, *ends, confidence) for ends in ranges]
        file = file.of_key(key)
    elif key:
        raise QueryError("key: this file has no keys: it was released without --by")
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
                found[at] = _as_row(file.query(from_=start, to=end, confidence=confidence))
            except QueryError:
                found[at] = None
        elif first[at] == last[at]:
            found[at] = None
    return found


def _duckdb_total(
    file: KeyedFile, start: str, end: str, confidence: float
) -> dict[str, float] | None:
    """The total over all keys, between positions of each or between times."""
    places = position_in_released(start), position_in_released(end)
    try:
        if places == (None, None):
            return _as_row(file.query(from_=start, to=end, confidence=confidence))
        return _as_row(file.query(*places, confidence=confidence))
    except NoRowsError:
        return None


def _as_row(answer: Answer) -> dict[str, float]:
    return {name: getattr(answer, name) for name in _COLUMNS}


def _duckdb_file_version(path: str) -> tuple[int, int]:
    try:
        found = Path(path).stat()
    except OSError:
        return 0, 0  # whoever opens it says what is wrong
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=16)
def _opened_for_duckdb(version: tuple[str, int, int]) -> ReleasedFile | KeyedFile:
    """The file as it is now: it may have grown since the last question."""
    return open_one_file(version[0])
