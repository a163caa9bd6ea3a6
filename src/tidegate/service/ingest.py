"""Bodies of requests as values and times: JSON, JSON Lines, Arrow IPC."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson

from tidegate.errors import InputError
from tidegate.lattice import FloatArray
from tidegate.service.arrow_body import read_table
from tidegate.tables.incoming import plain
from tidegate.timestamps import Times, read_times

MOST_BYTES = 64 << 20
ARROW = "application/vnd.apache.arrow.stream"
_FORM = 'send a number, a list of numbers, or {"values": […], "times": […]}'


def parsed(body: bytes, media_type: str, zone: str | None) -> tuple[FloatArray, Times | None]:
    """The values of a body, and their times if it has some.

    Raises:
        InputError: the body is not in this form. It names a position, never a value.
    """
    kind = media_type.partition(";")[0].strip().lower()
    if kind == ARROW:
        values, times = _arrow(body)
    elif kind in ("application/x-ndjson", "application/jsonl", "application/jsonlines"):
        values, times = _lines(body)
    else:
        values, times = _json(body)
    if times is not None and len(times) != values.size:
        raise InputError(f"there are {values.size} values and {len(times)} times")
    return values, None if times is None else read_times(times, zone=zone)


def _json(body: bytes) -> tuple[FloatArray, Any]:
    content = _decoded(body, "the body is not JSON")
    if isinstance(content, dict):
        if not content.keys() <= {"values", "times", "value", "time"}:
            raise InputError(f"the body has an unknown field: {_FORM}")
        if "value" in content:
            return _numbers([content["value"]]), [content["time"]] if "time" in content else None
        times = content.get("times")
        if times is not None and not isinstance(times, list):
            raise InputError(f"the times of the body are not a list: {_FORM}")
        return _numbers(content.get("values")), times
    return _numbers(content if isinstance(content, list) else [content]), None


def _lines(body: bytes) -> tuple[FloatArray, Any]:
    rows = [
        _decoded(line, f"line {number} is not JSON")
        for number, line in enumerate(body.splitlines(), start=1)
    ]
    if rows and all(isinstance(row, dict) for row in rows):
        timed = any("time" in row for row in rows)  # and a row without a time is refused
        times = [row.get("time") for row in rows] if timed else None
        return _numbers([row.get("value") for row in rows]), times
    return _numbers(rows), None


def _decoded(text: bytes, problem: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:  # its message quotes nothing, but it keeps the whole document
        pass
    raise InputError(problem)


def _numbers(values: Any) -> FloatArray:
    if not isinstance(values, list):
        raise InputError(_FORM)
    for place, value in enumerate(values):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise InputError(f"value {place} of the body is not a number")
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _arrow(body: bytes) -> tuple[FloatArray, Any]:
    table = read_table(body)
    names = list(table.column_names)
    if names.count("value") != 1 or names.count("time") > 1:
        raise InputError('the Arrow stream needs one column "value", and may have one "time"')
    values = np.asarray(plain(table.column("value")), dtype=np.float64)
    return values, table.column("time") if "time" in names else None
