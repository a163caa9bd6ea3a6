"""Pages of released rows as answers to a request: JSON or Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
from fastapi import Response

from tidegate.service.released_rows import Block, Page
from tidegate.service.request_bodies import ARROW


def as_json(block: Block, names: Sequence[str] | None) -> dict[str, object]:
    """Rows as columns. Times are nanoseconds since 1970, as texts: browsers round such numbers."""
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


def answer(page: Page, names: Sequence[str] | None, *, arrow: bool, start: int) -> Response:
    """A page of rows. `next`: where the next one begins, or the same question again later."""
    ends = [int(one.row_places[-1]) + 1 for one in page.blocks]
    following = page.following
    if following is None:
        following = max([start, *ends])
    more = page.following is not None
    if not arrow:
        rows = [as_json(one, names) for one in page.blocks]
        body = orjson.dumps({"rows": rows, "next": following, "more": more})
        return Response(body, media_type="application/json")
    headers = {"Tidegate-Next": str(following), "Tidegate-More": "true" if more else "false"}
    return Response(_arrow(page.blocks, names), media_type=ARROW, headers=headers)


def _arrow(blocks: list[Block], names: Sequence[str] | None) -> bytes:
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
