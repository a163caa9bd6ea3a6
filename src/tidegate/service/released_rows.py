"""Released rows in the database: packed by commit, read by position."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sqlalchemy import select

from tidegate.durable.folder import StorageError
from tidegate.record.rows import Rows
from tidegate.service import schema
from tidegate.service.database import Database

_COLUMNS = 2  # values and levels; times may follow


def packed(rows: Rows) -> bytes:
    """Values, levels and times, one after the other, in little-endian order."""
    times = b"" if rows.times is None else rows.times.astype("<i8").tobytes()
    return rows.values.astype("<f8").tobytes() + rows.levels.astype("<f8").tobytes() + times


def unpacked(first: int, end: int, body: bytes) -> Rows:
    """What was packed.

    Raises:
        StorageError: the database holds something else.
    """
    count = end - first
    if count < 0 or len(body) not in (8 * _COLUMNS * count, 8 * (_COLUMNS + 1) * count):
        raise StorageError(f"the released rows from {first} on are damaged in the database")
    numbers = np.frombuffer(body, dtype="<f8", count=_COLUMNS * count)
    times = None
    if len(body) > 8 * _COLUMNS * count:
        times = np.frombuffer(body, dtype="<i8", offset=8 * _COLUMNS * count)
    return Rows(first, numbers[:count], numbers[count:], times)


def between(database: Database, stream: str, start: int, end: int) -> Iterator[Rows]:
    """Released rows [start, end) of a stream, as far as there are such."""
    table = schema.released
    query = (
        select(table.c.first, table.c.end, table.c.body)
        .where(table.c.stream == stream, table.c.end > start, table.c.first < end)
        .order_by(table.c.first)
    )
    with database.reading() as connection:
        for first, last, body in connection.execute(query):
            rows = unpacked(first, last, bytes(body)).since(start)
            keep = end - rows.first
            times = None if rows.times is None else rows.times[:keep]
            yield Rows(rows.first, rows.values[:keep], rows.levels[:keep], times)
