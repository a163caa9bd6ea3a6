"""Bodies of requests as values, times and keys: JSON, JSON Lines, Arrow IPC."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import orjson

from tidegate.errors import InputError
from tidegate.keyed.key_names import key_texts
from tidegate.lattice import FloatArray
from tidegate.service.arrow_body import read_table
from tidegate.tables.to_numpy import plain
from tidegate.timestamps import Times, read_times

MOST_BYTES = 64 << 20
ARROW = "application/vnd.apache.arrow.stream"
_FORM = 'send a number, a list of numbers, or {"values": […], "times": […], "keys": […]}'
_ONE, _MANY = ("value", "time", "key"), ("values", "times", "keys")
_LINES = ("application/x-ndjson", "application/jsonl", "application/jsonlines")


class Rows(NamedTuple):
    """What a body holds."""

    values: FloatArray
    times: Times | None
    keys: list[str | None] | None
    until: str | None


def parsed(body: bytes, media_type: str, zone: str | None) -> Rows:
    """The rows of a body. Without values, each time is an event that counts as one.

    Raises:
        InputError: the body is not in this form. It names a position, never a value.
    """
    kind = media_type.partition(";")[0].strip().lower()
    until = None
    if kind == ARROW:
        values, times, keys = _arrow(body)
    elif kind in _LINES:
        values, times, keys = _lines(body)
    else:
        (values, times, keys), until = _json(body)
    if times is not None and not _listed(times):
        raise InputError(_FORM)
    if values is None:
        values = np.ones(0 if times is None else len(times))
    for name, column in (("times", times), ("keys", keys)):
        if column is not None and len(column) != values.size:
            raise InputError(f"there are {values.size} values and {len(column)} {name}")
    when = None if times is None else read_times(times, zone=zone)
    return Rows(values, when, None if keys is None else key_texts(keys), until)


Columns = tuple[FloatArray | None, Any, Any]


def _json(body: bytes) -> tuple[Columns, str | None]:
    content = _decoded(body, "the body is not JSON")
    if not isinstance(content, dict):
        return (_numbers(content if isinstance(content, list) else [content]), None, None), None
    until = content.pop("until", None)
    if until is not None and not isinstance(until, str):
        raise InputError("until must be a time as text")
    one = content.keys() <= set(_ONE)
    if not one and not content.keys() <= set(_MANY):
        raise InputError(f"the body has an unknown field: {_FORM}")
    names = _ONE if one and content else _MANY
    found = [content.get(name) for name in names]
    if names == _ONE:
        found = [
            [cell] if name in content else None for name, cell in zip(_ONE, found, strict=True)
        ]
    values, times, keys = found
    if values is None and times is None and until is None:
        raise InputError(_FORM)
    if keys is not None and not isinstance(keys, list):
        raise InputError(_FORM)
    return (None if values is None else _numbers(values), times, _keys(keys)), until


def _lines(body: bytes) -> Columns:
    rows = [
        _decoded(line, f"line {number} is not JSON")
        for number, line in enumerate(body.splitlines(), start=1)
    ]
    if not rows or not all(isinstance(row, dict) for row in rows):
        return _numbers(rows), None, None
    if not set(rows[0]) <= set(_ONE):
        raise InputError('a line is a number, or {"value": …, "time": …, "key": …}')
    values, times, keys = (  # what one row has and another has not is missing there
        [row.get(name) for row in rows] if any(name in row for row in rows) else None
        for name in _ONE
    )
    return None if values is None else _numbers(values), times, _keys(keys)


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


def _keys(keys: list[Any] | None) -> list[Any] | None:
    for place, key in enumerate(keys or ()):
        if isinstance(key, bool) or not isinstance(key, str | int | float | None):
            raise InputError(f"key {place} of the body is not a text or a whole number")
    return keys


def _listed(times: Any) -> bool:
    return not isinstance(times, str | bytes | dict | int | float | bool) and hasattr(
        times, "__len__"
    )


def _arrow(body: bytes) -> Columns:
    import pyarrow

    table = read_table(body)
    names = list(table.column_names)
    if any(names.count(name) > 1 for name in _ONE) or not {*names} & {*_ONE[:2]}:
        raise InputError(
            'the body is not an Arrow stream with columns "value", and perhaps "time" and "key"'
        )
    values = None
    if "value" in names:
        with suppress(TypeError, ValueError, pyarrow.ArrowException):  # they may quote the body
            values = np.asarray(plain(table.column("value")), dtype=np.float64)
        if values is None:
            raise InputError('the column "value" has no numbers')
    keys = table.column("key").to_pylist() if "key" in names else None
    return values, table.column("time") if "time" in names else None, _keys(keys)
