"""Parse the bodies of pushes into values, times and keys: JSON, JSON Lines, Arrow IPC.

Of Arrow streams, the size is known before anything of them is made.
A few bytes of an Arrow stream can stand for any number of rows (columns of nulls, runs) or for any
number of bytes (compressed buffers). Both are read off the messages' headers, which are
FlatBuffers, before pyarrow builds a table.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import orjson

from tidegate.errors import InputError
from tidegate.keyed.key_names import key_texts
from tidegate.lattice import FloatArray
from tidegate.service.strict_json import check_strict_json
from tidegate.tables.columns_to_numpy import column_to_numpy
from tidegate.timestamps import Times, read_times

MOST_ROWS = 32 << 20  # as many numbers as a JSON body of 64 MiB can have
MOST_ARROW_BYTES = 512 << 20  # of buffers, once they are unpacked
_HEADER, _RECORD_BATCH, _DICTIONARY_DATA = 2, "record batch", 1  # fields of FlatBuffers, by number
_LENGTH, _BUFFERS, _COMPRESSION = 0, 2, 3
_ARROW_FORM = 'the body is not an Arrow stream with a column "value", and perhaps "time"'


def read_pushed_table(body: bytes) -> Any:
    """The table of an Arrow stream.

    Raises:
        InputError: it is none, or one that is too large. Nothing of it is quoted.
    """
    import pyarrow

    try:
        rows, unpacked = _arrow_body_size(pyarrow, body)
        if rows <= MOST_ROWS and unpacked <= MOST_ARROW_BYTES:
            table = pyarrow.ipc.open_stream(body).read_all()
            table.validate(full=True)  # or a column that lies about its buffers ends the process
            return table
    except Exception:  # noqa: BLE001  # whatever the library raises may quote the body
        raise InputError(_ARROW_FORM) from None
    raise InputError(
        f"the body has more than {MOST_ROWS:,} rows, or unpacks to more than "
        f"{MOST_ARROW_BYTES >> 20} MiB: send it in parts"
    )


def _arrow_body_size(pyarrow: Any, body: bytes) -> tuple[int, int]:
    """The number of rows, and the size of the unpacked buffers in bytes."""
    rows = unpacked = 0
    for message in pyarrow.ipc.MessageReader.open_stream(body):
        if message.type not in (_RECORD_BATCH, "dictionary"):
            continue
        header = message.metadata.to_pybytes()
        batch = _body_table(header, _body_field(header, _body_unsigned(header, 0), _HEADER))
        if message.type != _RECORD_BATCH:
            batch = _body_table(header, _body_field(header, batch, _DICTIONARY_DATA))
        length = _body_field(header, batch, _LENGTH)
        rows += _body_signed(header, length) if length else 0
        unpacked += _unpacked_body(header, batch, message.body.to_pybytes())
    return rows, unpacked


def _unpacked_body(header: bytes, batch: int, body: bytes) -> int:
    """The size of a batch's buffers in bytes; a packed one begins with that number."""
    if not _body_field(header, batch, _COMPRESSION):
        return len(body)
    buffers = _body_table(header, _body_field(header, batch, _BUFFERS))
    total = 0
    for at in range(_body_unsigned(header, buffers)):
        offset, length = struct.unpack_from("<qq", header, buffers + 4 + 16 * at)
        if length:
            size = _body_signed(body, offset)
            total += length if size == -1 else size  # −1: it is not packed
            if size < -1 or not 0 <= offset <= len(body):
                raise ValueError("no size")
    return total


# -- FlatBuffers ---------------------------------------------------------------------------------


def _body_field(data: bytes, table: int, number: int) -> int:
    """The offset of a field in a table; 0: it is missing."""
    fields = table - struct.unpack_from("<i", data, table)[0]
    size = struct.unpack_from("<H", data, fields)[0]
    place = 4 + 2 * number
    offset = int(struct.unpack_from("<H", data, fields + place)[0]) if place < size else 0
    return table + offset if offset else 0


def _body_table(data: bytes, place: int) -> int:
    return place + _body_unsigned(data, place)


def _body_unsigned(data: bytes, place: int) -> int:
    return int(struct.unpack_from("<I", data, place)[0])


def _body_signed(data: bytes, place: int) -> int:
    return int(struct.unpack_from("<q", data, place)[0])


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


def parsed_body(body: bytes, media_type: str, zone: str | None, events: bool = False) -> PushedRows:
    """The rows of a body. Without values, each time is an event that counts as one.

    Raises:
        InputError: the body is not in this form. It names a position, never a value.
    """
    try:
        return _parsed_body(body, media_type, zone, events)
    except UnicodeDecodeError:  # names, zones and texts of Arrow may be any bytes; it keeps them
        raise InputError("the body has text that is not UTF-8") from None


def _parsed_body(body: bytes, media_type: str, zone: str | None, events: bool) -> PushedRows:
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
    when = None if times is None else read_times(times, zone=zone, by_order=not events)
    return PushedRows(values, when, None if keys is None else key_texts(keys), until, valued)


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
