"""Released rows: packed in the database, read by position, key and time, sent as JSON or Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson
from fastapi import Response
from sqlalchemy import select

from tidegate.durable.folder_lock import StorageError
from tidegate.keyed.keyed_rows import KeyedRows
from tidegate.lattice import FloatArray, IntArray
from tidegate.record.rows_and_levels import Rows
from tidegate.service import database_schema
from tidegate.service.database import Database
from tidegate.service.push_bodies import ARROW

_MOST_READ = 1 << 20  # rows that are looked through for one page


class RowBlock(NamedTuple):
    """Rows of a stream in order of release.

    Attributes:
        first: the place of the first one in that order, counted from 0.
        values, levels, times: as in `Rows`.
        codes, positions: of a stream with keys: which key, and the place within it.
        places: of each row, where some were left out.
    """

    first: int
    values: FloatArray
    levels: FloatArray
    times: IntArray | None = None
    codes: IntArray | None = None
    positions: IntArray | None = None
    places: IntArray | None = None

    @classmethod
    def of(cls, rows: Rows | KeyedRows, position: int) -> RowBlock:
        """A block of released rows; `position` is the stream's number of rows including these."""
        if isinstance(rows, Rows):
            return cls(*rows)
        first = position - len(rows)
        return cls(first, rows.values, rows.levels, rows.times, rows.codes, rows.positions)

    @property
    def end(self) -> int:
        """The place after the last row."""
        return self.first + self.values.size

    def part(self, start: int, end: int) -> RowBlock:
        """The rows at the places [start, end)."""
        low, high = max(0, start - self.first), max(0, end - self.first)
        cut: list[Any] = [None if one is None else one[low:high] for one in self[1:]]
        return RowBlock(self.first + low, *cut)

    def chosen(self, mask: Any) -> RowBlock:
        """A selection of the rows, with the place of each if they are not consecutive."""
        places = np.arange(self.first, self.end)[mask]
        kept: list[Any] = [None if one is None else one[mask] for one in self[1:-1]]
        first = int(places[0]) if places.size else self.first
        gaps = places.size and int(places[-1]) - first >= places.size
        return RowBlock(first, *kept)._replace(places=places if gaps else None)

    @property
    def row_places(self) -> IntArray:
        """The place of each row."""
        return np.arange(self.first, self.end) if self.places is None else self.places


def packed_released_rows(block: RowBlock) -> bytes:
    """All columns, one after another, in little-endian order."""
    columns: list[Any] = [block.values.astype("<f8"), block.levels.astype("<f8")]
    if block.codes is not None and block.positions is not None:
        columns += [block.codes.astype("<i8"), block.positions.astype("<i8")]
    if block.times is not None:
        columns.append(block.times.astype("<i8"))
    return b"".join(column.tobytes() for column in columns)


def unpacked_released_rows(first: int, end: int, body: bytes) -> RowBlock:
    """The inverse of packing: two to five columns; without times an even number.

    Raises:
        StorageError: the database holds something else.
    """
    count = end - first
    columns = len(body) // (8 * count) if count > 0 else 0
    if not 2 <= columns <= 5 or len(body) != 8 * columns * count:
        raise StorageError(f"the released rows from {first} on are damaged in the database")
    numbers = np.frombuffer(body, dtype="<f8", count=2 * count).reshape(2, count)
    rest = np.frombuffer(body, dtype="<i8", offset=16 * count).reshape(columns - 2, count)
    times = rest[-1] if columns % 2 else None
    codes, positions = (rest[0], rest[1]) if columns > 3 else (None, None)  # keys
    return RowBlock(first, numbers[0], numbers[1], times, codes, positions)


def stored_rows(stream: str, block: RowBlock) -> dict[str, Any]:
    """A row for the table of the database."""
    times = {}
    if block.times is not None:
        times = {"time_first": int(block.times.min()), "time_last": int(block.times.max())}
    body = {"first": block.first, "end": block.end, "body": packed_released_rows(block)}
    return {"stream": stream, **body, "time_first": None, "time_last": None, **times}


def rows_between(database: Database, stream: str, start: int, end: int) -> Iterator[RowBlock]:
    """The existing released rows of a stream at the places [start, end)."""
    table = database_schema.released
    query = (
        select(table.c.first, table.c.end, table.c.body)
        .where(table.c.stream == stream, table.c.end > start, table.c.first < end)
        .order_by(table.c.first)
    )
    few = query.execution_options(yield_per=64)
    with database.reading() as connection, connection.execute(few) as rows:
        for first, last, body in rows:
            yield unpacked_released_rows(first, last, bytes(body)).part(start, end)


