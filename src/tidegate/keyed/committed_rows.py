"""The rows of the last commit of a durable keyed release, and the length of the output before."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from tidegate.clock import Clock
from tidegate.keyed.rows import KeyedRows
from tidegate.sealing import seal, unseal

_TAIL = 4096  # bytes of the output that are recognised


def written_length(path: str) -> dict[str, Any]:
    """How long the output is, and what it ends with."""
    size = Path(path).stat().st_size
    return {"before": size, "tail": tail_digest(Path(path), size)}


def tail_digest(path: Path, end: int) -> str:
    """A digest of what stands before byte `end`."""
    with path.open("rb") as file:
        file.seek(max(0, end - _TAIL))
        return hashlib.sha256(file.read(min(end, _TAIL))).hexdigest()


def packed(rows: KeyedRows) -> bytes:
    """Released rows as bytes; none of it is secret."""
    clock = None if rows.clock is None else rows.clock.plain()
    body = {name: getattr(rows, name) for name in ("codes", "positions", "values", "levels")}
    times = rows.times if rows.times is not None else np.zeros(0, dtype=np.int64)
    return seal({"content": "rows"}, {**body, "times": times, "clock": clock}, None)


def unpacked(data: bytes, names: list[str]) -> KeyedRows | None:
    """The rows that `packed` was given; None: there were none."""
    if not data:
        return None
    _, body = unseal(data, None)
    clock = body["clock"] and Clock.from_plain(body["clock"])
    numbers = (body["codes"], body["positions"], body["values"], body["levels"])
    if not numbers[0].size:
        return None
    return KeyedRows(names, *numbers, body["times"] if clock else None, clock)
