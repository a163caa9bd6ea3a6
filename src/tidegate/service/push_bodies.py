"""Parse the bodies of pushes into values, times and keys: JSON, JSON Lines, Arrow IPC."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import orjson

from tidegate.errors import InputError
from tidegate.keyed.key_names import key_texts
from tidegate.lattice import FloatArray
from tidegate.service.arrow_bodies import read_pushed_table
from tidegate.service.strict_json import check_strict_json
from tidegate.tables.columns_to_numpy import column_to_numpy
from tidegate.timestamps import Times, read_times

MOST_BYTES = 64 << 20
ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"
_JSON_FORM = 'send a number, a list of numbers, or {"values": […], "times": […], "keys": […]}'
_ONE, _MANY = ("value", "time", "key"), ("values", "times", "keys")
_LINES = ("application/x-ndjson", "application/jsonl", "application/jsonlines")
MEDIA_TYPES = (JSON, *_LINES, ARROW)


class PushedRows(NamedTuple):
    """The content of a body; `valued`: whether it has values, not only times of events."""

    values: FloatArray
    times: Times | None
    keys: list[str | None] | None
    until: str | None
    valued: bool = True

    def __repr__(self) -> str:  # raw values
        return "<ParsedRows>"


def parsed_body(
    body: bytes,
    media_type: str,
    zone: str | None,
    events: bool = False,
    declared: Collection[str] | None = None,
) -> PushedRows:
    """The rows of a body. Without values, each time is an event that counts as one.

    A row whose key is not `declared` does not decide how times of others are read.

    Raises:
        InputError: the body is not in this form. It names a position, never a value.
    """
    try:
        return _parsed_body(body, media_type, zone, events, declared)
    except UnicodeDecodeError:  # names, zones and texts of Arrow may be any bytes; it keeps them
        raise InputError("the body has text that is not UTF-8") from None


def _parsed_body(
    body: bytes, media_type: str, zone: str | None, events: bool, declared: Collection[str] | None
) -> PushedRows:
    until = None
    if media_type == ARROW:
        values, times, keys = _arrow_body(body)
    elif media_type in _LINES:
        values, times, keys = _json_lines_body(body)
    else:
        (values, times, keys), until = _json_body(body)
    if times is not None and not _body_list(times):
        raise InputError(_JSON_FORM)
    valued = values is not None
    if values is None:
        values = np.ones(0 if times is None else len(times))
    for name, column in (("times", times), ("keys", keys)):
        if column is not None and len(column) != values.size:
            raise InputError(f"there are {values.size} values and {len(column)} {name}")
    names, counted = None if keys is None else key_texts(keys), None
    if names is not None and declared is not None and not events:
        counted = np.array([name in declared for name in names], dtype=np.bool_)
    when = None
    if times is not None:
        when = read_times(times, zone=zone, by_order=not events, counted=counted)
    return PushedRows(values, when, names, until, valued)


def parsed_body_of_columns(
    body: bytes, media_type: str, zone: str | None
) -> tuple[dict[str, FloatArray], Times | None]:
    """Rows with several values: `{"columns": {"fare": […], "tip": […]}, "times": […]}`, or Arrow.

    Raises:
        InputError: the body is not in this form. It names a position, never a value.
    """
    times: Any = None
    if media_type == ARROW:
        table = read_pushed_table(body)
        if len(set(table.column_names)) < len(table.column_names):
            raise InputError("a column comes twice")
        times = table.column("time") if "time" in table.column_names else None
        names = [name for name in table.column_names if name != "time"]
        found = {name: _body_column(table.column(name)) for name in names}
    else:
        content = _decoded_body(body, "the body is not JSON")
        known = isinstance(content, dict) and content.keys() <= {"columns", "times"}
        if not known or not isinstance(content.get("columns"), dict):
            raise InputError('send {"columns": {"NAME": […], …}, "times": […]}')
        times = content.get("times")
        check_strict_json(body, [(name, 1) for name in (*content, *content["columns"])])
        found = {name: _numbers_in_body(values) for name, values in content["columns"].items()}
    if times is not None and not _body_list(times):
        raise InputError("times must be a list")
    lengths = [column.size for column in found.values()]
    lengths += [] if times is None else [len(times)]
    if len(set(lengths)) > 1:
        raise InputError("columns and times must have one length")
    return found, None if times is None else read_times(times, zone=zone)


def _body_column(column: Any) -> FloatArray:
    import pyarrow

    with suppress(TypeError, ValueError, pyarrow.ArrowException):  # they may quote the body
        return np.asarray(column_to_numpy(column), dtype=np.float64)
    raise InputError("a column has no numbers")


Columns = tuple[FloatArray | None, Any, Any]


def _json_body(body: bytes) -> tuple[Columns, str | None]:
    content = _decoded_body(body, "the body is not JSON")
    if not isinstance(content, dict):
        return (
            _numbers_in_body(content if isinstance(content, list) else [content]),
            None,
            None,
        ), None
    check_strict_json(body, [(name, 1) for name in content])
    until = content.pop("until", None)
    if until is not None and not isinstance(until, str):
        raise InputError("until must be a time as text")
    one = content.keys() <= set(_ONE)
    if not one and not content.keys() <= set(_MANY):
        raise InputError(f"the body has an unknown field: {_JSON_FORM}")
    names = _ONE if one and content else _MANY
    found = [content.get(name) for name in names]
    if names == _ONE:
        found = [
            [cell] if name in content else None for name, cell in zip(_ONE, found, strict=True)
        ]
    values, times, keys = found
    if values is None and times is None and until is None:
        raise InputError(_JSON_FORM)
    if keys is not None and not isinstance(keys, list):
        raise InputError(_JSON_FORM)
    return (None if values is None else _numbers_in_body(values), times, _keys_in_body(keys)), until


def _json_lines_body(body: bytes) -> Columns:
    rows = [
        _decoded_body(line, f"line {number} is not JSON")
        for number, line in enumerate(body.splitlines(), start=1)
    ]
    if not rows or not all(isinstance(row, dict) for row in rows):
        return _numbers_in_body(rows), None, None
    known = frozenset(_ONE)
    for number, row in enumerate(rows, start=1):
        if not known.issuperset(row):  # a misspelt field would count as a missing value
            raise InputError(
                f'line {number} has an unknown field: a line is a number, or {{"value": …, '
                '"time": …, "key": …}'
            )
    counts = [(name, sum(name in row for row in rows)) for name in _ONE]
    check_strict_json(body, counts, lines=True)
    values, times, keys = (  # what one row has and another has not is missing there
        [row.get(name) for row in rows] if count else None for name, count in counts
    )
    return None if values is None else _numbers_in_body(values), times, _keys_in_body(keys)


def _decoded_body(text: bytes, problem: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:  # its message quotes nothing, but it keeps the whole document
        pass
    raise InputError(problem)


def _numbers_in_body(values: Any) -> FloatArray:
    if not isinstance(values, list):
        raise InputError(_JSON_FORM)
    for place, value in enumerate(values):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise InputError(f"value {place} of the body is not a number")
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _keys_in_body(keys: list[Any] | None) -> list[Any] | None:
    for place, key in enumerate(keys or ()):
        if isinstance(key, bool) or not isinstance(key, str | int | float | None):
            raise InputError(f"key {place} of the body is not a text or a whole number")
    return keys


def _body_list(times: Any) -> bool:
    return not isinstance(times, str | bytes | dict | int | float | bool) and hasattr(
        times, "__len__"
    )


def _arrow_body(body: bytes) -> Columns:
    table = read_pushed_table(body)
    names = list(table.column_names)
    if any(names.count(name) > 1 for name in _ONE) or not {*names} & {*_ONE[:2]}:
        raise InputError(
            'the body is not an Arrow stream with columns "value", and perhaps "time" and "key"'
        )
    values = None
    if "value" in names:
        values = _body_column(table.column("value"))
    keys = table.column("key").to_pylist() if "key" in names else None
    return values, table.column("time") if "time" in names else None, _keys_in_body(keys)