class RowPage(NamedTuple):
    """Rows, and the place where the next page begins. None: there are no more yet."""

    blocks: list[RowBlock]
    following: int | None


def page_of_rows(
    database: Database,
    stream: str,
    start: int,
    limit: int,
    *,
    codes: Sequence[int] | None = None,
    times: tuple[int | None, int | None] = (None, None),
) -> RowPage:
    """At most `limit` rows from a place on; of some keys, and with from ≤ time < to, if given."""
    table = database_schema.released
    query = select(table.c.first, table.c.end, table.c.body).where(
        table.c.stream == stream, table.c.end > start
    )
    if times[0] is not None:
        query = query.where(table.c.time_last >= times[0])
    if times[1] is not None:
        query = query.where(table.c.time_first < times[1])
    if codes is None and times == (None, None):
        query = query.where(table.c.first < start + limit)
    wanted = None if codes is None else np.array(codes, dtype=np.int64)
    blocks: list[RowBlock] = []
    looked = 0
    few = query.order_by(table.c.first).execution_options(yield_per=64)
    with database.reading() as connection, connection.execute(few) as rows:
        for first, last, body in rows:
            block = unpacked_released_rows(first, last, bytes(body)).part(start, last)
            looked += block.values.size
            rows_of = np.flatnonzero(_mask_of_rows(block, wanted, times))
            following = block.end if rows_of.size <= limit else block.first + int(rows_of[limit])
            if rows_of.size:
                blocks.append(block.chosen(rows_of[:limit]))
                limit -= blocks[-1].values.size
            if not limit or looked >= _MOST_READ:
                return RowPage(blocks, following)
    return RowPage(blocks, None)


def _mask_of_rows(
    block: RowBlock, codes: IntArray | None, times: tuple[int | None, int | None]
) -> Any:
    """A mask of the requested rows."""
    mask = np.ones(block.values.size, dtype=np.bool_)
    if codes is not None and block.codes is not None:
        mask &= np.isin(block.codes, codes)
    if block.times is not None:
        if times[0] is not None:
            mask &= block.times >= times[0]
        if times[1] is not None:
            mask &= block.times < times[1]
    return mask


def rows_as_json(block: RowBlock, names: Sequence[str] | None) -> dict[str, object]:
    """Rows as columns. Times are nanoseconds since 1970, as texts: browsers would round them."""
    found: dict[str, object] = {"first": block.first}
    if block.places is not None:
        found["places"] = block.places.tolist()
    if names is not None and block.codes is not None and block.positions is not None:
        found["keys"] = [names[code] for code in block.codes.tolist()]
        found["positions"] = block.positions.tolist()
    found |= {"values": block.values.tolist(), "levels": block.levels.tolist()}
    if block.times is not None:
        found["times"] = [str(tick) for tick in block.times.tolist()]
    return found


def row_response(
    page: RowPage,
    names: Sequence[str] | None,
    headers: dict[str, str],
    *,
    arrow: bool,
    start: int,
) -> Response:
    """A page of rows. `next` is where the next page begins, or where to ask again later."""
    ends = [int(one.row_places[-1]) + 1 for one in page.blocks]
    following = page.following
    if following is None:
        following = max([start, *ends])
    more = page.following is not None
    if not arrow:
        rows = [rows_as_json(one, names) for one in page.blocks]
        body = orjson.dumps({"rows": rows, "next": following, "more": more})
        return Response(body, headers=headers, media_type="application/json")
    headers |= {"Tidegate-Next": str(following), "Tidegate-More": "true" if more else "false"}
    return Response(_rows_as_arrow(page.blocks, names), media_type=ARROW, headers=headers)


def _rows_as_arrow(blocks: list[RowBlock], names: Sequence[str] | None) -> bytes:
    import pyarrow

    def joined(name: str, kind: Any) -> Any:
        parts = [getattr(one, name) for one in blocks]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=kind)

    columns: dict[str, Any] = {}
    if names is not None:
        codes = pyarrow.array(joined("codes", np.int64).astype(np.int32))
        columns["key"] = pyarrow.DictionaryArray.from_arrays(codes, pyarrow.array(names, "string"))
    if blocks and blocks[0].times is not None:
        columns["time"] = joined("times", np.int64).astype("datetime64[ns]")
    columns["position"] = joined("positions" if names is not None else "row_places", np.int64)
    columns |= {"value": joined("values", np.float64), "level": joined("levels", np.float64)}
    table = pyarrow.table(columns)
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
